//! `oncegate completions`: what a shell completes after `oncegate`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::exit::Exit;
use super::{Common, Line, print};

#[derive(Args)]
pub(crate) struct CompletionsArgs {
    /// For which shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the script.
pub(crate) fn run(common: &Common, args: &CompletionsArgs) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Line::command(), "oncegate", &mut script);
    let script = String::from_utf8_lossy(&script);
    if common.json {
        print::json(&serde_json::json!({ "shell": args.shell.to_string(), "script": script }));
    } else {
        print::out(&script);
    }
    Exit::Done
}
