//! Finds clients and lets each ask once, within a time.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use oncegate_policy::caller::CallerName;
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::desk::Gate;
use super::super::exit::{Stop, chain};
use super::super::run;
use super::behind::Behind;
use super::clients::{Client, Settings};
use super::python;
use super::verdict::{Ended, Verdict};
use crate::load::Loaded;
use crate::probe;
use crate::state::new_ulid;

/// For one client to ask. A Java that compiles first, on a busy machine, is the slowest.
const ASK_TIMEOUT: Duration = Duration::from_secs(30);
/// For one to say its version, or which modules there are.
const SAY_TIMEOUT: Duration = Duration::from_secs(15);
/// Clients that run at once.
const AT_ONCE: usize = 4;
/// Bytes that are read of what a client says.
const SAID_BYTES_MAX: u64 = 64 * 1024;
/// Characters of a version that are shown.
const VERSION_CHARS_MAX: usize = 48;
/// Characters of its last word that are shown.
const WORD_CHARS_MAX: usize = 200;

/// What every trial needs.
struct Bench {
    loaded: Loaded,
    caller: CallerName,
    gate: Gate,
    /// Removed at the end, with all that the clients wrote there.
    directory: TempDir,
    turns: Semaphore,
}

/// Tries every client that is found; and the names of the others.
pub(super) async fn all(
    loaded: &Loaded,
    caller: &CallerName,
    behind: &Behind,
    clients: &[&'static Client],
) -> Result<(Vec<Verdict>, Vec<&'static str>), Stop> {
    let directory = tempfile::tempdir()
        .map_err(|error| Stop::failed(format!("cannot make a temporary directory: {error}")))?;
    // Before anything else: whether it is there, and of a version that tells.
    behind.seen(caller, "nobody").await?;
    let gate = behind.gate().clone();
    let turns = Semaphore::new(AT_ONCE);
    let bench = Arc::new(Bench { loaded: loaded.clone(), caller: caller.clone(), gate, directory, turns });
    let modules = bench.modules(clients).await;
    let (mut trials, mut absent) = (JoinSet::new(), Vec::new());
    for (number, client) in clients.iter().copied().enumerate() {
        let version = client.module.map(|(module, _)| modules.get(module).cloned());
        match (found(client.program), version) {
            (None, _) | (Some(_), Some(None)) => absent.push(client.name),
            (Some(program), version) => {
                let (bench, label) = (Arc::clone(&bench), new_ulid().to_ascii_lowercase());
                let version = version.flatten();
                trials.spawn(async move {
                    let verdict = bench.tried(client, &program, version, &label).await;
                    (number, label, verdict)
                });
            }
        }
    }
    let mut tried = BTreeMap::new();
    while let Some(ended) = trials.join_next().await {
        let (number, label, mut verdict) = ended.map_err(|error| Stop::failed(chain(&error)))?;
        verdict.seen = behind.seen(caller, &label).await?;
        tried.insert(number, verdict);
    }
    Ok((tried.into_values().collect(), absent))
}

impl Bench {
    /// A command in the environment of a run, in a directory of its own, without input.
    fn command(&self, program: &Path, directory: &Path) -> Command {
        let mut command = Command::new(program);
        run::surround(&mut command, &self.loaded, &self.gate, &self.caller);
        command.current_dir(directory).stdin(Stdio::null()).process_group(0).kill_on_drop(true);
        command
    }

    async fn tried(
        &self,
        client: &'static Client,
        program: &Path,
        version: Option<String>,
        label: &str,
    ) -> Verdict {
        // The semaphore is never closed.
        let _turn = self.turns.acquire().await;
        let directory = self.directory.path().join(label);
        let (ended, said) = match self.ask(client, program, label, &directory).await {
            Ok(tried) => tried,
            Err(error) => (Ended::Never(error.to_string()), String::new()),
        };
        let version = match version {
            Some(version) => Some(version),
            None => self.version(client, program, &directory).await,
        };
        let said = last_line(&said.replace(&self.gate.token, "…"));
        Verdict { client, program: program.display().to_string(), version, seen: None, ended, said }
    }

    async fn ask(
        &self,
        client: &Client,
        program: &Path,
        label: &str,
        directory: &Path,
    ) -> io::Result<(Ended, String)> {
        fs::create_dir_all(directory)?;
        if let Some((name, text)) = client.file {
            fs::write(directory.join(name), text)?;
        }
        if let Some(settings) = &client.settings {
            copy(settings, directory)?;
        }
        let url = format!("https://{label}.{}/", probe::HOST);
        let filled =
            |text: &str| text.replace("{url}", &url).replace("{dir}", &directory.display().to_string());
        let mut command = self.command(program, directory);
        command.args(client.ask.iter().map(|text| filled(text)));
        command.envs(client.env.iter().map(|(name, value)| (name, filled(value))));
        let (ended, _, said) = finish(command, ASK_TIMEOUT).await?;
        Ok((ended.map_or(Ended::Late, |status| Ended::By(status.code())), said))
    }

    /// The first line of what it says of itself.
    async fn version(&self, client: &Client, program: &Path, directory: &Path) -> Option<String> {
        let mut command = self.command(program, directory);
        command.args(client.version);
        let (_, said, _) = finish(command, SAY_TIMEOUT).await.ok()?;
        let line = said.lines().map(shown).find(|line| !line.is_empty())?;
        Some(line.chars().take(VERSION_CHARS_MAX).collect())
    }

    /// The modules that Python has, with their versions.
    async fn modules(&self, clients: &[&'static Client]) -> BTreeMap<String, String> {
        let wanted: Vec<_> = clients.iter().filter_map(|client| client.module).collect();
        let Some(python) = found("python3").filter(|_| !wanted.is_empty()) else { return BTreeMap::new() };
        let mut command = self.command(&python, self.directory.path());
        command.args(["-c", python::LIST]);
        command.args(wanted.iter().map(|(module, distribution)| format!("{module}={distribution}")));
        let Ok((_, said, _)) = finish(command, SAY_TIMEOUT).await else { return BTreeMap::new() };
        let pairs = said.lines().filter_map(|line| line.split_once(' '));
        pairs.map(|(module, version)| (module.to_owned(), shown(version))).collect()
    }
}

/// Runs a command to its end, or ends it and all that it has started; then what it said on both ways.
async fn finish(mut command: Command, within: Duration) -> io::Result<(Option<ExitStatus>, String, String)> {
    let (out, err) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdout(out.try_clone()?).stderr(err.try_clone()?);
    let mut child = command.spawn()?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let status = match timeout(within, child.wait()).await {
        Ok(status) => Some(status?),
        Err(_) => {
            if let Some(group) = group {
                // It may have ended in this moment.
                kill_process_group(group, Signal::KILL).ok();
            }
            child.wait().await?;
            None
        }
    };
    Ok((status, read(out)?, read(err)?))
}

fn read(mut file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(SAID_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What a client would read from its own directory; often there is nothing.
fn copy(settings: &Settings, directory: &Path) -> io::Result<()> {
    let named = std::env::var_os(settings.variable).map(PathBuf::from);
    let usual = || std::env::home_dir().map(|home| home.join(settings.folder));
    let Some(from) = named.or_else(usual).map(|folder| folder.join(settings.file)) else { return Ok(()) };
    let to = directory.join(settings.copy);
    fs::create_dir_all(&to)?;
    if from.exists() {
        fs::copy(from, to.join(settings.file))?;
    }
    Ok(())
}

/// Where a shell would find a program.
fn found(program: &str) -> Option<PathBuf> {
    let runnable = |path: &PathBuf| {
        fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(runnable)
}

fn last_line(text: &str) -> String {
    // Java says at each start that it has read the variable; that is no complaint.
    let mut lines = text.lines().filter(|line| !line.starts_with("Picked up ")).map(shown);
    lines.rfind(|line| !line.is_empty()).unwrap_or_default()
}

/// What may stand in a line on a terminal.
fn shown(text: &str) -> String {
    text.trim().chars().filter(|character| !character.is_control()).take(WORD_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_is_one_line() {
        assert_eq!(last_line("Picked up JAVA_TOOL_OPTIONS: x\n"), "");
        assert_eq!(last_line("a\n b\x1b[31m \n\n"), "b[31m");
        assert_eq!(last_line(&"x".repeat(1000)).len(), WORD_CHARS_MAX);
    }

    #[tokio::test]
    async fn what_takes_too_long_is_ended_with_all_that_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let fifo = directory.path().join("never");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo begun; cat never; echo ended"]).current_dir(&directory);
        command.process_group(0).stdin(Stdio::null());
        let (status, said, _) = finish(command, Duration::from_secs(3)).await.unwrap();
        assert_eq!((status, said.as_str()), (None, "begun\n"));
    }
}
