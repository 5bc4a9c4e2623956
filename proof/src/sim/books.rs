//! The provider: a shop that takes charges and a bank that takes refunds. It keeps the truth: what it received, and what
//! it applied.

use std::collections::HashMap;

use oncegate_policy::form;
use serde_json::{Value, json};

use super::message::Message;
use super::world::{Fault, World};

/// A refund's own mark, as the sidecar sets it.
const MARK: &str = "oncegate_effect";
/// Looks may have to wait so long before a write is listed, at most.
const LAG_MS_MAX: usize = 10 * 60_000;

/// When everything was made, in seconds since 1970: later than any dispatch. The sidecar's clock jumps, and that an older
/// record is not taken for an effect's is tried elsewhere.
const CREATED: i64 = 32_503_680_000;

/// One operation that the provider has a record of.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) effect: String,
    order: String,
    customer: String,
    amount: i64,
    /// Its record says `failed`: nothing was moved.
    failed: bool,
    /// From when on it is listed; `None` never.
    listed_at_ms: Option<u64>,
}

/// A write as it arrived.
struct Received {
    key: String,
    body: Vec<u8>,
}

/// What the provider knows.
#[derive(Default)]
pub(crate) struct Books {
    entries: Vec<Entry>,
    /// The places of an effect's entries, each after those before it.
    of_effect: HashMap<String, Vec<usize>>,
    /// Answers under a key, which it deduplicates on.
    by_key: HashMap<String, (u16, Value)>,
    received: HashMap<String, Vec<Received>>,
}

impl Books {
    /// How often an effect was applied.
    pub(crate) fn applied(&self, effect: &str) -> usize {
        self.of(effect).filter(|(_, entry)| !entry.failed).count()
    }

    /// How often a write of an effect arrived.
    pub(crate) fn received(&self, effect: &str) -> usize {
        self.received.get(effect).map_or(0, Vec::len)
    }

    /// Whether looks can find an effect.
    pub(crate) fn lists(&self, effect: &str) -> bool {
        self.of(effect).any(|(_, entry)| entry.listed_at_ms.is_some())
    }

    /// Whatever was to be listed later is listed now; what never was stays so.
    pub(crate) fn list_what_lags(&mut self) {
        for entry in self.entries.iter_mut().filter(|entry| entry.listed_at_ms.is_some()) {
            entry.listed_at_ms = Some(0);
        }
    }

    /// The provider's own id of what an effect did.
    pub(crate) fn reference(&self, effect: &str) -> Option<String> {
        self.of(effect).next().map(|(at, _)| format!("re_{at}"))
    }

    /// The operations of an effect, with their places.
    fn of(&self, effect: &str) -> impl Iterator<Item = (usize, &Entry)> {
        let places = self.of_effect.get(effect).into_iter().flatten();
        places.filter_map(|at| Some((*at, self.entries.get(*at)?)))
    }

    /// Writes an operation down. Its place.
    fn add(&mut self, entry: Entry) -> usize {
        let at = self.entries.len();
        self.of_effect.entry(entry.effect.clone()).or_default().push(at);
        self.entries.push(entry);
        at
    }
}

/// What becomes of every write, where that is not drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fate {
    /// It is answered with this status, after so many milliseconds; applied if that is 200.
    Answers(u16, u64),
    /// It is applied, and the connection ends after so many milliseconds.
    Loses(u64),
}

/// How an answer goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Goes {
    /// Whole.
    Whole,
    /// Not at all: the connection ends.
    Nowhere,
    /// Not at all: the connection is reset.
    Reset,
    /// Half of it, then the connection is reset.
    Half,
    /// As something that is no HTTP.
    Garbled,
}

/// What the provider does about a request.
pub(crate) struct Reaction {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) goes: Goes,
    pub(crate) after_ms: u64,
}

impl Reaction {
    fn plain(status: u16, body: Value) -> Self {
        Self { status, body, goes: Goes::Whole, after_ms: 2 }
    }

    /// As it goes over the wire.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let body = self.body.to_string();
        let (status, length) = (self.status, body.len());
        let head = "Content-Type: application/json\r\nRequest-Id: req_simulated\r\nRetry-After: 1\r\n";
        format!("HTTP/1.1 {status} Simulated\r\n{head}Content-Length: {length}\r\n\r\n{body}").into_bytes()
    }
}

/// What is asked of the provider in a write.
struct Asked {
    effect: String,
    order: String,
    customer: String,
    amount: i64,
    key: String,
}

