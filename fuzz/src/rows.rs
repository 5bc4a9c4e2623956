//! A database that somebody has written into: an error, or what is there; never a panic.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use oncegate_policy::action::ActionName;
use oncegate_policy::admission::{Asked, CallerKey};
use oncegate_policy::caller::CallerName;
use oncegate_policy::fingerprint::Fingerprint;
use oncegate_policy::id::{EffectId, InvocationId, OwnerId};
use oncegate_policy::impact::{Bound, Dimension, Impact};
use oncegate_policy::limit::{Limit, Period};
use oncegate_policy::reconcile::Schedule;
use oncegate_policy::time::Timestamp;
use oncegate_store::admit::{Admitted, NewEffect};
use oncegate_store::read::{EffectFilter, Reader};
use oncegate_store::view::{SecretNames, StoredRequest};
use oncegate_store::{Store, StoreOptions};
use rusqlite::Connection;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// 2026-03-30T13:43:54Z
const NOW: Timestamp = Timestamp(1_774_878_234_000);

struct Template {
    runtime: Runtime,
    directory: TempDir,
    bytes: Vec<u8>,
    /// All that the events say.
    events: Vec<String>,
    /// Each column of each table that has rows.
    columns: Vec<(String, String)>,
}

fn template() -> &'static Template {
    static TEMPLATE: OnceLock<Template> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let directory = tempfile::tempdir().expect("a directory");
        let runtime = Runtime::new().expect("a runtime");
        let path = directory.path().join("template.db");
        runtime.block_on(fill(&path));
        let connection = Connection::open(&path).expect("the database");
        let triggers = texts(&connection, "SELECT name FROM sqlite_schema WHERE type = 'trigger'");
        for trigger in triggers {
            connection.execute_batch(&format!("DROP TRIGGER \"{trigger}\"")).expect("a trigger");
        }
        let tables = texts(
            &connection,
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
        );
        let mut columns = Vec::new();
        for table in tables {
            for column in texts(&connection, &format!("SELECT name FROM pragma_table_info('{table}')")) {
                columns.push((table.clone(), column));
            }
        }
        let events = events(&connection).expect("the events");
        connection.pragma_update(None, "journal_mode", "DELETE").expect("one file");
        drop(connection);
        let bytes = std::fs::read(&path).expect("the file");
        Template { runtime, directory, bytes, events, columns }
    })
}

fn texts(connection: &Connection, sql: &str) -> Vec<String> {
    let mut statement = connection.prepare(sql).expect("a statement");
    let rows = statement.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|row| row.expect("a text")).collect()
}

/// Each event as one text.
fn events(connection: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare("SELECT * FROM event ORDER BY seq")?;
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| {
        (0..columns)
            .map(|at| row.get_ref(at).map(|value| format!("{value:?}")))
            .collect::<rusqlite::Result<String>>()
    })?;
    rows.collect()
}

fn ulid(number: u8) -> String {
    format!("01ARZ3NDEKTSV4RRFFQ69G5F{number:02}")
}

/// One that waits, one that succeeded, one that nobody knows of.
async fn fill(path: &Path) {
    let options = StoreOptions {
        path: path.to_owned(),
        schedule: Schedule { first_after: Duration::from_secs(30), max_interval: Duration::from_secs(3600) },
        queue_capacity: 64,
        keep_responses: Duration::from_secs(86_400),
    };
    let store = Store::open(options, OwnerId::from_ulid(&ulid(0)), NOW).expect("a store");
    let usd = Dimension::Money { currency: "usd".to_owned() };
    let limit = Limit {
        name: "cap".to_owned(),
        dimension: usd.clone(),
        period: Period::Day,
        amount: 1_000,
        action: None,
        resource_prefix: None,
    };
    store.sync_limits(vec![limit], NOW).await.expect("a limit");
    for number in 1..=3 {
        let admitted = store.admit(effect(number, &usd), NOW).await.expect("an admission");
        let Admitted::Granted { permit, .. } = admitted else { panic!("not granted") };
        let claim = permit.spend();
        if number > 1 {
            store.mark_unknown(&claim, "lost", NOW).await.expect("a record");
        }
    }
}

