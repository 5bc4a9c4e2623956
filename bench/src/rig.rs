//! Everything that is measured, and how it is started: one directory that goes away, one origin, children.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use oncegate_policy::fingerprint::digest_hex;
use oncegate_store::{EffectFilter, Reader};
use serde::Serialize;
use tempfile::TempDir;

use crate::child::Child;
use crate::client::{Kind, WRITE_BYTES, Way};
use crate::origin::{CREDENTIAL, Origin};
use crate::tls::{self, FRESH_HOSTS, HOST};
use crate::{During, Failure};

/// The caller's key.
const KEY: &str = "ogk_bench_0f5a7c1e";
/// Where Oncegate finds the credential. The value is the rig's own and worth nothing.
const CREDENTIAL_ENV: &str = "ONCEGATE_BENCH_KEY";

/// Which proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proxy {
    /// The product.
    Oncegate,
    /// The least that an intercepting proxy can do.
    Floor,
    /// The same with two durable commits around each write.
    FloorJournal,
    /// Another product that passes requests on: `bench/hudsucker`, which is built by itself.
    Hudsucker,
}

impl Proxy {
    /// Every proxy, in the order of the tables.
    const ALL: [Self; 4] = [Self::Floor, Self::FloorJournal, Self::Hudsucker, Self::Oncegate];

    /// As the tables call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Oncegate => "oncegate",
            Self::Floor => "floor",
            Self::FloorJournal => "floor-journal",
            Self::Hudsucker => "hudsucker",
        }
    }

    /// Whether it is there to be compared in requests of this kind.
    #[must_use]
    pub fn takes(self, kind: Kind) -> bool {
        match self {
            Self::Oncegate | Self::Floor => true,
            // What it does for a read is what the floor does.
            Self::FloorJournal => kind == Kind::Write,
            // It passes everything on, as Oncegate does with reads alone.
            Self::Hudsucker => kind == Kind::Read,
        }
    }
}

/// A running proxy and the way through it.
pub struct Running {
    /// The process.
    pub child: Child,
    /// The way through it.
    pub way: Arc<Way>,
    /// Where its files are.
    pub dir: PathBuf,
}

/// Where the credential is kept, which decides what it costs to have it for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Secret {
    /// `from = { env = … }`
    #[default]
    Env,
    /// `from = { file = … }`
    File,
}

/// The rig. One at a time per process: it counts everything that its origin is asked.
pub struct Rig {
    /// What answers.
    pub origin: Origin,
    /// The program of `bench/hudsucker`; without one it takes no part.
    hudsucker: Option<PathBuf>,
    program: PathBuf,
    secret: Secret,
    ca_pem: String,
    ways: Vec<Arc<Way>>,
    /// Databases of Oncegate that have to hold what was asked through it.
    databases: Vec<PathBuf>,
    dir: TempDir,
}

/// What was counted at each end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// Good answers to reads that the client got.
    pub client_reads: u64,
    /// Reads that the origin answered.
    pub origin_reads: u64,
    /// Good answers to writes that the client got, on every way.
    pub client_writes: u64,
    /// Writes that the origin answered.
    pub origin_writes: u64,
    /// Writes of the client through Oncegate.
    pub oncegate_writes: u64,
    /// Effects in Oncegate's databases.
    pub effects: u64,
    /// Those of them that succeeded.
    pub effects_succeeded: u64,
    /// Writes that arrived a second time.
    pub twice: u64,
    /// Requests that arrived without the credential.
    pub refused: u64,
}

impl Counted {
    /// Whether every count is what the others say.
    #[must_use]
    pub fn exact(&self) -> bool {
        self.client_reads == self.origin_reads
            && self.client_writes == self.origin_writes
            && self.oncegate_writes == self.effects
            && self.effects == self.effects_succeeded
            && self.twice == 0
            && self.refused == 0
    }
}

impl Rig {
    /// Starts the origin. `program` is this very program, for the children; the directory is made in `parent`.
    ///
    /// # Errors
    /// The step that failed.
    pub fn new(program: &Path, parent: &Path, secret: Secret) -> Result<Self, Failure> {
        let dir = tempfile::Builder::new()
            .prefix("oncegate-bench-")
            .tempdir_in(parent)
            .during("make a directory")?;
        let tls::Origin { server, ca_pem } = tls::origin()?;
        let origin = Origin::start(server)?;
        let program = program.to_owned();
        let (ways, databases) = (Vec::new(), Vec::new());
        Ok(Self { origin, hudsucker: None, program, secret, ca_pem, ways, databases, dir })
    }

    /// The same with hudsucker, if `program` is its.
    #[must_use]
    pub fn with_hudsucker(mut self, program: Option<PathBuf>) -> Self {
        self.hudsucker = program;
        self
    }

    /// The proxies that there are.
    #[must_use]
    pub fn proxies(&self) -> Vec<Proxy> {
        let there = |proxy: &Proxy| *proxy != Proxy::Hudsucker || self.hudsucker.is_some();
        Proxy::ALL.into_iter().filter(there).collect()
    }

    /// Where the rig's files are.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Straight to the origin, with the credential.
    ///
    /// # Errors
    /// The origin's CA cannot be trusted.
    pub fn direct(&mut self) -> Result<Arc<Way>, Failure> {
        let trust = tls::client(self.ca_pem.as_bytes(), false)?;
        Ok(self.way("direct", self.origin.addr, trust, None, None, WRITE_BYTES))
    }

    /// Starts a proxy in the directory `name`, which may have been used before.
    ///
    /// # Errors
    /// The step that failed.
    pub async fn start(&mut self, proxy: Proxy, name: &str) -> Result<Running, Failure> {
        self.start_with(proxy, name, WRITE_BYTES).await
    }

