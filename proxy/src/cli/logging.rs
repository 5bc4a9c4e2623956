//! Logs go to standard error. `ONCEGATE_LOG` filters them, `ONCEGATE_LOG_FORMAT=json` makes them one JSON
//! object per line.

use std::env;
use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use super::exit::Stop;

/// Starts logging, at `default` unless `ONCEGATE_LOG` says otherwise.
pub(crate) fn start(default: &str) -> Result<(), Stop> {
    let wanted = env::var("ONCEGATE_LOG").unwrap_or_else(|_| default.to_owned());
    let filter = EnvFilter::try_new(&wanted).map_err(|error| {
        Stop::usage(format!("ONCEGATE_LOG is not a filter such as `info,oncegate=debug`: {error}"))
    })?;
    let logs = fmt().with_env_filter(filter).with_writer(io::stderr);
    let started = match env::var("ONCEGATE_LOG_FORMAT").as_deref() {
        Ok("json") => logs.json().try_init(),
        Ok("text") | Err(_) => {
            logs.with_target(false).with_ansi(io::IsTerminal::is_terminal(&io::stderr())).try_init()
        }
        Ok(other) => {
            return Err(Stop::usage(format!("ONCEGATE_LOG_FORMAT is `{other}`: write json or text")));
        }
    };
    started.map_err(|error| Stop::failed(format!("cannot start logging: {error}")))
}