/// Takes a request in, and says what becomes of it.
pub(crate) fn react(world: &mut World, request: &Message) -> Reaction {
    if request.start.starts_with("POST ") {
        return write(world, request);
    }
    look(world, request)
}

fn write(world: &mut World, request: &Message) -> Reaction {
    let Some(asked) = asked(request) else {
        world.violated("I11: what arrives is what was judged", format!("{request:?}"));
        return Reaction::plain(400, json!({}));
    };
    arrives(world, &asked, request);
    let effect = world.number(&asked.effect);
    if let Some((status, body)) = world.books.by_key.get(&asked.key).cloned() {
        world.note(("again", effect));
        return Reaction::plain(status, body);
    }
    let reaction = decide(world, &asked);
    world.note(("write", effect, reaction.status, reaction.goes, reaction.after_ms));
    reaction
}

/// I1, I2 and the bytes of a replay, at the moment at which a write arrives.
fn arrives(world: &mut World, asked: &Asked, request: &Message) {
    let received = world.books.received.entry(asked.effect.clone()).or_default();
    let same = received.iter().all(|before| before.key == asked.key && before.body == request.body);
    received.push(Received { key: asked.key.clone(), body: request.body.clone() });
    let times = received.len();
    if !same {
        world.violated("I1: a replay sends the very same bytes under the same key", asked.effect.clone());
    }
    // A dispatch has no row of its own while its effect says `dispatching`.
    let recorded = "SELECT coalesce(sum((e.stage = 'dispatching')
            + (SELECT count(*) FROM attempt a WHERE a.effect = e.key AND a.kind IN ('dispatch', 'replay')
                 AND a.key BETWEEN e.key << 20 AND (e.key << 20) + 1048575)), 0)
        FROM effect e WHERE e.id = ?1";
    let found = world
        .shell
        .prepare_cached(recorded)
        .and_then(|mut statement| statement.query_row([&asked.effect], |row| row.get::<_, u32>(0)));
    match found {
        Ok(attempts) if attempts as usize >= times => {}
        Ok(attempts) => {
            let what = format!("{} arrived {times} times with {attempts} attempts on record", asked.effect);
            world.violated("I1/I2: every write is recorded before it is sent, and sent once", what);
        }
        Err(error) => world.violated("the record can be read", error.to_string()),
    }
}

fn asked(request: &Message) -> Option<Asked> {
    let key = request.header("idempotency-key")?.to_owned();
    if let Some(effect) = request.header("x-effect") {
        let body: Value = serde_json::from_slice(&request.body).ok()?;
        let text = |name: &str| Some(body.get(name)?.as_str()?.to_owned());
        let amount = body.get("amount")?.as_i64()?;
        return Some(Asked {
            effect: effect.to_owned(),
            order: text("order")?,
            customer: text("customer")?,
            amount,
            key,
        });
    }
    let body = form::parse(&request.body).ok()?;
    let text = |name: &str| Some(body.get(name)?.as_str()?.to_owned());
    let metadata = |name: &str| Some(body.get("metadata")?.get(name)?.as_str()?.to_owned());
    Some(Asked {
        effect: metadata(MARK)?,
        order: metadata("order")?,
        customer: text("payment_intent")?,
        amount: text("amount")?.parse().ok()?,
        key,
    })
}

/// What becomes of a write that is new under its key.
fn decide(world: &mut World, asked: &Asked) -> Reaction {
    if let Some(fate) = world.fate {
        return fixed(world, asked, fate);
    }
    let is_refund = asked.customer.starts_with("pi_");
    if world.breaks(3, Fault::FailedWithoutApply) {
        return Reaction::plain(503, json!({"error": "busy"}));
    }
    if world.breaks(2, Fault::Dropped) {
        return Reaction { goes: Goes::Reset, ..Reaction::plain(500, Value::Null) };
    }
    if !world.healed && world.rng.below(100) < 4 {
        let refusal = (402, json!({"error": {"code": "card_declined"}}));
        world.books.by_key.insert(asked.key.clone(), refusal.clone());
        return Reaction::plain(refusal.0, refusal.1);
    }
    if !world.healed && world.rng.below(100) < 1 {
        return Reaction::plain(if world.rng.coin() { 409 } else { 429 }, json!({"error": "conflict"}));
    }
    if is_refund && world.breaks(4, Fault::FailedRecord) {
        enter(world, asked, true);
        // Under its key it stays failed.
        world.books.by_key.insert(asked.key.clone(), (402, json!({"error": {"code": "refund_failed"}})));
        return Reaction { goes: Goes::Nowhere, ..Reaction::plain(500, Value::Null) };
    }
    let body = enter(world, asked, false);
    world.books.by_key.insert(asked.key.clone(), (200, body.clone()));
    let answer = Reaction::plain(200, body);
    if world.breaks(5, Fault::LostAnswer) {
        return Reaction { goes: Goes::Nowhere, ..answer };
    }
    if world.breaks(4, Fault::ResetMidAnswer) {
        return Reaction { goes: Goes::Half, ..answer };
    }
    if world.breaks(4, Fault::FailedAfterApply) {
        return Reaction { status: 500, body: json!({"error": "after all"}), ..answer };
    }
    if world.breaks(2, Fault::Garbled) {
        return Reaction { goes: Goes::Garbled, ..answer };
    }
    if world.breaks(3, Fault::SlowAnswer) {
        let after_ms = 13_000 + world.rng.below(40_000) as u64;
        return Reaction { after_ms, ..answer };
    }
    if world.breaks(2, Fault::NoAnswer) {
        return Reaction { after_ms: 90_000, ..answer };
    }
    let after_ms = 5 + world.rng.below(400) as u64;
    Reaction { after_ms, ..answer }
}

