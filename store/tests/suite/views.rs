//! What people and programs read at the sqlite3 shell, and what is found on disk.

use oncegate_policy::effect::{Grade, Outcome};
use oncegate_policy::limit::Period;
use oncegate_policy::time::Timestamp;
use oncegate_store::read::EffectFilter;
use oncegate_store::view::StoredRequest;

use crate::support::{Memory, NOON, answered, limit, lost, with_key};

/// The views use SQLite's own clock; so do these tests of them.
fn today(memory: &Memory) -> Timestamp {
    Timestamp(memory.shell().query_row("SELECT unixepoch() * 1000", [], |row| row.get(0)).unwrap())
}

#[tokio::test]
async fn unresolved_and_exposure_have_their_documented_columns() {
    let memory = Memory::new();
    let now = today(&memory);
    memory.store.sync_limits(vec![limit("refunds-per-day", Period::Day, 50_000)], now).await.unwrap();
    let unknown = memory.unknown(memory.refund("pi_1", 12_000), now).await;
    let (permit, _) = memory.granted(memory.refund("pi_2", 100), now).await;
    memory.record(permit.spend(), &answered(200), now).await;
    let shell = memory.shell();

    let unresolved = shell.prepare("SELECT * FROM unresolved").unwrap();
    assert_eq!(
        unresolved.column_names().collect::<Vec<_>>(),
        ["id", "stage", "action", "subject", "amount", "unit", "age_s", "next_look_at", "last_evidence"]
    );
    let row = shell
        .query_row(
            "SELECT id, stage, amount, age_s < 60, next_look_at, last_evidence FROM unresolved",
            [],
            |row| {
                Ok((
                    row.get::<_, String>(0)?,
                    row.get::<_, String>(1)?,
                    row.get::<_, i64>(2)?,
                    row.get::<_, bool>(3)?,
                    row.get::<_, String>(4)?,
                    row.get::<_, String>(5)?,
                ))
            },
        )
        .unwrap();
    assert_eq!(
        (row.0.as_str(), row.1.as_str(), row.2, row.3),
        (unknown.id.as_str(), "reconciling", 12_000, true)
    );
    assert!(row.4.ends_with('Z') && row.4.len() == 20, "{}", row.4);
    assert_eq!(row.5, "answer lost (awaiting_head): connection reset");

    let exposure = shell.prepare("SELECT * FROM exposure").unwrap();
    assert_eq!(
        exposure.column_names().collect::<Vec<_>>(),
        [
            "limit",
            "dimension",
            "unit",
            "period",
            "period_start",
            "amount",
            "consumed",
            "reserved",
            "unknown_exposure",
            "available"
        ]
    );
    let row = shell
        .query_row(
            "SELECT \"limit\" || ' ' || dimension || ' ' || unit || ' ' || period || ' ' || amount || ' ' || consumed || ' '
                 || reserved || ' ' || unknown_exposure || ' ' || available, period_start FROM exposure",
            [],
            |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)),
        )
        .unwrap();
    assert_eq!(row.0, "refunds-per-day money usd day 50000 100 12000 12000 37900");
    assert!(row.1.ends_with("T00:00:00Z"), "{}", row.1);
    memory.store.sync_limits(vec![], now).await.unwrap();
    assert_eq!(memory.count("exposure"), 0);
}

#[tokio::test]
async fn the_shell_that_people_have_can_read_them() {
    let memory = Memory::new();
    let now = today(&memory);
    memory.store.sync_limits(vec![limit("cap", Period::Month, 50_000)], now).await.unwrap();
    memory.unknown(memory.refund("pi_1", 12_000), now).await;
    let run = std::process::Command::new("sqlite3")
        .arg(memory.path())
        .arg("select stage from unresolved; select \"limit\", unknown_exposure from exposure;")
        .output();
    // Where there is no sqlite3 the columns are tested above.
    let Ok(run) = run else { return };
    assert_eq!(String::from_utf8_lossy(&run.stdout), "reconciling\ncap|12000\n", "{run:?}");
}

