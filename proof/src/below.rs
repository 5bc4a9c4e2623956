//! What lies below the store: a small C library (`below/below.c`) is preloaded into the real process, watches the calls
//! that reach its disk and its provider, writes them down, and stops the process or makes a call fail where it is told
//! to. Beside it, what a proof needs to play with a process and to judge what it leaves. Modules in reading order.

pub(crate) mod check;
pub(crate) mod child;
pub(crate) mod client;
pub(crate) mod disk;
pub(crate) mod facts;
pub(crate) mod journal;
pub(crate) mod play;
pub(crate) mod plays;
pub(crate) mod recording;
pub(crate) mod rows;
pub(crate) mod stage;

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::failure::{During, Failure};

const SOURCE: &str = include_str!("../below/below.c");

/// The compiled library, for as long as this lives.
pub(crate) struct Library {
    folder: TempDir,
}

impl Library {
    /// Compiles it with the C compiler that SQLite was compiled with: `CC`, or `cc`.
    pub(crate) fn compile() -> Result<Self, Failure> {
        const STEP: &str = "compile below/below.c";
        let folder = TempDir::new().during(STEP)?;
        let source = folder.path().join("below.c");
        fs::write(&source, SOURCE).during(STEP)?;
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-std=gnu11", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o"]);
        command.arg(folder.path().join("below.so")).arg(&source).args(["-ldl", "-lpthread"]);
        let done = command.output().during(STEP)?;
        if done.status.success() {
            return Ok(Self { folder });
        }
        Err(Failure::new(STEP, String::from_utf8_lossy(&done.stderr)))
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("below.so")
    }
}

/// What happens to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The process stops before it.
    Kill,
    /// The process stops after it.
    After,
    /// Half of it is written, then the process stops.
    Short,
    /// It fails, this once.
    Once(Errno),
    /// It fails, and every later one on the same side (disk or provider).
    From(Errno),
}

/// What a failing call says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Errno {
    NoSpace,
    InputOutput,
}

impl fmt::Display for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Kill => "kill",
            Self::After => "after",
            Self::Short => "short",
            Self::Once(Errno::NoSpace) => "enospc",
            Self::Once(Errno::InputOutput) => "eio",
            Self::From(Errno::NoSpace) => "enospc+",
            Self::From(Errno::InputOutput) => "eio+",
        })
    }
}

/// How one process is watched.
#[derive(Clone)]
pub(crate) struct Below<'a> {
    pub(crate) library: &'a Library,
    pub(crate) database: &'a Path,
    /// The provider's port.
    pub(crate) port: u16,
    /// Where the calls are written down.
    pub(crate) log: Option<&'a Path>,
    /// Without what was written.
    pub(crate) brief: bool,
    /// The call at which something happens, and what.
    pub(crate) plan: Option<(i64, Fault)>,
}

impl Below<'_> {
    /// Puts the recorder under a process that is to be started.
    pub(crate) fn under(&self, command: &mut Command) {
        let mut set = |name: &str, value: &OsStr| {
            command.env(name, value);
        };
        set("LD_PRELOAD", self.library.path().as_os_str());
        set("ONCEGATE_BELOW_DATABASE", self.database.as_os_str());
        set("ONCEGATE_BELOW_PORT", self.port.to_string().as_ref());
        if let Some(log) = self.log {
            set("ONCEGATE_BELOW_LOG", log.as_os_str());
        }
        if self.brief {
            set("ONCEGATE_BELOW_BRIEF", "1".as_ref());
        }
        if let Some((number, fault)) = self.plan {
            set("ONCEGATE_BELOW_PLAN", format!("{number}:{fault}").as_ref());
        }
    }
}
