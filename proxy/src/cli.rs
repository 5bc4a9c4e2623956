//! The command line: what may be typed, and how each command ends.

mod approvals;
mod audit;
mod beside;
mod catalog;
mod check;
mod client;
mod completions;
mod demo;
mod desk;
mod doctor;
mod effect;
mod effects;
mod env;
mod environment;
mod exit;
mod explain;
#[cfg(feature = "failpoints")]
mod failpoints;
mod halt;
mod init;
mod invoke;
mod key;
mod limits;
mod log_writer;
mod logging;
mod pages;
pub(crate) mod print;
mod prune;
mod ready;
mod receipt;
mod run;
mod serve;
mod shims;
mod source;
mod table;
mod visible;
mod watch;
mod words;

use std::path::PathBuf;
use std::pin::Pin;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

pub(crate) use exit::chain;
use exit::{Exit, Stop};

/// A sidecar that sends what an AI agent writes at most once.
#[derive(Parser)]
#[command(name = "oncegate", version, propagate_version = true, arg_required_else_help = true)]
struct Line {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Args)]
struct Common {
    /// The configuration: a file, or a directory of *.toml files
    #[arg(long, value_name = "F", global = true, default_value = "oncegate.toml")]
    config: PathBuf,
    /// Print one JSON document instead of text
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum Command {
    /// Show the whole story on this machine: a lost answer, and one refund
    Demo(demo::DemoArgs),
    /// Write a commented starter configuration and a CA
    Init(init::InitArgs),
    /// Run the sidecar in the foreground
    Serve(serve::ServeArgs),
    /// Run one command behind a sidecar of its own
    Run(run::RunArgs),
    /// Ask the running sidecar whether it can do its work: exits 0 if so, for health checks
    Ready,
    /// Print the environment that an agent needs
    Env(env::EnvArgs),
    /// Try which clients of this machine use the proxy and trust it, and say what helps the others
    Doctor(doctor::DoctorArgs),
    /// Judge the configuration and whether its secrets can be had
    Check(check::CheckArgs),
    /// Say which action a request means and what would happen, sending nothing
    Explain(explain::ExplainArgs),
    /// Show what is known of providers' idempotency: the names that `preset` may have
    Catalog(catalog::CatalogArgs),
    /// Make keys
    #[command(subcommand)]
    Key(key::KeyCommand),
    /// Ask for an action by its name. Exits by what became of it
    Invoke(invoke::InvokeArgs),
    /// List effects
    Effects(effects::EffectsArgs),
    /// Look at one effect, settle it, or send it again
    #[command(subcommand)]
    Effect(effect::EffectCommand),
    /// Show what is left of every limit
    Limits(limits::LimitsArgs),
    /// List the questions to a person, or show one with all that would be sent
    Approvals(approvals::ApprovalsArgs),
    /// Say yes: what waited is sent, once. Exits by what became of it, 15 when a rule says no
    Approve(approvals::DecideArgs),
    /// Say no: what waited ends, unsent
    Deny(approvals::DecideArgs),
    /// Refuse every new write from now on, also after a restart
    Halt(halt::HaltArgs),
    /// Let writes happen again
    Resume,
    /// Show what is unresolved, held or waiting, and every change of it, until Ctrl-C
    Watch(watch::WatchArgs),
    /// Check the evidence
    #[command(subcommand)]
    Audit(audit::AuditCommand),
    /// Erase what is no longer needed; never what is unknown
    Prune(prune::PruneArgs),
    /// Print what a shell needs to complete commands
    Completions(completions::CompletionsArgs),
    /// List the points where a test may stop the process
    #[cfg(feature = "failpoints")]
    Failpoints,
}

/// Reads the command line, does what it says, and gives the exit code.
pub fn main() -> ExitCode {
    let line = Line::parse();
    guard_memory();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print::note(&format!("cannot start: {error}"));
            return Exit::Failed.into();
        }
    };
    let as_json = line.common.json;
    // Behind a pointer: otherwise all of it is compiled once for each kind of runtime.
    let obeyed: Pin<Box<dyn Future<Output = Result<Exit, Stop>>>> = Box::pin(obey(line));
    let exit = match runtime.block_on(obeyed) {
        Ok(exit) => exit,
        Err(stop) => {
            if let Some(document) = stop.document.filter(|_| as_json) {
                print::json(&document);
            }
            print::note(&stop.message);
            stop.exit
        }
    };
    // A thread that still reads a file or a name must not keep a finished command alive.
    runtime.shutdown_background();
    logging::finish();
    exit.into()
}

