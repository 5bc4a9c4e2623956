//! A store in a folder of its own, and short ways to ask it.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::admission::{Asked, CallerKey};
use oncegate_policy::caller::CallerName;
use oncegate_policy::classify::{ResponseRules, verdict};
use oncegate_policy::exchange::{Answer, Exchange, Loss, NotSent, Phase};
use oncegate_policy::fingerprint::Fingerprint;
use oncegate_policy::id::{EffectId, InvocationId, OwnerId};
use oncegate_policy::identity::is_generated_key;
use oncegate_policy::impact::{Bound, Dimension, Impact};
use oncegate_policy::limit::{Limit, Period};
use oncegate_policy::reconcile::{Finding, Schedule};
use oncegate_policy::time::Timestamp;
use oncegate_store::admit::{Admitted, NewEffect};
use oncegate_store::claim::{Claim, DispatchPermit};
use oncegate_store::record::Seen;
use oncegate_store::view::{EffectView, Exposure, StoredRequest};
use oncegate_store::{Store, StoreOptions};
use rusqlite::Connection;
use tempfile::TempDir;

/// 2026-11-29T12:00:00Z
pub(crate) const NOON: Timestamp = Timestamp(1_795_953_600_000);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

pub(crate) struct Memory {
    pub(crate) store: Store,
    pub(crate) folder: TempDir,
    pub(crate) ids: Cell<u64>,
}

pub(crate) fn ulid(number: u64) -> String {
    format!("01ARZ3NDEKTSV4RR{number:010}")
}

pub(crate) fn options(path: PathBuf) -> StoreOptions {
    StoreOptions {
        path,
        schedule: Schedule { first_after: Duration::from_secs(30), max_interval: HOUR },
        queue_capacity: 1_000,
        keep_responses: 30 * DAY,
    }
}

impl Memory {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(options(folder.path().join("once.db")), owner(1), NOON).unwrap();
        Self { store, folder, ids: Cell::new(0) }
    }

    /// On a copy of a database that is still empty: to make one takes longer than a short history.
    pub(crate) fn copied() -> Self {
        static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
        let empty = EMPTY.get_or_init(|| {
            let Self { store, folder, .. } = Self::new();
            drop(store);
            std::fs::read(folder.path().join("once.db")).unwrap()
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("once.db"), empty).unwrap();
        let store = Store::open(options(folder.path().join("once.db")), owner(2), NOON).unwrap();
        Self { store, folder, ids: Cell::new(0) }
    }

    /// The process ends and another one starts.
    pub(crate) fn restarted(self, at: Timestamp) -> Self {
        let Self { store, folder, ids } = self;
        drop(store);
        ids.set(ids.get() + 1);
        let store =
            Store::open(options(folder.path().join("once.db")), owner(1_000 + ids.get()), at).unwrap();
        Self { store, folder, ids }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("once.db")
    }

    /// A hand at the sqlite3 shell.
    pub(crate) fn shell(&self) -> Connection {
        let shell = Connection::open(self.path()).unwrap();
        shell.pragma_update(None, "foreign_keys", true).unwrap();
        shell
    }

    pub(crate) fn count(&self, what: &str) -> i64 {
        self.shell().query_row(&format!("SELECT count(*) FROM {what}"), [], |row| row.get(0)).unwrap()
    }

    pub(crate) fn fresh(&self) -> u64 {
        self.ids.set(self.ids.get() + 1);
        self.ids.get()
    }

    /// A refund of `amount` on `subject`, by `agent`, without a key.
    pub(crate) fn refund(&self, subject: &str, amount: i64) -> NewEffect {
        let number = self.fresh();
        let input = serde_json::json!({ "payment_intent": subject, "amount": amount });
        NewEffect {
            invocation: InvocationId::from_ulid(&ulid(number)),
            effect: EffectId::from_ulid(&ulid(number)),
            caller: caller("agent"),
            action: ActionName::parse("refund").unwrap(),
            asked: Asked {
                caller_key: None,
                second_key: None,
                declared_key: None,
                fingerprint: Fingerprint::of("refund", &input, &[]),
                identical_within: DAY,
                retry_of: None,
            },
            subject: Some(subject.to_owned()),
            realm: None,
            near: Vec::new(),
            resource: Some(format!("acct_1/{subject}")),
            impact: Some(Impact { dimension: usd(), amount: Some(amount), bound: Bound::Exact }),
            provider_key: format!("oncegate-{number}"),
            replay_until: Some(NOON.plus(DAY)),
            can_read_back: true,
            memory: input.to_string(),
            request: StoredRequest {
                method: "POST".into(),
                url: "https://api.stripe.com/v1/refunds?expand=charge".into(),
                headers: vec![("content-type".into(), "application/x-www-form-urlencoded".into())],
                body: format!("payment_intent={subject}&amount={amount}&note=BODYMARK").into_bytes(),
            },
            approval: None,
            depends_on: vec![],
            compensates: None,
            preview: None,
            drill: None,
            credential: [("header authorization".to_owned(), vec!["STRIPE_KEY".to_owned()])].into(),
            listener: "proxy",
        }
    }

    pub(crate) async fn granted(&self, new: NewEffect, at: Timestamp) -> (DispatchPermit, EffectView) {
        match self.store.admit(new, at).await.unwrap() {
            Admitted::Granted { permit, effect } => {
                // What a verb returns is what is written, although it was not read again.
                assert_eq!(effect, self.view(&effect.id).await);
                (permit, effect)
            }
            other => panic!("not granted: {other:?}"),
        }
    }

    /// Admits and loses the answer.
    pub(crate) async fn unknown(&self, new: NewEffect, at: Timestamp) -> EffectView {
        let (permit, _) = self.granted(new, at).await;
        self.record(permit.spend(), &lost(), at).await
    }

    pub(crate) async fn record(&self, claim: Claim, exchange: &Exchange, at: Timestamp) -> EffectView {
        let recorded = self.store.record(claim, seen(exchange), at).await.unwrap();
        assert_eq!(recorded, self.view(&recorded.id).await);
        recorded
    }

    pub(crate) async fn view(&self, id: &EffectId) -> EffectView {
        self.store.effect(id).await.unwrap().unwrap().view
    }

    pub(crate) async fn exposure(&self, name: &str, at: Timestamp) -> Exposure {
        self.store.exposures(at).await.unwrap().into_iter().find(|found| found.limit.name == name).unwrap()
    }

    /// Consumed, reserved, unknown exposure, available.
    pub(crate) async fn used(&self, name: &str, at: Timestamp) -> (i64, i64, i64, i64) {
        let found = self.exposure(name, at).await;
        (found.usage.consumed, found.usage.reserved, found.usage.unknown_exposure, found.available())
    }
}

