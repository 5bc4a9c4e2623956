//! The record alone: governed writes through `oncegate-store` beside those of the least journal, without a proxy.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use oncegate_policy::action::ActionName;
use oncegate_policy::admission::Asked;
use oncegate_policy::caller::CallerName;
use oncegate_policy::classify::Verdict;
use oncegate_policy::exchange::{Answer, Exchange};
use oncegate_policy::fingerprint::Fingerprint;
use oncegate_policy::id::{EffectId, InvocationId, OwnerId};
use oncegate_policy::impact::{Bound, Dimension, Impact};
use oncegate_policy::limit::{Limit, Period};
use oncegate_policy::reconcile::Schedule;
use oncegate_policy::time::Timestamp;
use oncegate_store::admit::{Admitted, NewEffect};
use oncegate_store::view::StoredRequest;
use oncegate_store::{Seen, Store, StoreOptions};

use crate::child::cpu_of;
use crate::journal::Journal;
use crate::stats::float;
use crate::{During, Failure};

/// Some moment: the store is told the time, and these effects need none in particular.
const NOW: Timestamp = Timestamp(1_795_953_600_000);
/// Bytes of a request and of an answer, as in the other parts.
const REQUEST_BYTES: usize = 200;
const ANSWER_BYTES: usize = 400;
/// Callers at a time.
pub const CALLERS: [u64; 3] = [1, 16, 64];

/// One way of recording, with so many callers.
#[derive(Clone, Debug)]
pub struct Line {
    /// `store` or `journal`.
    pub way: &'static str,
    /// How many wait for it at a time.
    pub callers: u64,
    /// Writes, each with two durable commits.
    pub writes: u64,
    /// Wall-clock time of all of them.
    pub took: Duration,
    /// User and system time of the process meanwhile.
    pub cpu: Duration,
}

/// Measures both, one after the other for each number of callers.
///
/// # Errors
/// A database could not be made, or a write was not recorded.
pub async fn run(dir: &Path, writes: u64) -> Result<Vec<Line>, Failure> {
    let mut lines = Vec::new();
    for callers in CALLERS {
        lines.push(journal(&dir.join(format!("journal-{callers}.db")), callers, writes).await?);
        lines.push(store(&dir.join(format!("store-{callers}.db")), callers, writes).await?);
    }
    Ok(lines)
}

/// A table for people.
#[must_use]
pub fn text(lines: &[Line]) -> String {
    let mut out = String::from("way      callers   writes/s   CPU us/write   us/write\n");
    for line in lines {
        let each = |time: Duration| time.as_secs_f64() * 1e6 / float(line.writes).max(1.0);
        let rate = float(line.writes) / line.took.as_secs_f64();
        // Writing to a String cannot fail.
        let _: std::fmt::Result = writeln!(
            out,
            "{:8} {:7} {rate:10.0} {:14.1} {:10.1}",
            line.way,
            line.callers,
            each(line.cpu),
            each(line.took)
        );
    }
    out
}

async fn journal(path: &Path, callers: u64, writes: u64) -> Result<Line, Failure> {
    let journal = Arc::new(Journal::open(path)?);
    timed("journal", callers, writes, |caller, each| {
        let journal = Arc::clone(&journal);
        async move {
            for turn in 0..each {
                let begun = journal.begin(format!("{caller}-{turn}"), vec![b'x'; REQUEST_BYTES]).await;
                let key = begun.ok_or("the journal refused a write").during("begin a write")?;
                journal
                    .end(key, vec![b'y'; ANSWER_BYTES])
                    .await
                    .ok_or("not recorded")
                    .during("end a write")?;
            }
            Ok(())
        }
    })
    .await
}

/// A store at `path`, with one limit that every write takes from.
///
/// # Errors
/// It could not be made.
pub async fn open(path: &Path) -> Result<Store, Failure> {
    open_again(path, 0).await
}

/// The same for the run with this number: a store takes each once.
///
/// # Errors
/// It could not be opened.
pub async fn open_again(path: &Path, run: u64) -> Result<Store, Failure> {
    let options = StoreOptions {
        path: path.to_owned(),
        schedule: Schedule { first_after: Duration::from_secs(30), max_interval: Duration::from_secs(3600) },
        queue_capacity: 4_096,
        keep_responses: Duration::from_secs(86_400),
    };
    let store = Store::open(options, OwnerId::from_ulid(&ulid(run)), NOW).during("open a store")?;
    let limit = Limit {
        name: "cap".to_owned(),
        dimension: usd(),
        period: Period::Day,
        amount: i64::MAX,
        action: None,
        resource_prefix: None,
    };
    store.sync_limits(vec![limit], NOW).await.during("declare a limit")?;
    Ok(store)
}