#[tokio::test]
async fn lists_filter_by_every_word() {
    let memory = Memory::new();
    memory.unknown(with_key(memory.refund("pi_1", 1), "k1"), NOON).await;
    for exchange in [answered(200), answered(402), lost()] {
        let (permit, _) = memory.granted(memory.refund(&format!("pi_{}", memory.fresh()), 1), NOON).await;
        memory.record(permit.spend(), &exchange, NOON).await;
    }
    let all = || EffectFilter { limit: 10, ..EffectFilter::default() };
    for (filter, total) in [
        (all(), 4),
        (EffectFilter { unresolved: Some(true), ..all() }, 2),
        (EffectFilter { unresolved: Some(false), ..all() }, 2),
        (EffectFilter { outcome: Some(Outcome::Failed), ..all() }, 1),
        (EffectFilter { outcome: Some(Outcome::Pending), ..all() }, 0),
        (EffectFilter { grade: Some(Grade::Acknowledged), ..all() }, 1),
        (EffectFilter { stage: Some("reconciling".into()), ..all() }, 2),
        (EffectFilter { key: Some("k1".into()), ..all() }, 1),
        (EffectFilter { action: oncegate_policy::action::ActionName::parse("other"), ..all() }, 0),
    ] {
        let found = memory.store.list(filter.clone()).await.unwrap();
        assert_eq!((found.total, found.effects.len() as u64), (total, total), "{filter:?}");
    }
    let page =
        memory.store.list(EffectFilter { limit: 1, offset: 1, ..EffectFilter::default() }).await.unwrap();
    assert_eq!((page.total, page.effects.len()), (4, 1));
}

#[tokio::test]
async fn a_settled_request_is_erased_and_its_digest_stays() {
    let memory = Memory::new();
    let mut new = memory.refund("pi_1", 1);
    new.can_read_back = false;
    let (permit, effect) = memory.granted(new, NOON).await;
    assert_eq!(memory.count("request WHERE instr(body, 'BODYMARK')"), 1);
    let settled = memory.record(permit.spend(), &answered(200), NOON).await;
    assert_eq!(settled.request_digest, effect.request_digest);
    assert_eq!(settled.target, "POST https://api.stripe.com/v1/refunds");
    // What may still be confirmed keeps its input until it was looked for, but not its body.
    let (permit, _) = memory.granted(memory.refund("pi_2", 1), NOON).await;
    memory.record(permit.spend(), &answered(200), NOON).await;
    assert_eq!((memory.count("request"), memory.count("request WHERE length(body) > 0")), (1, 0));
    let shell = memory.shell();
    shell.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let file = std::fs::read(memory.path()).unwrap();
    assert!(!file.windows(8).any(|bytes| bytes == b"BODYMARK"));
}

/// The receipt's proof of what was sent: each part of the request is in it, and none can pass for another.
#[tokio::test]
async fn a_digest_covers_all_of_a_request_and_nothing_else() {
    let memory = Memory::new();
    let digest = async |method: &str, url: &str, header: (&str, &str), body: &str| {
        let mut new = memory.refund(&format!("pi_{}", memory.fresh()), 1);
        new.request = StoredRequest {
            method: method.into(),
            url: url.into(),
            headers: vec![(header.0.into(), header.1.into())],
            body: body.into(),
        };
        memory.granted(new, NOON).await.1.request_digest
    };
    let one = digest("POST", "https://a.example/x", ("a", "b"), "body").await;
    assert_eq!(digest("POST", "https://a.example/x", ("a", "b"), "body").await, one);
    let mut all = vec![
        one,
        digest("PUT", "https://a.example/x", ("a", "b"), "body").await,
        digest("POST", "https://a.example/y", ("a", "b"), "body").await,
        digest("POST", "https://a.example/x?y", ("a", "b"), "body").await,
        digest("POST", "https://a.example/x", ("a", "c"), "body").await,
        digest("POST", "https://a.example/x", ("ab", ""), "body").await,
        digest("POST", "https://a.example/x", ("a", "b"), "Body").await,
        digest("POS", "Thttps://a.example/x", ("a", "b"), "body").await,
    ];
    assert!(all.iter().all(|digest| digest.len() == 64), "{all:?}");
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), count);
}
