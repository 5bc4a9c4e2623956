//! Agents: they buy and refund, ask again, vary what they ask, and hang up. What they are told is held against what the
//! provider did.

use std::collections::BTreeSet;
use std::time::Duration;

use oncegate::upstream::wire::Stream;
use oncegate_tests::canary::Finder;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;

use super::config::{ASK_ABOVE, KEYS, RESPOND_WITHIN_MS, SHOP_HOST};
use super::message::{Message, Messages};
use super::world::{Fault, World};
use crate::rng::Rng;

/// Customers of one seed: few enough that two orders of one meet.
const CUSTOMERS: usize = 40;
/// Beyond what an agent waits: planning, the record, the way.
const ANSWER_MARGIN_MS: u64 = 5_000;

/// What an agent wants: one order.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    name: String,
    customer: String,
    amount: i64,
    refund: bool,
    /// Which of the two agents' keys asks for it, always the same one.
    caller: usize,
}

impl Order {
    /// A charge, by its number and its customer's.
    pub(crate) fn charge(number: usize, customer: usize, amount: i64) -> Self {
        let (name, customer) = (format!("c{number}"), format!("cus_{customer}"));
        Self { name, customer, amount, refund: false, caller: 0 }
    }
}

/// One request of an agent's, or of an operator's.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) number: usize,
    pub(crate) purpose: Purpose,
    pub(crate) bytes: Vec<u8>,
    /// The agent is gone after so long.
    pub(crate) hangs_up_after_ms: Option<u64>,
}

/// What a call is for.
#[derive(Clone, Debug)]
pub(crate) enum Purpose {
    /// An order, or a variation of one.
    Order { at: usize, varied: bool },
    /// Something that an operator does; what has to come of it.
    Operate(Wanted),
}

/// What an operator's call has to come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Whatever the record allows.
    Any,
    /// It is refused: the key that asked decides nothing (I13).
    Refused,
}

/// What came of a call.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) call: Call,
    pub(crate) took_ms: u64,
    /// `None`: nobody was there any more to hear it.
    pub(crate) answer: Option<Message>,
}

/// Everything that agents remember, over crashes.
pub(crate) struct Agents {
    rng: Rng,
    orders: Vec<Order>,
    calls: usize,
    /// Effects that were shown to anybody: each has to stay readable for ever.
    pub(crate) shown: BTreeSet<String>,
}

