//! The binary `oncegate`: the command line, and nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    oncegate::cli::main()
}
