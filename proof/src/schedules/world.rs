//! A real store on a real file, its work done by hand, and what is asked of it.

use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::admission::{Asked, CallerKey};
use oncegate_policy::caller::CallerName;
use oncegate_policy::fingerprint::Fingerprint;
use oncegate_policy::id::{EffectId, InvocationId, OwnerId};
use oncegate_policy::identity::is_generated_key;
use oncegate_policy::impact::{Bound, Dimension, Impact};
use oncegate_policy::limit::{Limit, Period};
use oncegate_policy::reconcile::Schedule;
use oncegate_policy::time::Timestamp;
use oncegate_store::view::{SecretNames, StoredRequest};
use oncegate_store::{Hand, NewEffect, Store, StoreError, StoreOptions};
use rusqlite::Connection;
use tempfile::TempDir;

use super::actors::Ask;
use super::ghost::DAY;
use super::plant::Plant;
use crate::failure::{During, Failure};
use crate::memory::{self, Empty};

/// 2026-11-29T12:00:00Z, when every schedule begins.
pub(crate) const NOON: Timestamp = Timestamp(1_795_953_600_000);
const HOUR: Duration = Duration::from_secs(3_600);

/// What a verb says, once it is committed.
pub(crate) type Verb<T> = Pin<Box<dyn Future<Output = Result<T, StoreError>>>>;

/// The store, and a reader beside it that sees what is committed.
pub(crate) struct World {
    /// In the order in which they go: what still waits dies with the hand, and the lock with the store.
    hand: Option<Hand>,
    store: Option<Store>,
    pub(crate) shell: Connection,
    folder: TempDir,
    ids: u64,
    /// Schedules that were played here.
    pub(crate) played: u64,
}

impl World {
    /// A new database, with a planted fault in it if one is wanted.
    pub(crate) fn new(empty: &Empty, plant: Option<Plant>) -> Result<Self, Failure> {
        let folder = memory::folder()?;
        let path = folder.path().join("once.db");
        empty.copy(&path, plant.map_or("", Plant::sql))?;
        let (store, hand) = open(path.clone(), 0, NOON)?;
        let shell = memory::shell(&path)?;
        Ok(Self { hand: Some(hand), store: Some(store), shell, folder, ids: 0, played: 0 })
    }

    /// The store of this moment; clones share it.
    pub(crate) fn store(&self) -> Result<Store, Failure> {
        self.store.clone().during("use a store that was closed")
    }

    /// The process ends, whatever is on its way, and another one starts.
    pub(crate) fn restart(&mut self, now: Timestamp) -> Result<(), Failure> {
        drop((self.hand.take(), self.store.take()));
        let run = self.fresh();
        let (store, hand) = open(self.folder.path().join("once.db"), run, now)?;
        (self.store, self.hand) = (Some(store), Some(hand));
        Ok(())
    }

    /// Commits verbs that were asked for together, in this order, and hears what became of each.
    pub(crate) fn commit<T>(&mut self, verbs: Vec<Verb<T>>) -> Result<Vec<Result<T, StoreError>>, Failure> {
        let mut context = Context::from_waker(Waker::noop());
        let hand = self.hand.as_mut().during("use a store that was closed")?;
        let mut waiting = verbs;
        // Each is in the queue once it was polled.
        let early = waiting.iter_mut().any(|verb| verb.as_mut().poll(&mut context).is_ready());
        if early || hand.commit(waiting.len()) != waiting.len() {
            return Err(Failure::new("commit what was asked for", "it was not in the queue"));
        }
        let said = waiting.iter_mut().map(|verb| match verb.as_mut().poll(&mut context) {
            Poll::Ready(said) => Ok(said),
            Poll::Pending => Err(Failure::new("commit what was asked for", "it is still not done")),
        });
        said.collect()
    }

