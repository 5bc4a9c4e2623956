//! What a scenario is played on: a bank that counts, and a folder with a configuration.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use oncegate_tests::canary;
use oncegate_tests::conf::{CREDENTIAL_ENV, Conf};
use oncegate_tests::gate::Gate;
use oncegate_tests::provider::{Brain, Provider};
use oncegate_tests::record::Request;
use oncegate_tests::script::{Act, Reply, When};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::failure::{During, Failure};
use crate::memory;

/// The bank's host. It speaks in clear, so that the recorder sees whose bytes leave.
pub(crate) const HOST: &str = "bank.test";
/// What the limit allows in a day.
pub(crate) const PER_DAY: u64 = 10_000;

/// A bank whose books are what its account numbers say.
///
/// `lost-…` is booked, and the first answer to it lost; `bad-…` is refused; `hang-…` is booked, and no answer ever
/// comes; everything else is booked and answered. It ignores keys: a second send is a second booking.
#[derive(Clone, Default)]
pub(crate) struct Bank {
    booked: Arc<Mutex<HashMap<String, usize>>>,
}

impl Brain for Bank {
    fn answer(&self, request: &Request) -> Reply {
        let mut booked = self.booked.lock().unwrap_or_else(PoisonError::into_inner);
        let path = request.target.split('?').next().unwrap_or_default();
        let id = path.rsplit('/').next().unwrap_or_default();
        let said = json!({ "id": id, "status": "booked" });
        if !request.is_write() {
            return match booked.get(path) {
                Some(_) => ok(&said),
                None => Reply::json("404 Not Found", r#"{"error":"no such thing"}"#),
            };
        }
        if id.starts_with("bad-") {
            return Reply::json("422 Unprocessable Content", r#"{"error":"no"}"#);
        }
        let times = booked.entry(path.to_owned()).or_default();
        *times += 1;
        match id.split('-').next().unwrap_or_default() {
            "lost" if *times == 1 => Reply::lost(),
            "hang" => Reply { when: When::Whole, acts: vec![Act::UntilEnd(Gate::default())] },
            _ => ok(&said),
        }
    }
}

fn ok(body: &Value) -> Reply {
    Reply::json("200 OK", &body.to_string())
}

/// A folder for a sidecar and a bank beside it.
pub(crate) struct Stage {
    folder: TempDir,
    pub(crate) bank: Provider,
}

impl Stage {
    /// A fresh one. From `warm`, where a sidecar has run before, comes its trust, so that it is not made each time,
    /// and, if wanted, its database.
    pub(crate) fn new(warm: &Path, with_database: bool) -> Result<Self, Failure> {
        const STEP: &str = "set the stage";
        let folder = memory::folder()?;
        let bank = Provider::plain_with(Arc::new(Bank::default()));
        copy(warm, folder.path()).during(STEP)?;
        let database = folder.path().join("oncegate.db");
        if !with_database && database.exists() {
            fs::remove_file(database).during(STEP)?;
        }
        fs::write(folder.path().join("oncegate.toml"), configuration(bank.addr().port())).during(STEP)?;
        Ok(Self { folder, bank })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder().join("oncegate.db")
    }

    /// Where in the folder a secret can be read that must not be there. What the recorder wrote down was sent to the bank.
    pub(crate) fn shows_a_secret(&self) -> Option<String> {
        let (hits, _) = canary::below(self.folder(), &BTreeSet::from([self.folder().join("below.log")]));
        hits.first().map(|(file, hit)| format!("a secret is in {}: {hit}", file.display()))
    }

    /// Leaves the folder where it is, for somebody to look at.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}

/// Copies a folder's files, and those of the folders in it.
pub(crate) fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            fs::create_dir_all(&target)?;
            copy(&entry.path(), &target)?;
        } else if entry.file_type()?.is_file() {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The bank's host in a configuration, and the credential that it is sent.
pub(crate) fn bank_host(port: u16) -> String {
    format!(
        r#"
[secrets.BANK_KEY]
from = {{ env = "{CREDENTIAL_ENV}" }}
allowed_hosts = ["{HOST}"]
allowed_placements = ["header"]

[hosts."{HOST}"]
credential = {{ header = "Authorization", value = "Bearer {{{{secret:BANK_KEY}}}}" }}
plain = true
connect_to = "127.0.0.1:{port}"
"#
    )
}

fn configuration(port: u16) -> String {
    let impact = r#"impact = { dimension = "money", currency = "usd", amount = "input.amount" }"#;
    let way = |name: &str, path: &str, more: &str| {
        format!(
            r#"
[actions.{name}]
method = "POST"
url = "http://{HOST}/v1/{path}/{{{{input.id}}}}"
subject = "{{{{input.id}}}}"
idempotency = {{ header = "Idempotency-Key", window = "24h" }}
verify = {{ url = "http://{HOST}/v1/{path}/{{{{input.id}}}}", match = [{{ path = "id", equals = "{{{{input.id}}}}" }}] }}
{impact}
{more}
"#
        )
    };
    let text = Conf::default()
        .timing("2s", "4s")
        .with(&bank_host(port))
        .with(&way("transfer", "transfers", ""))
        .with(&way("order", "orders", "requires_approval = true"))
        .with(&format!(
            "[actions.search]\nmethod = \"POST\"\nurl = \"http://{HOST}/v1/searches/{{{{input.id}}}}\"\ngoverned = false\n"
        ))
        .with(&format!(
            "[limits.per-day]\ndimension = \"money\"\ncurrency = \"usd\"\nperiod = \"day\"\namount = {PER_DAY}\n"
        ));
    text.text()
}
