//! `oncegate run`: one command behind a sidecar: the one that already holds the database, or else one of its own
//! for as long as the command lives.

use std::ffi::{OsStr, OsString};
use std::io::{self, IsTerminal};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use oncegate_config::model::SecretSource;
use oncegate_policy::caller::CallerName;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};

use super::desk::{self, Attached, Gate};
use super::environment::{Place, Proxy, REMOVED, applied, changes, proxy_url};
use super::exit::{Exit, Stop};
use super::serve::NotStarted;
use super::{Common, env, serve, shims};
use crate::load::Loaded;
use crate::peer;
use crate::serve::Running;

/// Keys of people and of the API, which no agent may inherit.
const KEYS: [&str; 2] = ["ONCEGATE_KEY", "ONCEGATE_AGENT_KEY"];
/// A secret that is shorter is looked for by its name alone: too many other texts may hold it.
const COPIED_BYTES_MIN: usize = 8;
/// Another one that starts says within this where it is, or what holds the database is none.
const OTHERS_START_WITHIN: Duration = Duration::from_secs(5);
/// Between two tries meanwhile.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// As shells do for a command that is not there, or cannot be run.
const NOT_FOUND: u8 = 127;
const NOT_RUNNABLE: u8 = 126;

#[derive(Args)]
pub(crate) struct RunArgs {
    /// The caller that the command is; may be left out when only one may invoke actions
    #[arg(long = "as", value_name = "CALLER")]
    caller: Option<String>,
    /// Whether a port is opened for this run alone, on loopback, at which no key is needed: Java's clients send none.
    /// Only this user may connect to it; on systems that do not tell who connects, every user of the machine may, and
    /// it is off unless asked for
    #[arg(long, value_enum, value_name = "W", default_value = if peer::TOLD { "on" } else { "off" })]
    java_port: JavaPort,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum JavaPort {
    /// Java works
    On,
    /// Java is told to use the proxy, and is refused there
    Off,
}

/// Runs the command behind a sidecar and exits with its code.
pub(crate) async fn run(common: &Common, args: &RunArgs) -> Result<Exit, Stop> {
    let loaded = super::load(common)?;
    let (caller, _) = env::which_caller(&loaded, args.caller.as_deref())?;
    let caller = caller.clone();
    // Before the command lives: a signal that comes early must not end us and leave it behind.
    let mut signals = Forwarded::new()?;
    let own_port = args.java_port == JavaPort::On;
    let (running, files) = match behind(&loaded, &caller, own_port).await? {
        Behind::Another(attached) => {
            let mut child = start(&loaded, &attached.gate, &caller, &args.command)?;
            let status = wait(&mut child, &mut signals).await?;
            drop(attached);
            return Ok(Exit::Command(code(status)));
        }
        Behind::Own(running, files) => (running, files),
    };
    let status = own(&loaded, &running, &caller, args, &mut signals).await;
    stop(running).await?;
    drop(files);
    Ok(Exit::Command(code(status?)))
}

/// What a command runs behind.
enum Behind {
    Another(Attached),
    Own(Running, serve::Files),
}

/// The sidecar that holds the database, or one of our own. Of several that start at once, one holds it, and says where it
/// is a moment later: the others ask again.
async fn behind(loaded: &Loaded, caller: &CallerName, own_port: bool) -> Result<Behind, Stop> {
    let begun = Instant::now();
    let mut ours = loaded.clone();
    loop {
        if let Some(attached) = desk::ask(&loaded.database(), caller, own_port).await? {
            return Ok(Behind::Another(attached));
        }
        match serve::try_start(ours.clone(), None).await {
            Ok((running, files)) => return Ok(Behind::Own(running, files)),
            Err(NotStarted::Another(_)) if begun.elapsed() < OTHERS_START_WITHIN => {
                // Said once is enough.
                ours.warnings.clear();
                tokio::time::sleep(ASK_AGAIN_AFTER).await;
            }
            Err(NotStarted::Another(stop) | NotStarted::Failed(stop)) => return Err(stop),
        }
    }
}

/// Lets what is on its way end, unless another signal comes: what is cut off then is swept at the next start.
async fn stop(running: Running) -> Result<(), Stop> {
    // Anew: the signal that has just ended the command must not count as a second one.
    let mut signals = Forwarded::new()?;
    tokio::select! {
        () = running.stop() => {}
        _ = signals.next() => tracing::warn!("stopped before open requests were finished"),
    }
    Ok(())
}

/// The command behind a sidecar of this process, to its end.
async fn own(
    loaded: &Loaded,
    running: &Running,
    caller: &CallerName,
    args: &RunArgs,
    signals: &mut Forwarded,
) -> Result<ExitStatus, Stop> {
    let gate = desk::gate(running, caller, args.java_port == JavaPort::On).await;
    let (gate, _port) = gate.ok_or_else(|| {
        Stop::usage(format!("{caller} may not invoke actions: give it the scope actions:invoke"))
    })?;
    let mut child = start(loaded, &gate, caller, &args.command)?;
    wait(&mut child, signals).await
}

fn start(loaded: &Loaded, gate: &Gate, caller: &CallerName, line: &[OsString]) -> Result<Child, Stop> {
    let Some((program, arguments)) = line.split_first() else {
        return Err(Stop::usage("there is no command to run"));
    };
    let mut command = Command::new(program);
    command.args(arguments);
    surround(&mut command, loaded, gate, caller);
    command.spawn().map_err(|error| {
        let code = if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE };
        let message = format!("cannot run {}: {error}", program.display());
        Stop { exit: Exit::Command(code), message, document: None }
    })
}