/// Secrets stand in this process's memory, and often in its environment: no crash dump is written of it, and no
/// other process of the same user reads it through `/proc` or a debugger. What it starts is as usual again.
fn guard_memory() {
    #[cfg(target_os = "linux")]
    if let Err(error) = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        print::note(&format!("crash dumps could not be turned off: {error}"));
    }
}

async fn obey(line: Line) -> Result<Exit, Stop> {
    let Line { common, command } = line;
    // Only what serves logs as the configuration says; its faults are told by the command itself.
    let serves = matches!(command, Command::Serve(_) | Command::Run(_));
    let section = serves.then(|| load(&common).ok()).flatten().map(|loaded| loaded.config.log);
    logging::start(command.log_default(), section)?;
    match command {
        Command::Demo(args) => demo::run(&common, &args).await,
        Command::Init(args) => init::run(&common, &args),
        Command::Serve(args) => serve::run(&common, &args).await,
        Command::Run(args) => run::run(&common, &args).await,
        Command::Ready => ready::run(&common).await,
        Command::Env(args) => env::run(&common, &args),
        Command::Doctor(args) => doctor::run(&common, &args).await,
        Command::Check(args) => check::run(&common, &args).await,
        Command::Explain(args) => explain::run(&common, &args),
        Command::Catalog(args) => catalog::run(&common, &args),
        Command::Key(command) => key::run(&common, &command),
        Command::Invoke(args) => invoke::run(&common, &args).await,
        Command::Effects(args) => effects::run(&common, &args).await,
        Command::Effect(command) => effect::run(&common, &command).await,
        Command::Limits(args) => limits::run(&common, &args).await,
        Command::Approvals(args) => approvals::list(&common, &args).await,
        Command::Approve(args) => approvals::approve(&common, &args).await,
        Command::Deny(args) => approvals::deny(&common, &args).await,
        Command::Halt(args) => halt::halt(&common, &args).await,
        Command::Resume => halt::resume(&common).await,
        Command::Audit(command) => audit::run(&common, &command).await,
        Command::Watch(args) => watch::run(&common, &args).await,
        Command::Completions(args) => Ok(completions::run(&common, &args)),
        Command::Prune(args) => prune::run(&common, &args).await,
        #[cfg(feature = "failpoints")]
        Command::Failpoints => Ok(failpoints::run(&common)),
    }
}

impl Command {
    /// What is logged when `ONCEGATE_LOG` does not say.
    fn log_default(&self) -> &'static str {
        match self {
            Self::Serve(_) => "info",
            // What its own sidecar says of itself is of no use to anybody.
            Self::Demo(_) | Self::Doctor(_) => "off",
            Self::Init(_)
            | Self::Run(_)
            | Self::Ready
            | Self::Env(_)
            | Self::Check(_)
            | Self::Explain(_)
            | Self::Catalog(_)
            | Self::Key(_)
            | Self::Invoke(_)
            | Self::Effects(_)
            | Self::Effect(_)
            | Self::Limits(_)
            | Self::Approvals(_)
            | Self::Approve(_)
            | Self::Deny(_)
            | Self::Halt(_)
            | Self::Resume
            | Self::Audit(_)
            | Self::Watch(_)
            | Self::Completions(_)
            | Self::Prune(_) => "warn",
            #[cfg(feature = "failpoints")]
            Self::Failpoints => "warn",
        }
    }
}

/// Reads the configuration that `--config` names.
fn load(common: &Common) -> Result<crate::load::Loaded, Stop> {
    crate::load::load(&common.config).map_err(|error| Stop::usage(unloaded(&error)))
}

/// What to say when there is no configuration.
fn unloaded(error: &crate::load::LoadError) -> String {
    use crate::load::LoadError;
    match error {
        LoadError::Faults(faults) => {
            let number = faults.len();
            let plural = if number == 1 { "fault" } else { "faults" };
            format!("the configuration has {number} {plural}:\n{error}")
        }
        LoadError::Read { .. } | LoadError::Empty { .. } | LoadError::Catalogue(_) => {
            format!("{}\nName it with --config, or write one with `oncegate init`.", chain(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Line::command().debug_assert();
    }

    #[test]
    fn common_flags_stand_anywhere() {
        let line = Line::try_parse_from(["oncegate", "limits", "--json", "--config", "x.toml"]).unwrap();
        assert!(line.common.json);
        assert_eq!(line.common.config, PathBuf::from("x.toml"));
    }

    #[test]
    fn a_command_to_run_keeps_its_own_flags() {
        let line =
            Line::try_parse_from(["oncegate", "run", "--as", "a", "--", "curl", "--json", "x"]).unwrap();
        assert!(!line.common.json);
        assert!(matches!(line.command, Command::Run(_)));
    }
}