pub(crate) fn owner(number: u64) -> OwnerId {
    OwnerId::from_ulid(&ulid(number))
}

pub(crate) fn caller(name: &str) -> CallerName {
    CallerName::parse(name).unwrap()
}

pub(crate) fn usd() -> Dimension {
    Dimension::Money { currency: "usd".into() }
}

pub(crate) fn limit(name: &str, period: Period, amount: i64) -> Limit {
    Limit { name: name.into(), dimension: usd(), period, amount, action: None, resource_prefix: None }
}

pub(crate) fn with_key(mut new: NewEffect, key: &str) -> NewEffect {
    new.asked.caller_key = Some(CallerKey { text: key.into(), generated: is_generated_key(key) });
    new
}

pub(crate) fn seen(exchange: &Exchange) -> Seen {
    Seen::of(verdict(exchange, &ResponseRules::default()), exchange)
}

pub(crate) fn answered(status: u16) -> Exchange {
    let headers =
        [("content-type", "application/json"), ("set-cookie", "a=b"), ("request-id", "req_1"), ("date", "x")];
    Exchange::Answered(Answer {
        status,
        reason: None,
        headers: headers.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        body: format!("{{\"status\":{status}}}").into_bytes(),
    })
}

pub(crate) fn lost() -> Exchange {
    Exchange::Lost(Loss { phase: Phase::AwaitingHead, cause: "connection reset".into(), status: None })
}

pub(crate) fn not_sent() -> Exchange {
    Exchange::NotSent(NotSent::Connect("refused".into()))
}

pub(crate) fn matched() -> Finding {
    let record = br#"{"id":"re_1","object":"refund"}"#.to_vec();
    Finding::Matched { what: "refund re_1".into(), reference: Some("re_1".into()), record: Some(record) }
}

pub(crate) fn provider_failed() -> Finding {
    Finding::ProviderSaysFailed { what: "refund re_1 is failed".into(), reference: None, record: None }
}

pub(crate) fn no_match() -> Finding {
    Finding::NoMatch { what: "1 page".into() }
}

pub(crate) fn word(view: &EffectView) -> (&'static str, &'static str, &'static str) {
    (view.stage.outcome().word(), view.stage.grade().word(), view.stage.verification().word())
}
