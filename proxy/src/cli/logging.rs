//! Logs go to standard error, as `[log]` says, or `ONCEGATE_LOG` (which may be a whole filter) and
//! `ONCEGATE_LOG_FORMAT`, which go before it.

use std::env;
use std::io;

use oncegate_config::model::{LogFormat, LogLevel, LogSection};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

use super::exit::Stop;

/// The watcher of the configuration's folder tells of each change in it at `trace`. Where the log is written into that
/// folder, each line would be a change, and so the cause of the next one.
const NOT_OF_ITSELF: &str = "notify=info";

/// The library that signs for AWS writes the identity that it signs with at `trace`, and the name of a key is declared as
/// a secret. Secrets are logged at no level: this goes behind what the operator wants.
const NOT_OF_SECRETS: &str = "aws_sigv4=info";

/// Starts logging, at `default` unless the configuration or the environment says otherwise.
pub(crate) fn start(default: &'static str, section: Option<LogSection>) -> Result<(), Stop> {
    let configured = section.and_then(|section| section.level).map_or(default, LogLevel::word);
    let wanted = env::var("ONCEGATE_LOG").unwrap_or_else(|_| configured.to_owned());
    // In front: whoever names the watcher in a filter has the last word.
    let filter =
        EnvFilter::try_new(format!("{NOT_OF_ITSELF},{wanted},{NOT_OF_SECRETS}")).map_err(|error| {
            Stop::usage(format!("ONCEGATE_LOG is not a filter such as `info,oncegate=debug`: {error}"))
        })?;
    // A line that cannot be written (a full disk under the log) is lost. Saying so on the same standard error would panic,
    // in the middle of whatever was being logged.
    let logs = fmt().with_env_filter(filter).with_writer(io::stderr).log_internal_errors(false);
    let format = match env::var("ONCEGATE_LOG_FORMAT").as_deref() {
        Ok("json") => LogFormat::Json,
        Ok("text") => LogFormat::Text,
        Ok(other) => {
            return Err(Stop::usage(format!("ONCEGATE_LOG_FORMAT is `{other}`: write json or text")));
        }
        Err(_) => section.map_or(LogFormat::Text, |section| section.format),
    };
    let started = match format {
        // Fields stand beside `level` and `message`, where collectors look for them.
        LogFormat::Json => {
            logs.json().flatten_event(true).with_current_span(false).with_span_list(false).try_init()
        }
        LogFormat::Text => {
            logs.with_target(false).with_ansi(io::IsTerminal::is_terminal(&io::stderr())).try_init()
        }
    };
    started.map_err(|error| Stop::failed(format!("cannot start logging: {error}")))
}
