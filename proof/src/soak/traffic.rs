//! Who asks: agents that refund, repeat, vary, read and hang up, and an operator who decides and settles.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use oncegate_tests::answer::Answer;
use rusqlite::{Connection, OptionalExtension};

use crate::below::child::until;
use crate::below::client;
use crate::below::facts::Known;
use crate::failure::{During, Failure};
use crate::memory;
use crate::rng::Rng;
use crate::soak::shop::Shop;

/// Between two requests of one agent.
const AGENT_EVERY: Duration = Duration::from_millis(250);
/// Between two things that the operator does.
const OPERATOR_EVERY: Duration = Duration::from_millis(700);
/// Orders that an agent remembers, to come back to.
const REMEMBERED: usize = 60;
/// What a refund is at most, in cents.
const AMOUNT_MAX: usize = 900;
/// An effect that has been unknown for so long is on its way no more: the provider is listened to for less.
const SETTLED_AFTER_S: u32 = 6;
/// For an answer to come; the sidecar's own bounds are shorter.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest list of violations that is kept.
const VIOLATIONS_MAX: usize = 20;

/// One request of somebody's, until it is answered.
struct Turn<'a> {
    traffic: &'a Traffic<'a>,
    place: Place,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.traffic.state().busy -= 1;
        self.traffic.changed.notify_all();
    }
}

/// Where the sidecar serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) life: usize,
    pub(crate) proxy: SocketAddr,
    pub(crate) control: SocketAddr,
}

#[derive(Default)]
struct State {
    place: Option<Place>,
    over: bool,
    /// Who has asked and does not know yet.
    busy: usize,
    known: Known,
    violations: Vec<String>,
}

/// What all who ask have in common.
pub(crate) struct Traffic<'a> {
    shop: &'a Shop,
    database: &'a Path,
    state: Mutex<State>,
    changed: Condvar,
    pub(crate) asked: AtomicU64,
    pub(crate) unanswered: AtomicU64,
}

/// One order, as an agent knows it.
#[derive(Clone)]
struct Order {
    path: &'static str,
    name: String,
    amount: usize,
}

impl<'a> Traffic<'a> {
    pub(crate) fn new(shop: &'a Shop, database: &'a Path) -> Self {
        Self {
            shop,
            database,
            state: Mutex::default(),
            changed: Condvar::new(),
            asked: AtomicU64::new(0),
            unanswered: AtomicU64::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where to ask from now on; `None`: nowhere.
    pub(crate) fn place(&self, place: Option<Place>) {
        self.state().place = place;
        self.changed.notify_all();
    }

    /// Everybody goes home.
    pub(crate) fn end(&self) {
        self.state().over = true;
        self.changed.notify_all();
    }

    /// What clients were told, to be held against the record.
    pub(crate) fn known(&self) -> Known {
        self.state().known.clone()
    }

    /// What was wrong about answers since it was asked last.
    pub(crate) fn violations(&self) -> Vec<String> {
        std::mem::take(&mut self.state().violations)
    }

    /// Lets so much time pass, unless all is over before; whether it is.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.state(), time, |state| !state.over);
        waited.unwrap_or_else(PoisonError::into_inner).0.over
    }

    /// After so much time, and when there is somewhere to ask: the turn to do so. `None` when all is over.
    fn turn(&self, time: Duration) -> Option<Turn<'_>> {
        if self.pause(time) {
            return None;
        }
        let waited = self.changed.wait_while(self.state(), |state| !state.over && state.place.is_none());
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let place = state.place.filter(|_| !state.over)?;
        state.busy += 1;
        Some(Turn { traffic: self, place })
    }

    /// Sends nobody anywhere any more, and waits until everybody has an answer and nothing is on its way.
    pub(crate) fn rest(&self) -> Result<(), Failure> {
        self.place(None);
        let busy = |state: &mut State| state.busy > 0;
        drop(self.changed.wait_timeout_while(self.state(), PATIENCE, busy));
        let flying = "SELECT id FROM effect WHERE stage IN ('dispatching', 'ready') LIMIT 1";
        until("let all dispatches end", || matches!(self.find(flying), Ok(None)).then_some(()))
    }

    /// Agent `number`, until all is over.
    pub(crate) fn agent(&self, number: usize, mut rng: Rng) {
        let mut orders = VecDeque::new();
        let mut made = 0_u64;
        while let Some(turn) = self.turn(AGENT_EVERY) {
            let place = turn.place;
            made += 1;
            self.asked.fetch_add(1, Ordering::Relaxed);
            let old = |rng: &mut Rng| orders.get(rng.below(orders.len())).cloned();
            let choice = rng.below(100);
            match (choice, old(&mut rng)) {
                // The same once more; half of the time under a key that is new.
                (0..20, Some(order)) => {
                    let order: Order = order;
                    let key = if choice < 10 { order.name.clone() } else { format!("{}-{made}", order.name) };
                    self.write(place, &order, &key);
                }
                (20..30, Some(order)) => {
                    let amount = 1 + rng.below(AMOUNT_MAX);
                    let key = format!("{}-{made}", order.name);
                    self.write(place, &Order { amount, ..order }, &key);
                }
                (30..40, _) => self.read(place),
                _ => {
                    let path = if choice < 48 { "payouts" } else { "refunds" };
                    let order =
                        Order { path, name: format!("o{number}-{made}"), amount: 1 + rng.below(AMOUNT_MAX) };
                    if choice > 96 {
                        // It has asked, and is gone before the answer.
                        drop(ask(place, &order, &order.name));
                    } else {
                        self.write(place, &order, &order.name);
                    }
                    orders.push_back(order);
                    if orders.len() > REMEMBERED {
                        orders.pop_front();
                    }
                }
            }
        }
    }

