//! Logs go to standard error, as `[log]` says, or `ONCEGATE_LOG` (which may be a whole filter) and
//! `ONCEGATE_LOG_FORMAT`, which go before it.

use std::env;
use std::io::{self, IsTerminal};
use std::sync::OnceLock;
use std::time::Duration;

use oncegate_config::model::{LogFormat, LogLevel, LogSection};
use tracing::{Dispatch, Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{ParseError, filter_fn};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::exit::Stop;
use super::log_writer::LogWriter;
use crate::log_fields::Plain;

/// The watcher of the configuration's folder tells of each change in it at `trace`. Where the log is written into that
/// folder, each line would be a change, and so the cause of the next one.
const NOT_OF_ITSELF: &str = "notify=info";
/// The one log of the process.
static WRITER: OnceLock<LogWriter> = OnceLock::new();
/// The library that signs for AWS.
const SIGNS: &str = "aws_sigv4";

/// Starts logging, at `default` unless the configuration or the environment says otherwise.
pub(crate) fn start(default: &'static str, section: Option<LogSection>) -> Result<(), Stop> {
    let configured = section.and_then(|section| section.level).map_or(default, LogLevel::word);
    let wanted = told(env::var("ONCEGATE_LOG")).unwrap_or_else(|| configured.to_owned());
    let format = match told(env::var("ONCEGATE_LOG_FORMAT")).as_deref() {
        Some("json") => LogFormat::Json,
        Some("text") => LogFormat::Text,
        Some(other) => {
            return Err(Stop::usage(format!("ONCEGATE_LOG_FORMAT is `{other}`: write json or text")));
        }
        None => section.map_or(LogFormat::Text, |section| section.format),
    };
    let not_started = |error: &dyn std::fmt::Display| Stop::failed(format!("cannot start logging: {error}"));
    let to = LogWriter::to(&io::stderr()).map_err(|error| not_started(&error))?;
    let to = WRITER.get_or_init(|| to).clone();
    let logs = logs(&wanted, (format, io::stderr().is_terminal()), to).map_err(|error| {
        Stop::usage(format!("ONCEGATE_LOG is not a filter such as `info,oncegate=debug`: {error}"))
    })?;
    logs.try_init().map_err(|error| not_started(&error))
}

/// Waits for the lines that are not written yet, if their reader takes them within a second.
pub(crate) fn finish() {
    if let Some(writer) = WRITER.get() {
        writer.finish(Duration::from_secs(1));
    }
}

/// What a variable says. One that is empty or blank says nothing: a filter without a word would keep errors back too.
fn told(variable: Result<String, env::VarError>) -> Option<String> {
    variable.ok().filter(|said| !said.trim().is_empty())
}

/// Whatever the filter `wanted` lets through, but what tells of secrets, in this format.
fn logs<W>(wanted: &str, (format, colours): (LogFormat, bool), to: W) -> Result<Dispatch, ParseError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    // In front: whoever names the watcher in a filter has the last word.
    let filter = EnvFilter::try_new(format!("{NOT_OF_ITSELF},{wanted}"))?;
    // A line that cannot be written (a full disk under the log) is lost, and counted. Saying so on the same standard error
    // would panic, in the middle of whatever was being logged.
    let logs = fmt::fmt().with_env_filter(filter).with_writer(to).log_internal_errors(false);
    Ok(match format {
        // Fields stand beside `level` and `message`, where collectors look for them.
        LogFormat::Json => {
            let logs = logs.json().flatten_event(true).with_current_span(false).with_span_list(false);
            logs.finish().with(filter_fn(tells_no_secret)).into()
        }
        LogFormat::Text if colours => {
            logs.with_target(false).with_ansi(true).finish().with(filter_fn(tells_no_secret)).into()
        }
        LogFormat::Text => {
            let logs = logs.with_target(false).with_ansi(false).fmt_fields(Plain);
            logs.finish().with(filter_fn(tells_no_secret)).into()
        }
    })
}

/// The library that signs writes the identity that it signs with at `trace`, and the name of a key is declared as a secret.
/// Secrets are logged at no level. This is no directive of the filter: there a longer target would go before it.
fn tells_no_secret(line: &Metadata<'_>) -> bool {
    !line.target().starts_with(SIGNS) || *line.level() <= Level::INFO
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::metrics;

    /// What was written, by whoever has a copy.
    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(piece)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(wanted: &str, format: LogFormat) -> String {
        let page = Page::default();
        let to = page.clone();
        let logs = logs(wanted, (format, false), move || to.clone()).unwrap();
        tracing::dispatcher::with_default(&logs, || {
            tracing::trace!(target: "aws_sigv4::http_request::sign", "SECRET");
            tracing::debug_span!(target: "aws_sigv4", "signing", key = "SECRET").in_scope(|| {
                tracing::info!(target: "aws_sigv4::http_request", "signed");
            });
            tracing::trace!(target: "notify::inotify", "a change");
            tracing::trace!(target: "hyper::proto", "a head");
        });
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_identity_that_signs_is_logged_at_no_level() {
        for wanted in [
            "trace",
            "info,aws_sigv4=trace",
            "info,aws_sigv4::http_request=trace",
            "aws_sigv4::http_request::sign=trace",
            "trace,aws_sigv4[signing]=trace",
        ] {
            for format in [LogFormat::Text, LogFormat::Json] {
                let log = logged(wanted, format);
                assert!(!log.contains("SECRET"), "under {wanted}:\n{log}");
            }
        }
        assert!(logged("info,aws_sigv4::http_request=trace", LogFormat::Text).contains("signed"));
        assert!(!logged("error", LogFormat::Text).contains("signed"));
    }

    #[test]
    fn whoever_names_the_watcher_hears_it() {
        for (wanted, heard) in [("trace", false), ("trace,notify=trace", true)] {
            let log = logged(wanted, LogFormat::Text);
            assert_eq!(log.contains("a change"), heard, "under {wanted}:\n{log}");
            assert!(log.contains("a head"), "under {wanted}:\n{log}");
        }
    }

    #[test]
    fn a_variable_that_is_blank_says_nothing() {
        for blank in ["", " ", "\t\n"] {
            assert_eq!(told(Ok(blank.to_owned())), None);
        }
        assert_eq!(told(Err(env::VarError::NotPresent)), None);
        assert_eq!(told(Ok("debug".to_owned())).as_deref(), Some("debug"));
    }

    #[test]
    fn a_line_that_cannot_be_written_is_counted() {
        // A disk without room (full(4)).
        let full = File::options().write(true).open("/dev/full").unwrap();
        let writer = LogWriter::to(&full).unwrap();
        let logs = logs("info", (LogFormat::Text, false), writer.clone()).unwrap();
        let before = metrics::log_lines_lost();
        tracing::dispatcher::with_default(&logs, || {
            tracing::info!("one");
            tracing::debug!("not wanted");
            tracing::info!("two");
        });
        assert_eq!(writer.lost(), 2);
        assert!(metrics::log_lines_lost() - before >= 2);
    }
}