fn fixed(world: &mut World, asked: &Asked, fate: Fate) -> Reaction {
    let (status, goes, after_ms) = match fate {
        Fate::Answers(status, after_ms) => (status, Goes::Whole, after_ms),
        Fate::Loses(after_ms) => (200, Goes::Nowhere, after_ms),
    };
    let body = if status == 200 { enter(world, asked, false) } else { json!({"error": "refused"}) };
    world.books.by_key.insert(asked.key.clone(), (status, body.clone()));
    Reaction { status, body, goes, after_ms }
}

/// Writes an operation down; its own object.
fn enter(world: &mut World, asked: &Asked, failed: bool) -> Value {
    let applied = |entry: &Entry| entry.order == asked.order && !entry.failed;
    if !failed && let Some(before) = world.books.entries.iter().find(|entry| applied(entry)) {
        let what = format!("order {} by {} and by {}", asked.order, before.effect, asked.effect);
        world.violated("P2: an order is never paid twice", what);
    }
    let now = world.now_ms();
    let listed_at_ms = match world.breaks(12, Fault::ListLags) {
        false => Some(now),
        true if world.rng.below(8) == 0 => None,
        true => Some(now + world.rng.below(LAG_MS_MAX) as u64),
    };
    let at = world.books.add(Entry {
        effect: asked.effect.clone(),
        order: asked.order.clone(),
        customer: asked.customer.clone(),
        amount: asked.amount,
        failed,
        listed_at_ms,
    });
    object(at, &world.books.entries[at])
}

fn object(at: usize, entry: &Entry) -> Value {
    json!({
        "id": format!("re_{at}"),
        "object": "refund",
        "created": CREATED,
        "ref": entry.effect,
        "order": entry.order,
        "amount": entry.amount,
        "currency": "usd",
        "payment_intent": entry.customer,
        "status": if entry.failed { "failed" } else { "succeeded" },
        "metadata": { "order": entry.order, "oncegate_effect": entry.effect },
    })
}

fn look(world: &mut World, request: &Message) -> Reaction {
    if world.breaks(8, Fault::LookFails) {
        let goes = if world.rng.coin() { Goes::Whole } else { Goes::Nowhere };
        return Reaction { goes, ..Reaction::plain(500, Value::Null) };
    }
    let now = world.now_ms();
    let target = request.second();
    let wanted = target.split_once('?').map(|(_, query)| query).unwrap_or_default();
    let word = |name: &str| wanted.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
    let (effect, customer) = (word("ref"), word("payment_intent"));
    let listed = world.books.entries.iter().enumerate().rev().filter(|(_, entry)| {
        entry.listed_at_ms.is_some_and(|at| at <= now)
            && (effect == Some(&entry.effect) || customer == Some(&entry.customer))
    });
    if let Some(id) = target.strip_prefix("/v1/refunds/re_") {
        let at = id.parse::<usize>().unwrap_or(usize::MAX);
        return match world.books.entries.get(at) {
            Some(entry) => Reaction::plain(200, object(at, entry)),
            None => Reaction::plain(404, json!({"error": "no such refund"})),
        };
    }
    let data: Vec<Value> = listed.map(|(at, entry)| object(at, entry)).collect();
    Reaction::plain(200, json!({"object": "list", "has_more": false, "data": data}))
}
