//! The real sidecar as a child process, in a folder of its own.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    agent::Agent,
    binary::{Build, oncegate},
    canary::{Finder, nowhere_below},
    conf::{CREDENTIAL, CREDENTIAL_ENV, Conf, key_of, upstream_ca},
    wait::until,
};

/// What turns on the log of everything, and of where a panic came from.
pub const TRACED: [(&str, &str); 2] = [("ONCEGATE_LOG", "trace"), ("RUST_BACKTRACE", "full")];

/// A folder with a configuration; outlives the processes that run on it.
pub struct Home {
    folder: Arc<Folder>,
    starts: AtomicUsize,
}

/// The folder itself, for as long as somebody looks into it.
struct Folder {
    dir: TempDir,
    /// Files that hold secrets because an operator wrote them, or chose to leave them open.
    secret_files: Mutex<BTreeSet<PathBuf>>,
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
        let folder = Folder { dir: TempDir::new().unwrap(), secret_files: Mutex::default() };
        let home = Home { folder: Arc::new(folder), starts: AtomicUsize::new(0) };
        fs::write(home.path("upstream-ca.pem"), upstream_ca()).unwrap();
        home.write(&conf.text());
        home
    }

    /// Another text for the configuration file.
    pub fn write(&self, text: &str) {
        fs::write(self.config(), text).unwrap();
    }

    /// A file with a secret in it, as an operator writes one. It is not looked through.
    pub fn write_secret(&self, name: &str, text: &str) {
        self.holds_secrets(name, "an operator wrote it");
        fs::write(self.path(name), text).unwrap();
    }

    /// A file in which secrets stand rightly. `reason` says why, for the reader.
    pub fn holds_secrets(&self, name: &str, reason: &'static str) {
        assert!(!reason.is_empty());
        self.folder.secret_files.lock().unwrap().insert(self.path(name));
    }

    /// Fails the test if a secret is in a file of the folder where it must not be; says how many were looked through.
    /// Each sidecar does so when it ends.
    #[track_caller]
    pub fn shows_no_secret(&self) -> usize {
        self.folder.shows_no_secret()
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        self.folder.dir.path()
    }

    /// A file in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir().join(name)
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

    /// The same with a log of everything: for tests in which secrets go their ways.
    #[track_caller]
    pub fn serve_traced(&self) -> Sidecar {
        self.serve_with(Build::Plain, &TRACED)
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
        let mut command = self.command(build, &["serve"]);
        command.envs(env.iter().copied());
        self.launch(command)
    }

    /// Starts what a command of [`Home::command`] would start, however it was changed, and waits until it serves. The
    /// process that is started has to become the sidecar.
    pub fn launch(&self, mut command: Command) -> Result<Sidecar, Done> {
        let start = self.starts.fetch_add(1, SeqCst);
        let ready = self.path(&format!("ready-{start}.json"));
        let out = self.path(&format!("stdout-{start}.log"));
        let err = self.path(&format!("stderr-{start}.log"));
        command.arg("--ready-file").arg(&ready);
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
            Err(status) => {
                self.shows_no_secret();
                Err(Done { code: code(status), out: read(&out), err: read(&err) })
            }
            Ok(ready) => {
                assert_eq!(ready["pid"], json!(child.id()));
                let address = |name: &str| -> SocketAddr { ready[name].as_str().unwrap().parse().unwrap() };
                let (proxy, control) = (address("proxy"), address("control"));
                let ca = fs::read_to_string(self.path("ca/ca.pem")).expect("a CA was made");
                Ok(Sidecar { child, proxy, control, ca, err, ready, folder: Arc::clone(&self.folder) })
            }
        }
    }
}

impl Folder {
    #[track_caller]
    fn shows_no_secret(&self) -> usize {
        nowhere_below(self.dir.path(), &self.secret_files.lock().unwrap())
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(-1)
}

/// Runs a command to its end; one that does not end is killed and fails the test, and so does one that prints a
/// credential.
#[track_caller]
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
        Finder::credentials().nowhere_in("what a command printed", &bytes);
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
    folder: Arc<Folder>,
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

    /// What writes to its input, once, if it was started with a pipe for one.
    pub fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
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

    /// A signal that ends it, and waits for the end; how it was.
    pub fn struck(mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        until("the sidecar to end", || self.child.try_wait().unwrap())
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
        // One fault at a time: a test that has failed already says why.
        if !thread::panicking() {
            self.folder.shows_no_secret();
        }
    }
}
