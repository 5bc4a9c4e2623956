//! The real sidecar under the recorder.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use oncegate_tests::binary::{Build, oncegate};
use oncegate_tests::conf::{CREDENTIAL, CREDENTIAL_ENV};
use serde_json::Value;

use crate::below::Below;
use crate::failure::{During, Failure};

/// For a start and for an end.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at another process, which can only be polled.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A sidecar that serves.
pub(crate) struct Sidecar {
    process: Process,
    pub(crate) proxy: SocketAddr,
    pub(crate) control: SocketAddr,
}

/// What became of a start.
pub(crate) enum Started {
    Serves(Sidecar),
    /// It ended before it served.
    Ended(ExitStatus),
}

/// How a sidecar is started.
pub(crate) struct Start<'a> {
    pub(crate) build: Build,
    pub(crate) folder: &'a Path,
    pub(crate) below: Option<&'a Below<'a>>,
    pub(crate) environment: &'a [(&'a str, String)],
}

impl Start<'_> {
    /// Starts it and waits until it serves or has ended.
    pub(crate) fn now(&self) -> Result<Started, Failure> {
        let ready = self.folder.join("ready.json");
        drop(fs::remove_file(&ready));
        let log = File::options().create(true).append(true).open(self.folder.join("stderr.log"));
        let mut command = Command::new(oncegate(self.build));
        command.args(["serve", "--config"]).arg(self.folder.join("oncegate.toml"));
        command.arg("--ready-file").arg(&ready).current_dir(self.folder);
        command.env_clear().env("HOME", self.folder).env(CREDENTIAL_ENV, CREDENTIAL);
        if let Some(below) = self.below {
            below.under(&mut command);
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.during("open a log")?);
        let mut process = Process(command.spawn().during("start the sidecar")?);
        let said = until("wait for the sidecar to serve", || {
            if let Some(status) = process.0.try_wait().ok()? {
                return Some(Err(status));
            }
            serde_json::from_slice::<Value>(&fs::read(&ready).ok()?).ok().map(Ok)
        })?;
        let said = match said {
            Ok(said) => said,
            Err(status) => return Ok(Started::Ended(status)),
        };
        let address = |name: &str| {
            said[name].as_str().and_then(|text| text.parse().ok()).during("read where the sidecar serves")
        };
        let (proxy, control) = (address("proxy")?, address("control")?);
        Ok(Started::Serves(Sidecar { process, proxy, control }))
    }
}

impl Sidecar {
    /// SIGKILL, and waits for the end.
    pub(crate) fn kill(mut self) -> Result<(), Failure> {
        self.process.0.kill().during("kill the sidecar")?;
        self.process.0.wait().map(drop).during("kill the sidecar")
    }

    /// SIGTERM, and waits for the end.
    pub(crate) fn stop(mut self) -> Result<(), Failure> {
        let pid = rustix::process::Pid::from_child(&self.process.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).during("stop the sidecar")?;
        until("stop the sidecar", || self.process.0.try_wait().ok()?).map(drop)
    }

    /// Its number among the processes.
    pub(crate) fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        matches!(self.process.0.try_wait(), Ok(Some(_)))
    }
}

/// A child process; killed when dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// Asks again and again until there is an answer.
pub(crate) fn until<T>(step: &str, mut ask: impl FnMut() -> Option<T>) -> Result<T, Failure> {
    let begun = Instant::now();
    loop {
        if let Some(found) = ask() {
            return Ok(found);
        }
        if begun.elapsed() > PATIENCE {
            return Err(Failure::new(step, "it took too long"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
