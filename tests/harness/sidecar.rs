//! The real sidecar as a child process, in a folder of its own.

use std::{
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use rusqlite::{Connection, OpenFlags, types::ValueRef};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::{
    agent::Agent,
    binary::{Build, oncegate},
    conf::{CREDENTIAL, CREDENTIAL_ENV, Conf, key_of, upstream_ca},
    wait::until,
};

/// A folder with a configuration; outlives the processes that run on it.
pub struct Home {
    dir: TempDir,
    starts: AtomicUsize,
}

/// What a command did.
#[derive(Debug)]
pub struct Done {
    /// Its exit code; -1 when a signal ended it.
    pub code: i32,
    /// What it printed.
    pub out: String,
    /// What it complained of.
    pub err: String,
}

impl Done {
    /// Its output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }
}

impl Home {
    /// A new folder with this configuration.
    pub fn new(conf: &Conf) -> Home {
        let home = Home { dir: TempDir::new().unwrap(), starts: AtomicUsize::new(0) };
        fs::write(home.path("upstream-ca.pem"), upstream_ca()).unwrap();
        home.write(&conf.text());
        home
    }

    /// Another text for the configuration file.
    pub fn write(&self, text: &str) {
        fs::write(self.config(), text).unwrap();
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.path("oncegate.toml")
    }

    /// A command on this folder: `--config` is added, the environment is bare but for the credential's variable.
    pub fn command(&self, build: Build, args: &[&str]) -> Command {
        let mut command = Command::new(oncegate(build));
        let ours = args.iter().position(|a| *a == "--").unwrap_or(args.len());
        command.args(&args[..ours]).arg("--config").arg(self.config()).args(&args[ours..]);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", self.dir());
        command.env(CREDENTIAL_ENV, CREDENTIAL).current_dir(self.dir()).stdin(Stdio::null());
        command
    }

    /// Runs a command to its end.
    pub fn run(&self, args: &[&str]) -> Done {
        finish(self.command(Build::Plain, args))
    }

    /// Reads from the database itself, while the sidecar runs or not.
    pub fn run_on_db(&self, args: &[&str]) -> Done {
        let db = self.path("oncegate.db").display().to_string();
        self.run(&[args, &["--db", &db]].concat())
    }

    /// Starts the sidecar and waits until it serves.
    #[track_caller]
    pub fn serve(&self) -> Sidecar {
        self.serve_with(Build::Plain, &[])
    }

    /// The same with another build and more environment.
    #[track_caller]
    pub fn serve_with(&self, build: Build, env: &[(&str, &str)]) -> Sidecar {
        match self.try_serve(build, env) {
            Ok(sidecar) => sidecar,
            Err(done) => panic!("the sidecar ended before it served: {done:?}"),
        }
    }

    /// The same; what it said if it ended before it served.
    pub fn try_serve(&self, build: Build, env: &[(&str, &str)]) -> Result<Sidecar, Done> {
        let start = self.starts.fetch_add(1, SeqCst);
        let ready = self.path(&format!("ready-{start}.json"));
        let out = self.path(&format!("stdout-{start}.log"));
        let err = self.path(&format!("stderr-{start}.log"));
        let mut command = self.command(build, &["serve", "--ready-file", &ready.display().to_string()]);
        command.envs(env.iter().copied());
        command.stdout(File::create(&out).unwrap()).stderr(File::create(&err).unwrap());
        let mut child = command.spawn().unwrap();
        let addresses = until("the sidecar to be ready", || {
            if let Some(status) = child.try_wait().unwrap() {
                return Some(Err(status));
            }
            let text = fs::read(&ready).ok()?;
            serde_json::from_slice::<Value>(&text).ok().map(Ok)
        });
        let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        match addresses {
            Err(status) => Err(Done { code: code(status), out: read(&out), err: read(&err) }),
            Ok(ready) => {
                assert_eq!(ready["pid"], json!(child.id()));
                let address = |name: &str| -> SocketAddr { ready[name].as_str().unwrap().parse().unwrap() };
                let (proxy, control) = (address("proxy"), address("control"));
                let ca = fs::read_to_string(self.path("ca/ca.pem")).expect("a CA was made");
                Ok(Sidecar { child, proxy, control, ca, err, ready })
            }
        }
    }

    /// The rows of a query, read-only, as an operator's `sqlite3` would.
    #[track_caller]
    pub fn query(&self, sql: &str) -> Vec<Value> {
        let db =
            Connection::open_with_flags(self.path("oncegate.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let mut statement = db.prepare(sql).unwrap();
        let names: Vec<String> = statement.column_names().map(str::to_owned).collect();
        let rows = statement.query_map([], |row| {
            let mut all = Map::new();
            for (at, name) in names.iter().enumerate() {
                all.insert(name.clone(), value(row.get_ref(at)?));
            }
            Ok(Value::Object(all))
        });
        rows.unwrap().map(Result::unwrap).collect()
    }

    /// The documented view of what is waiting, in flight or unknown.
    #[track_caller]
    pub fn unresolved(&self) -> Vec<Value> {
        self.query("select * from unresolved")
    }

    /// The documented view of one limit.
    #[track_caller]
    pub fn exposure(&self, limit: &str) -> Value {
        let mut rows = self.query("select * from exposure");
        rows.retain(|row| row["limit"] == limit);
        assert_eq!(rows.len(), 1, "rows of {limit}: {rows:?}");
        rows.remove(0)
    }

    /// `(consumed, reserved, unknown_exposure)` of the daily limit.
    #[track_caller]
    pub fn money(&self) -> (u64, u64, u64) {
        let row = self.exposure("refunds-per-day");
        let cents = |name: &str| row[name].as_u64().unwrap_or_else(|| panic!("{name} in {row}"));
        assert_eq!(cents("available") + cents("consumed") + cents("reserved"), cents("amount"), "in {row}");
        (cents("consumed"), cents("reserved"), cents("unknown_exposure"))
    }

    /// All effects, from the database.
    #[track_caller]
    pub fn effects(&self) -> Vec<Value> {
        let done = self.run_on_db(&["effects", "--json"]);
        assert_eq!(done.code, 0, "{done:?}");
        done.json().as_array().unwrap_or_else(|| panic!("a list: {done:?}")).clone()
    }

    /// One effect, from the database.
    #[track_caller]
    pub fn effect(&self, id: &str) -> Value {
        let all = self.effects();
        all.iter().find(|e| e["id"] == id).unwrap_or_else(|| panic!("no {id} in {all:?}")).clone()
    }

    /// Waits until an effect has this outcome, and gives it.
    #[track_caller]
    pub fn wait_outcome(&self, id: &str, outcome: &str) -> Value {
        until(&format!("{id} to be {outcome}; now {}", self.effect(id)), || {
            Some(self.effect(id)).filter(|e| e["outcome"] == outcome)
        })
    }
}

fn value(column: ValueRef<'_>) -> Value {
    match column {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(n) => json!(n),
        ValueRef::Real(n) => json!(n),
        ValueRef::Text(text) => json!(String::from_utf8_lossy(text)),
        ValueRef::Blob(bytes) => json!(bytes),
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(-1)
}

/// Runs a command to its end; one that does not end is killed and fails the test.
pub fn finish(mut command: Command) -> Done {
    let (out, err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap());
    let mut child = Owned(command.spawn().unwrap());
    let status = until("a command to end", || child.0.try_wait().unwrap());
    let read = |mut file: File| {
        use std::io::{Read, Seek};
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Done { code: code(status), out: read(out), err: read(err) }
}

/// Killed, by its own id, when the test is over.
struct Owned(Child);

impl Drop for Owned {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// A running sidecar; killed when dropped.
pub struct Sidecar {
    child: Child,
    /// The proxy listener.
    pub proxy: SocketAddr,
    /// The API listener.
    pub control: SocketAddr,
    ca: String,
    err: PathBuf,
    ready: Value,
}

impl Sidecar {
    /// What it has said of where it listens.
    pub fn ready(&self) -> &Value {
        &self.ready
    }

    /// Somebody without a key at another of its listeners.
    pub fn keyless(&self, at: SocketAddr) -> Agent {
        Agent::new(at, &self.ca, "", "").authorized(None)
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A caller of the configuration, at the proxy listener.
    pub fn agent(&self, caller: &str) -> Agent {
        Agent::new(self.proxy, &self.ca, caller, key_of(caller))
    }

    /// The usual caller.
    pub fn billing(&self) -> Agent {
        self.agent("billing-agent")
    }

    /// A command that talks to this sidecar's API as a caller.
    pub fn cli(&self, home: &Home, caller: &str, args: &[&str]) -> Done {
        let mut command = home.command(Build::Plain, args);
        command.env_remove(CREDENTIAL_ENV);
        command.env("ONCEGATE_URL", format!("http://{}", self.control)).env("ONCEGATE_KEY", key_of(caller));
        finish(command)
    }

    /// A look at the provider, asked for by a caller.
    pub fn reconcile(&self, home: &Home, caller: &str, effect: &str) -> Done {
        self.cli(home, caller, &["effect", "reconcile", effect])
    }

    /// What it has logged so far.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.err).unwrap()).into_owned()
    }

    /// Still there?
    pub fn alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// SIGKILL, and waits for the end.
    pub fn kill9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and waits for the end; its exit code.
    pub fn stop(mut self) -> i32 {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.ended()
    }

    /// Waits for an end of its own; its exit code, -1 for a signal.
    pub fn ended(&mut self) -> i32 {
        code(until("the sidecar to end", || self.child.try_wait().unwrap()))
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