    fn write(&self, place: Place, order: &Order, key: &str) {
        match ask(place, order, key).and_then(client::Asked::answer) {
            Ok(answer) => self.told(&answer),
            Err(error) => self.silent(place, &error),
        }
    }

    fn read(&self, place: Place) {
        let asked = client::through(place.proxy, "GET", "/v1/refunds", None, "");
        if let Err(error) = asked.and_then(client::Asked::answer) {
            self.silent(place, &error);
        }
    }

    /// P1, P4: what an agent is told is so.
    fn told(&self, answer: &Answer) {
        let effect = answer.header("oncegate-effect").unwrap_or_default();
        let times = self.shop.books(|books| books.times(effect));
        let truth = match answer.header("oncegate-outcome") {
            Some("succeeded") => times == 1,
            Some("failed" | "refused" | "denied") => times == 0,
            _ => true,
        };
        let mut state = self.state();
        state.known.told(answer);
        // A refusal may name another effect, which is what stands in the way.
        let about_itself = answer.header("oncegate-outcome") != Some("refused");
        if about_itself && !truth && state.violations.len() < VIOLATIONS_MAX {
            state.violations.push(format!(
                "{effect} was applied {times} times, and an agent read {}",
                answer.everything()
            ));
        }
    }

    /// Nobody answers when the process was killed; while it lives, everybody is answered.
    fn silent(&self, place: Place, error: &std::io::Error) {
        self.unanswered.fetch_add(1, Ordering::Relaxed);
        let mut state = self.state();
        if state.place == Some(place) && state.violations.len() < VIOLATIONS_MAX {
            state.violations.push(format!("no answer in life {}: {error}", place.life));
        }
    }

    /// The operator, until all is over.
    pub(crate) fn operator(&self, mut rng: Rng) -> Result<(), Failure> {
        while let Some(turn) = self.turn(OPERATOR_EVERY) {
            let place = turn.place;
            if let Some(id) = self.find("SELECT id FROM approval WHERE status = 'pending' LIMIT 1")? {
                let word = if rng.below(4) > 0 { "approve" } else { "deny" };
                self.operate(place, &format!("/approvals/{id}/{word}"), "");
            }
            let Some(id) = self.find(&format!(
                "SELECT id FROM effect WHERE stage = 'reconciling'
                 AND unknown_since < 1000 * (unixepoch() - {SETTLED_AFTER_S}) ORDER BY random() LIMIT 1"
            ))?
            else {
                continue;
            };
            match rng.below(4) {
                0 => {
                    let word =
                        if self.shop.books(|books| books.times(&id)) > 0 { "succeeded" } else { "failed" };
                    let body = format!(r#"{{"outcome":"{word}","reason":"the books were looked into"}}"#);
                    self.operate(place, &format!("/actions/effects/{id}/resolve"), &body);
                }
                1 => self.operate(place, &format!("/actions/effects/{id}/reconcile"), ""),
                _ => {}
            }
        }
        Ok(())
    }

    /// Has everything asked for that is unknown.
    pub(crate) fn reconcile_all(&self, place: Place) -> Result<(), Failure> {
        let shell = memory::shell(self.database)?;
        let open = "SELECT json_group_array(id) FROM effect WHERE stage = 'reconciling'";
        let ids: String = found(&shell, open)?.unwrap_or_default();
        let ids: Vec<String> = serde_json::from_str(&ids).unwrap_or_default();
        for id in ids {
            self.operate(place, &format!("/actions/effects/{id}/reconcile"), "");
        }
        Ok(())
    }

    fn operate(&self, place: Place, path: &str, body: &str) {
        match client::operate(place.control, "POST", path, body) {
            Ok(answer) => self.state().known.told(&answer),
            Err(error) => self.silent(place, &error),
        }
    }

    /// As somebody at the sqlite3 shell, who comes and goes.
    fn find(&self, query: &str) -> Result<Option<String>, Failure> {
        found(&memory::shell(self.database)?, query)
    }
}

fn found(shell: &Connection, query: &str) -> Result<Option<String>, Failure> {
    shell.query_row(query, [], |row| row.get(0)).optional().during("look into the record")
}

fn ask(place: Place, order: &Order, key: &str) -> std::io::Result<client::Asked> {
    let Order { path, name, amount } = order;
    let body = format!(r#"{{"order":"{name}","amount":{amount}}}"#);
    client::through(place.proxy, "POST", &format!("/v1/{path}"), Some(&format!("key-of:{key}")), &body)
}