    /// What is asked alone, reads too.
    pub(crate) fn ask<T>(&mut self, mut asked: Verb<T>) -> Result<T, Failure> {
        let mut context = Context::from_waker(Waker::noop());
        let hand = self.hand.as_mut().during("use a store that was closed")?;
        loop {
            if let Poll::Ready(said) = asked.as_mut().poll(&mut context) {
                return said.during("ask the store");
            }
            if hand.commit(1) + hand.read(1) == 0 {
                return Err(Failure::new("ask the store", "it waits for nothing"));
            }
        }
    }

    fn fresh(&mut self) -> u64 {
        self.ids += 1;
        self.ids
    }

    /// A request of the agent's, in a schedule of its own action.
    pub(crate) fn request(&mut self, action: &ActionName, ask: Ask, now: Timestamp) -> NewEffect {
        let number = self.fresh();
        let (subject, amount) = match ask {
            Ask::Keyed | Ask::Keyless | Ask::Librarys | Ask::Parked => ("pi_1", 100),
            Ask::OtherBody | Ask::Varied => ("pi_1", 60),
            Ask::OtherSubject => ("pi_2", 100),
        };
        let key = match ask {
            Ask::Keyed | Ask::OtherBody => Some("order-1"),
            Ask::Parked => Some("order-2"),
            Ask::Librarys => Some("0b8a7e0e-3c4d-4d0e-9b57-0f6a1e2d3c4b"),
            Ask::Keyless | Ask::Varied | Ask::OtherSubject => None,
        };
        let input = serde_json::json!({ "payment_intent": subject, "amount": amount });
        NewEffect {
            invocation: InvocationId::from_ulid(&ulid(number)),
            effect: EffectId::from_ulid(&ulid(number)),
            caller: agent(),
            action: action.clone(),
            asked: Asked {
                caller_key: key
                    .map(|key| CallerKey { text: key.to_owned(), generated: is_generated_key(key) }),
                second_key: None,
                declared_key: None,
                fingerprint: Fingerprint::of(action.as_str(), &input, &[]),
                identical_within: DAY,
                retry_of: None,
            },
            subject: Some(subject.to_owned()),
            realm: None,
            near: Vec::new(),
            resource: None,
            impact: Some(Impact { dimension: usd(), amount: Some(amount), bound: Bound::Exact }),
            provider_key: format!("oncegate-{number}"),
            replay_until: Some(now.plus(DAY)),
            can_read_back: true,
            memory: input.to_string(),
            request: StoredRequest {
                method: "POST".to_owned(),
                url: "https://api.stripe.com/v1/refunds".to_owned(),
                headers: vec![],
                body: format!("payment_intent={subject}&amount={amount}").into_bytes(),
            },
            approval: (ask == Ask::Parked).then_some(DAY / 2),
            depends_on: vec![],
            compensates: None,
            preview: None,
            drill: None,
            credential: SecretNames::new(),
            listener: "proxy",
        }
    }
}

fn open(path: PathBuf, run: u64, now: Timestamp) -> Result<(Store, Hand), Failure> {
    let schedule = Schedule { first_after: Duration::from_secs(30), max_interval: HOUR };
    let options = StoreOptions { path, schedule, queue_capacity: 64, keep_responses: 30 * DAY };
    Store::open_by_hand(options, OwnerId::from_ulid(&ulid(run)), now).during("open a store")
}

fn ulid(number: u64) -> String {
    format!("01ARZ3NDEKTSV4RR{number:010}")
}

fn usd() -> Dimension {
    Dimension::Money { currency: "usd".to_owned() }
}

/// The limit of one schedule.
pub(crate) fn limit(action: &ActionName, amount: i64) -> Limit {
    Limit {
        name: action.as_str().to_owned(),
        dimension: usd(),
        period: Period::Day,
        amount,
        action: Some(action.clone()),
        resource_prefix: None,
    }
}

/// The key that asks.
pub(crate) fn agent() -> CallerName {
    named("agent")
}

/// The key of a person.
pub(crate) fn operator() -> CallerName {
    named("ops")
}

#[expect(clippy::expect_used, reason = "the two names above are good")]
fn named(name: &str) -> CallerName {
    CallerName::parse(name).expect("a caller's name")
}