    /// The same, with writes of another size.
    ///
    /// # Errors
    /// The step that failed.
    pub async fn start_with(
        &mut self,
        proxy: Proxy,
        name: &str,
        write_bytes: usize,
    ) -> Result<Running, Failure> {
        let dir = self.path().join(name);
        fs::create_dir_all(&dir).during("make a directory")?;
        fs::write(dir.join("origin-ca.pem"), &self.ca_pem).during("write the origin's CA")?;
        if proxy == Proxy::Oncegate {
            self.configure(&dir)?;
        }
        let origin = self.origin.addr.to_string();
        let place = dir.to_string_lossy().into_owned();
        let mut program = &self.program;
        let mut proof = None;
        let arguments = match proxy {
            Proxy::Oncegate => {
                proof = Some("oncegate-effect");
                vec!["serve-oncegate", &place]
            }
            Proxy::Floor => vec!["serve-floor", &place, &origin],
            Proxy::FloorJournal => vec!["serve-floor", &place, &origin, "--journal"],
            Proxy::Hudsucker => {
                program = self.hudsucker.as_ref().ok_or("it is not built").during("start hudsucker")?;
                vec![place.as_str(), &origin]
            }
        };
        let secret = CREDENTIAL.trim_start_matches("Bearer ");
        let log = dir.join("log.txt");
        let child = Child::start(program, &arguments, &[(CREDENTIAL_ENV, secret)], &log).await?;
        let trust = tls::client(&fs::read(dir.join("ca/ca.pem")).during("read a proxy's CA")?, false)?;
        let authorization = format!("Basic {}", STANDARD.encode(format!("bench:{KEY}")));
        let way = self.way(proxy.name(), child.addr, trust, Some(authorization), proof, write_bytes);
        Ok(Running { child, way, dir })
    }

    fn way(
        &mut self,
        name: &'static str,
        to: SocketAddr,
        tls: Arc<rustls::ClientConfig>,
        proxy: Option<String>,
        writes_bear: Option<&'static str>,
        write_bytes: usize,
    ) -> Arc<Way> {
        let (reads, writes) = (AtomicU64::new(0), AtomicU64::new(0));
        let way = Arc::new(Way { name, to, tls, proxy, writes_bear, write_bytes, reads, writes });
        self.ways.push(Arc::clone(&way));
        way
    }

    fn configure(&mut self, dir: &Path) -> Result<(), Failure> {
        let text = configuration(self.origin.addr, self.secret);
        fs::write(dir.join("oncegate.toml"), text).during("write the configuration")?;
        let secret = CREDENTIAL.trim_start_matches("Bearer ");
        fs::write(dir.join("credential"), secret).during("write the credential")?;
        let database = dir.join("oncegate.db");
        if !self.databases.contains(&database) {
            self.databases.push(database);
        }
        Ok(())
    }

    /// Compares what was counted at each end so far.
    ///
    /// # Errors
    /// A database cannot be read.
    pub async fn counted(&self) -> Result<Counted, Failure> {
        let sum = |count: fn(&Way) -> &AtomicU64, through: &dyn Fn(&Way) -> bool| -> u64 {
            let ways = self.ways.iter().filter(|way| through(way));
            ways.map(|way| count(way).load(Ordering::Relaxed)).sum()
        };
        let at = &self.origin.counts;
        let mut counted = Counted {
            client_reads: sum(|way| &way.reads, &|_| true),
            origin_reads: at.reads.load(Ordering::Relaxed),
            client_writes: sum(|way| &way.writes, &|_| true),
            origin_writes: at.writes.load(Ordering::Relaxed),
            oncegate_writes: sum(|way| &way.writes, &|way| way.name == Proxy::Oncegate.name()),
            twice: at.twice.load(Ordering::Relaxed),
            refused: at.refused.load(Ordering::Relaxed),
            ..Counted::default()
        };
        for database in &self.databases {
            let reader = Reader::open(database).during("open a database")?;
            for (count, outcome) in [
                (&mut counted.effects, None),
                (&mut counted.effects_succeeded, Some(oncegate_policy::effect::Outcome::Succeeded)),
            ] {
                let filter = EffectFilter { outcome, limit: 1, ..EffectFilter::default() };
                *count += reader.list(filter).await.during("count the effects")?.total;
            }
        }
        Ok(counted)
    }
}

/// One caller, one host with a credential, one governed write, one limit that it takes from, reads let through.
fn configuration(origin: SocketAddr, secret: Secret) -> String {
    let digest = digest_hex(KEY.as_bytes());
    let from = match secret {
        Secret::Env => format!("env = \"{CREDENTIAL_ENV}\""),
        Secret::File => "file = \"credential\"".to_owned(),
    };
    format!(
        r#"
[proxy]
listen = "127.0.0.1:0"
max_connections = 8192

[control]
listen = "127.0.0.1:0"

[callers.bench]
key_sha256 = "{digest}"
scopes = ["actions:invoke"]

[secrets.BENCH_KEY]
from = {{ {from} }}
allowed_hosts = ["{HOST}"]

[hosts."{HOST}"]
credential = {{ header = "Authorization", value = "Bearer {{{{secret:BENCH_KEY}}}}" }}
reads = "allow"
connect_to = "{origin}"
ca_file = "origin-ca.pem"

[hosts.".{FRESH_HOSTS}"]
connect_to = "{origin}"
ca_file = "origin-ca.pem"

[actions.make-thing]
method = "POST"
url = "https://{HOST}/v1/things/{{{{input.id}}}}"
subject = "{{{{input.id}}}}"
identical_within = "0s"
impact = {{ dimension = "resource_mutations", amount = "1", bound = "exact" }}

[limits.things]
dimension = "resource_mutations"
period = "total"
amount = 1_000_000_000_000
"#
    )
}
