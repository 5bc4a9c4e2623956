//! What must hold after an exchange whose wire was cut, and the parts that every such exchange is played with.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use oncegate_tests::{
    agent::Ask,
    gate::Gate,
    provider::{Brain, Provider},
    record::Request,
    script::Reply,
    sidecar::Home,
    wait::until,
};

use crate::cutting::Told;

/// The host of all exchanges.
pub(crate) const HOST: &str = "tickets.test";

/// The request of an exchange; its title is the subject of its effect, and known as soon as its head is there.
pub(crate) fn ask(title: &str) -> Ask {
    Ask::json("/v1/tickets", &format!(r#"{{"title":"{title}"}}"#)).field(TITLE, title)
}

/// The field that says the title once more.
pub(crate) const TITLE: &str = "X-Title";

/// The same as bytes.
pub(crate) fn request(title: &str) -> Vec<u8> {
    ask(title).bytes(HOST)
}

/// Titles of one length, so that requests have one length too.
pub(crate) fn title(number: usize) -> String {
    format!("c{number:05}")
}

/// The title of a request, whole or not; empty when it has none.
fn title_of(request: &Request) -> String {
    request.head.field(TITLE).unwrap_or_default().to_owned()
}

/// A provider that answers by the title of what it is asked.
#[derive(Clone, Default)]
pub(crate) struct Scripted {
    replies: Arc<Mutex<HashMap<String, (Reply, Gate)>>>,
}

impl Scripted {
    pub(crate) fn serve(&self) -> Provider {
        Provider::tls_with(&[HOST], Arc::new(self.clone()))
    }

    /// What it does about a title; the gate opens when the request has arrived.
    pub(crate) fn on(&self, title: &str, reply: Reply) -> Gate {
        let arrived = Gate::default();
        self.replies.lock().unwrap().insert(title.to_owned(), (reply, arrived.clone()));
        arrived
    }
}

impl Brain for Scripted {
    fn answer(&self, request: &Request) -> Reply {
        match self.replies.lock().unwrap().get(&title_of(request)) {
            Some((reply, arrived)) => {
                arrived.open();
                reply.clone()
            }
            None => Reply::json("200 OK", r#"{"ok":true}"#),
        }
    }
}

/// What must come of an exchange.
#[derive(Clone, Debug)]
pub(crate) struct Expected {
    /// The title.
    pub(crate) title: String,
    /// What was done, for the reader.
    pub(crate) what: String,
    /// Whether the request arrived whole at the proxy. Unknown where a reset may have overtaken its bytes.
    pub(crate) whole: Option<bool>,
    /// The outcomes that may be recorded for it, if it was whole.
    pub(crate) outcomes: &'static [&'static str],
    /// The agent's side is open and it has asked: it must hear something.
    pub(crate) hears: bool,
}

/// What was seen of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Writes at the provider: whether each was whole.
    pub(crate) writes: Vec<bool>,
    /// The outcome in the ledger; none without an effect.
    pub(crate) recorded: Option<String>,
    /// What the agent heard.
    pub(crate) told: Option<Told>,
}

/// What is wrong about it.
pub(crate) fn judge(expected: &Expected, seen: &Seen) -> Vec<String> {
    let mut faults = Vec::new();
    let mut must = |holds: bool, what: &str| {
        if !holds {
            let Expected { title, what: done, whole, outcomes, hears } = expected;
            let wanted = format!("whole {whole:?}, {outcomes:?}, hears {hears}");
            faults.push(format!("{what}: {done} ({title}; {wanted}): {seen:?}"));
        }
    };
    must(seen.writes.len() <= 1, "more than one write");
    must(seen.writes.iter().all(|whole| *whole), "part of a request was sent");
    let wrote = !seen.writes.is_empty();
    match expected.whole {
        Some(false) => {
            must(!wrote && seen.recorded.is_none(), "something came of a request that was not whole")
        }
        Some(true) => must(wrote && seen.recorded.is_some(), "nothing came of a whole request"),
        None => must(wrote == seen.recorded.is_some(), "the wire and the ledger differ"),
    }
    if let Some(recorded) = &seen.recorded {
        must(expected.outcomes.contains(&recorded.as_str()), "the wrong outcome");
    }
    match &seen.told {
        None | Some(Told::Nothing) => must(!expected.hears, "the agent heard nothing"),
        Some(Told::Part(part)) => must(false, &format!("the agent heard part of an answer, {part:?}")),
        Some(Told::Whole(status, outcome)) => {
            let recorded = seen.recorded.as_deref().unwrap_or("refused");
            must(outcome == recorded, "the agent was told something else than is recorded");
            must(*status != 200 || recorded == "succeeded", "a success that is none");
        }
    }
    faults
}

/// Writes at a provider, by title.
pub(crate) fn writes(provider: &Provider) -> HashMap<String, Vec<bool>> {
    let mut all: HashMap<String, Vec<bool>> = HashMap::new();
    for request in provider.record().requests() {
        all.entry(title_of(&request)).or_default().push(request.complete);
    }
    all
}

/// The ledger, by title, once nothing is on its way any more.
pub(crate) fn ledger(home: &Home) -> HashMap<String, String> {
    const OPEN: &str = "select count(*) as n from effect where stage = 'dispatching'";
    until("every dispatch to end", || Some(()).filter(|()| home.query(OPEN)[0]["n"] == 0));
    let outcome = "case when stage = 'reconciling' then 'unknown' when result = 'failed' then 'failed' else 'succeeded' end";
    let rows = home.query(&format!("select subject, {outcome} as outcome from effect"));
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap().to_owned();
    rows.iter().map(|row| (text(row, "subject"), text(row, "outcome"))).collect()
}

/// Judges all exchanges together; what nobody asked for is a fault too.
pub(crate) fn judge_all(
    told: Vec<(Expected, Option<Told>)>,
    mut writes: HashMap<String, Vec<bool>>,
    mut ledger: HashMap<String, String>,
) -> Vec<String> {
    let mut faults = Vec::new();
    for (expected, told) in told {
        let seen = Seen {
            writes: writes.remove(&expected.title).unwrap_or_default(),
            recorded: ledger.remove(&expected.title),
            told,
        };
        faults.extend(judge(&expected, &seen));
    }
    faults.extend(writes.keys().map(|title| format!("a write that nobody asked for: {title:?}")));
    faults.extend(ledger.keys().map(|title| format!("an effect that nobody asked for: {title:?}")));
    faults
}

/// Plays all of `cases` with so many at a time; what each gave, in no order.
pub(crate) fn play<C: Sync, R: Send>(at_a_time: usize, cases: &[C], one: impl Fn(&C) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(cases.len()));
    thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, SeqCst)) {
                    let result = one(case);
                    done.lock().unwrap().push(result);
                }
            });
        }
    });
    done.into_inner().unwrap()
}