impl Agents {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng, orders: vec![], calls: 0, shown: BTreeSet::new() }
    }

    /// Milliseconds until the next call.
    pub(crate) fn pause_ms(&mut self) -> u64 {
        20 + self.rng.below(900) as u64
    }

    /// The next call of any agent.
    pub(crate) fn next(&mut self, world: &mut World) -> Call {
        let again = !self.orders.is_empty() && self.rng.below(100) < 22;
        let at = if again { self.before() } else { self.order() };
        let varied = again && self.rng.below(4) == 0;
        let hangs_up = world.breaks(5, Fault::HangUp);
        let hangs_up_after_ms = hangs_up.then(|| 1 + self.rng.below(300) as u64);
        let mut order = self.orders[at].clone();
        order.amount += i64::from(varied);
        let bytes = if order.refund { by_name(&order) } else { proxied(&order, self.rng.next()) };
        self.call(Purpose::Order { at, varied }, bytes, hangs_up_after_ms)
    }

    /// A call for this very order.
    pub(crate) fn order_now(&mut self, order: Order, hangs_up_after_ms: Option<u64>) -> Call {
        let bytes = proxied(&order, self.rng.next());
        self.orders.push(order);
        let purpose = Purpose::Order { at: self.orders.len() - 1, varied: false };
        self.call(purpose, bytes, hangs_up_after_ms)
    }

    /// A call with the next number.
    pub(crate) fn call(&mut self, purpose: Purpose, bytes: Vec<u8>, hangs_up_after_ms: Option<u64>) -> Call {
        self.calls += 1;
        Call { number: self.calls, purpose, bytes, hangs_up_after_ms }
    }

    /// One of the latest orders, mostly.
    fn before(&mut self) -> usize {
        let back = if self.rng.below(3) > 0 { 12 } else { self.orders.len() };
        self.orders.len() - 1 - self.rng.below(back.min(self.orders.len()))
    }

    fn order(&mut self) -> usize {
        let (number, refund) = (self.orders.len(), self.rng.below(2) == 0);
        let customer = self.rng.below(CUSTOMERS);
        let large = self.rng.below(100) < 3;
        let amount = i64::try_from(1 + self.rng.below(80)).unwrap_or(1);
        self.orders.push(Order {
            name: format!("{}{number}", if refund { 'r' } else { 'c' }),
            customer: if refund { format!("pi_{customer}") } else { format!("cus_{customer}") },
            amount: if large && !refund { ASK_ABOVE + amount } else { amount },
            refund,
            caller: self.rng.below(2),
        });
        number
    }

    /// What was heard of a call, against what the provider knows.
    pub(crate) fn hear(&mut self, world: &mut World, done: &Done) {
        let Some(answer) = &done.answer else {
            world.note(("unheard", done.call.number));
            return;
        };
        if let Some(hit) = Finder::credentials().hits(&answer.bytes()).first() {
            world.violated("I10: no credential in an answer", hit.to_string());
        }
        let said = Said::of(answer);
        let effect = said.effect.as_deref().map(|effect| world.number(effect));
        world.note((done.call.number, said.status, said.outcome.as_str(), effect, said.code.as_str()));
        if let Some(effect) = &said.effect {
            self.shown.insert(effect.clone());
        }
        match &done.call.purpose {
            Purpose::Order { at, varied } => {
                // Where every order is played, a commit may take for ever.
                let timely = world.fate.is_none();
                if timely && done.took_ms > RESPOND_WITHIN_MS + ANSWER_MARGIN_MS {
                    let what = format!("{} ms for {:?}", done.took_ms, self.orders[*at]);
                    world.violated("I14: an agent is answered in time", what);
                }
                self.ordered(world, &self.orders[*at], *varied, &said);
            }
            Purpose::Operate(Wanted::Refused) => {
                if said.status < 400 {
                    world.violated("I13: the key that asked decides nothing", format!("{said:?}"));
                }
            }
            Purpose::Operate(Wanted::Any) => {
                let begun = world.now_ms().saturating_sub(done.took_ms);
                let disk_was_full = world.disk_full_until_ms.is_none_or(|until| until >= begun);
                if said.status >= 500 && !disk_was_full {
                    world.violated("the API fails for the disk alone", format!("{said:?}"));
                }
            }
        }
    }

    fn ordered(&self, world: &mut World, order: &Order, varied: bool, said: &Said) {
        let applied = said.effect.as_deref().map(|effect| world.books.applied(effect));
        let (right, invariant) = match (said.outcome.as_str(), applied) {
            ("succeeded", applied) => (applied == Some(1), "I4: success has its evidence"),
            ("failed", applied) => (applied == Some(0), "I3: what may have been applied is not failed"),
            // Nobody promised that it was not applied, nor that it was.
            ("unknown" | "pending_approval" | "pending" | "denied" | "refused" | "", _) => (true, ""),
            (_, _) => (false, "an answer says one of the known outcomes"),
        };
        if !right {
            world.violated(
                invariant,
                format!("{said:?} for {order:?}, varied: {varied}, applied: {applied:?}"),
            );
        }
        // Statuses that make common clients send again are never given.
        let retried = matches!(said.status, 202 | 300..=399 | 408 | 409 | 425 | 429 | 500..);
        // A provider's own definite refusal is passed on as it is.
        if retried && !order.refund && said.outcome != "failed" {
            world.violated("an answer makes nobody send again", format!("{said:?} for {order:?}"));
        }
        let reference = said.effect.as_deref().and_then(|effect| world.books.reference(effect));
        if said.outcome == "succeeded" && said.reference.is_some() && said.reference != reference {
            let what = format!("{said:?} for {order:?}, and the provider has {reference:?}");
            world.violated("a repeat is answered with the provider's own record", what);
        }
    }
}