/// Sets what makes clients use the proxy, and takes away every credential that belongs to the sidecar (P7).
pub(crate) fn surround(command: &mut Command, loaded: &Loaded, gate: &Gate, caller: &CallerName) {
    let proxy = env::reachable(gate.proxy);
    let url = proxy_url(&proxy.to_string(), Some((caller, &gate.token)));
    let set = changes(&Place {
        proxy: Some(Proxy { url: &url, java: gate.own_port.unwrap_or(proxy) }),
        bundle: &gate.bundle,
        ca: &gate.ca,
        shims: &shims::places(&loaded.trust_dir()),
    });
    let environment: Vec<_> = std::env::vars_os().collect();
    let copies = copies(loaded, &environment);
    for name in &copies {
        command.env_remove(name);
    }
    for (name, change) in set {
        // What stands before ours in a list of options may be such a copy.
        let before = std::env::var(name).ok().filter(|_| !copies.contains(&OsStr::new(name)));
        command.env(name, applied(&change, before.as_deref()));
    }
    for name in removed(loaded) {
        command.env_remove(name);
    }
}

/// The variables that the command does not get.
fn removed(loaded: &Loaded) -> Vec<String> {
    KEYS.iter().chain(&REMOVED).map(|name| (*name).to_owned()).chain(declared(loaded)).collect()
}

/// Variables under any name that hold what one with a secret holds, such as the same key for another client.
fn copies<'e>(loaded: &Loaded, environment: &'e [(OsString, OsString)]) -> Vec<&'e OsStr> {
    let named: Vec<String> = KEYS.iter().map(|name| (*name).to_owned()).chain(declared(loaded)).collect();
    let is_named = |name: &OsStr| named.iter().any(|one| name == one.as_str());
    let secrets = environment
        .iter()
        .filter(|(name, value)| is_named(name) && value.len() >= COPIED_BYTES_MIN)
        .map(|(_, value)| value.as_bytes());
    let holds_one = |text: &OsStr| {
        secrets.clone().any(|secret| text.as_bytes().windows(secret.len()).any(|part| part == secret))
    };
    environment.iter().filter(|(_, value)| holds_one(value)).map(|(name, _)| name.as_os_str()).collect()
}

/// The variables from which the configuration takes secrets.
fn declared(loaded: &Loaded) -> Vec<String> {
    let sources = loaded.config.secrets.values().map(|secret| &secret.from).chain(&loaded.config.vault_key);
    let named = sources.filter_map(|source| match source {
        SecretSource::Env(name) => Some(name.clone()),
        SecretSource::File(_) | SecretSource::Command(_) | SecretSource::Vault | SecretSource::OAuth2(_) => {
            None
        }
    });
    named.collect()
}

async fn wait(child: &mut Child, signals: &mut Forwarded) -> Result<ExitStatus, Stop> {
    let failed = |error: io::Error| Stop::failed(format!("cannot wait for the command: {error}"));
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    loop {
        tokio::select! {
            status = child.wait() => return status.map_err(failed),
            signal = signals.next() => {
                if let (Some(pid), Some(signal)) = (pid, signal) {
                    // It may have ended in this moment; then the wait says so.
                    kill_process(pid, signal).ok();
                }
            }
        }
    }
}

/// The command's code; as shells count it when a signal ended it.
fn code(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| signal.saturating_add(128)));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(Exit::Failed.number())
}

/// Signals that are the command's to handle.
struct Forwarded {
    listeners: Vec<(tokio::signal::unix::Signal, Option<Signal>)>,
}

impl Forwarded {
    fn new() -> Result<Self, Stop> {
        // A terminal sends these two to the command as well: it must not get them twice.
        let terminal = io::stdin().is_terminal() || io::stdout().is_terminal() || io::stderr().is_terminal();
        let unless_terminal = |signal| (!terminal).then_some(signal);
        let wanted = [
            (SignalKind::terminate(), Some(Signal::TERM)),
            (SignalKind::hangup(), Some(Signal::HUP)),
            (SignalKind::user_defined1(), Some(Signal::USR1)),
            (SignalKind::user_defined2(), Some(Signal::USR2)),
            (SignalKind::interrupt(), unless_terminal(Signal::INT)),
            (SignalKind::quit(), unless_terminal(Signal::QUIT)),
        ];
        let mut listeners = Vec::new();
        for (kind, forward) in wanted {
            let listener =
                signal(kind).map_err(|error| Stop::failed(format!("cannot listen for signals: {error}")))?;
            listeners.push((listener, forward));
        }
        Ok(Self { listeners })
    }

    /// The next one; `None` when the command has it already.
    async fn next(&mut self) -> Option<Signal> {
        std::future::poll_fn(|context| {
            for (listener, forward) in &mut self.listeners {
                if listener.poll_recv(context).is_ready() {
                    return std::task::Poll::Ready(*forward);
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_counted_as_shells_do() {
        for (raw, number) in [(0, 0), (7 << 8, 7), (15, 143), (9, 137)] {
            assert_eq!(code(ExitStatus::from_raw(raw)), number);
        }
    }
}