/// One governed write as the record sees it: admitted, and its outcome recorded.
///
/// # Errors
/// It was not granted, or not recorded. No two may have the same `number`.
pub async fn write(store: &Store, number: u64) -> Result<(), Failure> {
    admission(store, number).await.map(drop)
}

/// The same, and how long its admission took, in nanoseconds.
///
/// # Errors
/// As [`write()`].
pub async fn admission(store: &Store, number: u64) -> Result<u64, Failure> {
    let (new, begun) = (effect(number)?, Instant::now());
    match store.admit(new, NOW).await.during("admit a write")? {
        Admitted::Granted { permit, .. } => {
            let took = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            store.record(permit.spend(), seen(), NOW).await.during("record a write")?;
            Ok(took)
        }
        Admitted::Repeat(_) | Admitted::Refused(_) | Admitted::Parked(_) => {
            Err("a fresh write was not granted").during("admit a write")
        }
    }
}

async fn store(path: &Path, callers: u64, writes: u64) -> Result<Line, Failure> {
    let store = open(path).await?;
    let line = timed("store", callers, writes, |caller, each| {
        let store = store.clone();
        async move {
            for turn in 0..each {
                write(&store, caller * each + turn).await?;
            }
            Ok(())
        }
    })
    .await?;
    let stats = store.stats();
    if stats.jobs < 2 * line.writes {
        return Err("writes are missing in the record").during("count the record");
    }
    Ok(line)
}

/// Lets `callers` tasks write in turn, and takes the time of all.
async fn timed<F>(
    way: &'static str,
    callers: u64,
    writes: u64,
    task: impl Fn(u64, u64) -> F,
) -> Result<Line, Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let each = (writes / callers).max(1);
    let (begun, cpu_before) = (Instant::now(), cpu_of("self")?);
    let running: Vec<_> = (0..callers).map(|caller| tokio::spawn(task(caller, each))).collect();
    for run in running {
        run.await.during("wait for a caller")??;
    }
    let (took, cpu) = (begun.elapsed(), cpu_of("self")?.saturating_sub(cpu_before));
    Ok(Line { way, callers, writes: callers * each, took, cpu })
}

/// Something that nobody asked for before.
fn effect(number: u64) -> Result<NewEffect, Failure> {
    const STEP: &str = "make a write";
    let subject = format!("pi_{number}");
    let input = serde_json::json!({ "payment_intent": subject, "amount": 1 });
    Ok(NewEffect {
        invocation: InvocationId::from_ulid(&ulid(number)),
        effect: EffectId::from_ulid(&ulid(number)),
        caller: CallerName::parse("agent").ok_or("no name").during(STEP)?,
        action: ActionName::parse("refund").ok_or("no name").during(STEP)?,
        asked: Asked {
            caller_key: None,
            second_key: None,
            declared_key: None,
            fingerprint: Fingerprint::of("refund", &input, &[]),
            identical_within: Duration::from_secs(86_400),
            retry_of: None,
        },
        subject: Some(subject.clone()),
        realm: None,
        near: Vec::new(),
        resource: Some(subject),
        impact: Some(Impact { dimension: usd(), amount: Some(1), bound: Bound::Exact }),
        provider_key: format!("oncegate-{number}"),
        replay_until: None,
        can_read_back: false,
        memory: input.to_string(),
        request: StoredRequest {
            method: "POST".to_owned(),
            url: "https://api.example/v1/refunds".to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: vec![b'x'; REQUEST_BYTES],
        },
        approval: None,
        depends_on: vec![],
        compensates: None,
        preview: None,
        drill: None,
        credential: [("header authorization".to_owned(), vec!["STRIPE_KEY".to_owned()])].into(),
        listener: "proxy",
    })
}

fn usd() -> Dimension {
    Dimension::Money { currency: "usd".to_owned() }
}

fn ulid(number: u64) -> String {
    format!("01ARZ3NDEKTSV4RR{number:010}")
}

fn seen() -> Seen {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    let answer = Answer { status: 200, reason: None, headers, body: vec![b'y'; ANSWER_BYTES] };
    Seen::of(Verdict::Succeeded, &Exchange::Answered(answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn both_ways_record_every_write() {
        let dir = tempfile::tempdir().unwrap();
        let lines = run(dir.path(), 64).await.unwrap();
        assert_eq!(lines.len(), 2 * CALLERS.len());
        assert!(lines.iter().all(|line| line.writes == 64 && !line.took.is_zero()), "{lines:?}");
        assert_eq!(text(&lines).lines().count(), lines.len() + 1);
    }
}