/// A charge as an agent's HTTP client sends it through the proxy.
fn proxied(order: &Order, try_number: u64) -> Vec<u8> {
    let (caller, key, _) = KEYS[order.caller];
    let body = json!({"order": order.name, "customer": order.customer, "amount": order.amount}).to_string();
    // Libraries make one up for each try; it names the try and not the order.
    let key_of_the_try = format!("00000000-0000-4000-8000-{:012x}", try_number & 0xffff_ffff_ffff);
    let length = body.len();
    let credentials = format!("X-Caller: {caller}\r\nProxy-Authorization: Bearer {key}\r\n");
    format!(
        "POST http://{SHOP_HOST}/v1/charges HTTP/1.1\r\nHost: {SHOP_HOST}\r\n{credentials}Content-Type: application/json\r\n\
         Idempotency-Key: {key_of_the_try}\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// A refund that is asked for by its name.
fn by_name(order: &Order) -> Vec<u8> {
    let input = json!({
        "payment_intent": order.customer, "amount": order.amount, "metadata": { "order": order.name },
    });
    let asked = json!({ "input": input, "operationKey": format!("refund-{}", order.name) });
    api("POST", "/api/v2/actions/refund/invoke", KEYS[order.caller].1, Some(&asked))
}

/// A call of the API, through the proxy as clients make it.
pub(crate) fn api(method: &str, path: &str, key: &str, body: Option<&Value>) -> Vec<u8> {
    let body = body.map(Value::to_string).unwrap_or_default();
    let length = body.len();
    format!(
        "{method} http://127.0.0.1:8081{path} HTTP/1.1\r\nHost: 127.0.0.1:8081\r\nProxy-Authorization: Bearer {key}\r\n\
         Authorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// What an answer says, whichever listener gave it.
#[derive(Debug, Default)]
struct Said {
    status: u16,
    outcome: String,
    effect: Option<String>,
    code: String,
    /// The provider's own id in it.
    reference: Option<String>,
}

impl Said {
    fn of(answer: &Message) -> Self {
        let status = answer.second().parse().unwrap_or(0);
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let text = |value: &Value| value.as_str().map(str::to_owned);
        if let Some(outcome) = answer.header("oncegate-outcome") {
            return Self {
                status,
                outcome: outcome.to_owned(),
                effect: answer.header("oncegate-effect").map(str::to_owned),
                code: answer.header("oncegate-code").unwrap_or_default().to_owned(),
                reference: text(&body["id"]),
            };
        }
        let data = &body["data"];
        let outcome = match text(&data["outcome"]).unwrap_or_default().as_str() {
            "not_dispatched" => "refused".to_owned(),
            outcome => outcome.to_owned(),
        };
        Self {
            status,
            outcome,
            effect: text(&data["effectId"]).or_else(|| text(&body["error"]["details"]["effectId"])),
            code: text(&body["error"]["code"]).unwrap_or_default(),
            reference: text(&data["body"]["id"]),
        }
    }
}

/// Sends a call on a connection of its own, and hears its answer if the agent is still there.
pub(crate) async fn make(stream: Box<dyn Stream>, call: &Call) -> Option<Message> {
    let mut messages = Messages::new(stream);
    messages.stream().write_all(&call.bytes).await.ok()?;
    let answer = messages.next();
    match call.hangs_up_after_ms {
        None => answer.await.ok().flatten(),
        Some(ms) => tokio::time::timeout(Duration::from_millis(ms), answer).await.ok()?.ok().flatten(),
    }
}