fn effect(number: u8, usd: &Dimension) -> NewEffect {
    let subject = format!("pi_{number}");
    let input = serde_json::json!({ "payment_intent": subject, "amount": 1 });
    NewEffect {
        invocation: InvocationId::from_ulid(&ulid(number)),
        effect: EffectId::from_ulid(&ulid(number)),
        caller: CallerName::parse("agent").expect("a name"),
        action: ActionName::parse("refund").expect("a name"),
        asked: Asked {
            caller_key: Some(CallerKey { text: format!("refund:{number}"), generated: false }),
            second_key: Some(CallerKey { text: format!("op-{number}"), generated: false }),
            declared_key: None,
            fingerprint: Fingerprint::of("refund", &input, &[]),
            identical_within: Duration::from_secs(86_400),
            retry_of: None,
        },
        subject: Some(subject.clone()),
        realm: None,
        near: Vec::new(),
        resource: Some(subject),
        impact: Some(Impact { dimension: usd.clone(), amount: Some(1), bound: Bound::Exact }),
        provider_key: format!("oncegate-{number}"),
        replay_until: Some(Timestamp(NOW.0 + 1)),
        can_read_back: true,
        memory: input.to_string(),
        request: StoredRequest {
            method: "POST".to_owned(),
            url: "https://api.example/v1/refunds".to_owned(),
            headers: vec![("content-type".to_owned(), "application/json".to_owned())],
            body: b"{}".to_vec(),
        },
        approval: None,
        depends_on: vec![],
        compensates: None,
        preview: None,
        drill: None,
        credential: SecretNames::new(),
        listener: "proxy",
    }
}

/// An even first byte: statements as `column, kind, value`; an odd one: bytes of the file.
pub fn run(data: &[u8]) {
    let Some((choice, edits)) = data.split_first() else { return };
    let template = template();
    let path = template.directory.path().join("case.db");
    for more in ["", "-wal", "-shm", "-journal"] {
        let mut name = path.clone().into_os_string();
        name.push(more);
        drop(std::fs::remove_file(PathBuf::from(name)));
    }
    let mut forged = false;
    if choice % 2 == 0 {
        std::fs::write(&path, &template.bytes).expect("a copy");
        forged = write_rows(&path, edits);
    } else {
        let mut bytes = template.bytes.clone();
        for edit in edits.chunks_exact(3).take(64) {
            let at = usize::from(u16::from_be_bytes([edit[0], edit[1]])) * 7 % bytes.len();
            bytes[at] = edit[2];
        }
        std::fs::write(&path, bytes).expect("a copy");
    }
    template.runtime.block_on(read(&path, forged));
}

/// Whether an event says something else now.
fn write_rows(path: &Path, edits: &[u8]) -> bool {
    let connection = Connection::open(path).expect("a copy of a sound database");
    connection
        .execute_batch(
            "PRAGMA foreign_keys = 0; PRAGMA ignore_check_constraints = 1; PRAGMA synchronous = 0;",
        )
        .expect("settings");
    let columns = &template().columns;
    for edit in edits.split(|b| *b == b'\n').take(16) {
        let [column, kind, value @ ..] = edit else { continue };
        let (table, column) = &columns[usize::from(*column) % columns.len()];
        let text = String::from_utf8_lossy(value);
        let sql = format!("UPDATE \"{table}\" SET \"{column}\" = ?1");
        let set = match kind % 4 {
            0 => connection.execute(&sql, [text.parse::<i64>().unwrap_or(i64::MIN)]),
            1 => connection.execute(&sql, [&text]),
            2 => connection.execute(&sql, [value]),
            _ => connection.execute(&sql, [None::<i64>]),
        };
        // A constraint of the schema: then it stays as it was.
        drop(set);
    }
    events(&connection).expect("the events") != template().events
}

/// What is read of an effect by itself is what is read of it among others, each time; and an event that was changed is
/// noticed.
async fn read(path: &Path, forged: bool) {
    let Ok(reader) = Reader::open(path) else { return };
    let all = EffectFilter { limit: 100, ..EffectFilter::default() };
    let listed = reader.list(all.clone()).await.map_or_else(|_| Vec::new(), |page| page.effects);
    drop(reader.invocations(all).await);
    for number in 1..=3 {
        let id = EffectId::from_ulid(&ulid(number));
        let (once, again) = (reader.effect(&id).await, reader.effect(&id).await);
        assert_eq!(format!("{once:?}"), format!("{again:?}"));
        if let Ok(Some(mut detail)) = once
            && let Some(view) = listed.iter().find(|view| view.id == id)
        {
            // A list does without the answers.
            detail.view.response = None;
            assert_eq!(*view, detail.view);
        }
        drop(reader.effect_of(&InvocationId::from_ulid(&ulid(number))).await);
    }
    drop(reader.exposures(NOW).await);
    let chain = reader.verify_chain().await;
    let clean = chain.is_ok_and(|report| report.fault.is_none());
    assert!(!(forged && clean), "an event was changed, and nobody noticed");
}
