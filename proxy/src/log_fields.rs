//! The fields of a line of the log, where it has no colours.
//!
//! They are written as `tracing_subscriber` writes them by default, to the byte. It puts each name and each sign between
//! two styles, also where there are none, and that was most of the cost of a line.

use std::fmt;

use tracing::field::{Field, Visit};
use tracing_subscriber::field::{RecordFields, VisitOutput};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultVisitor, Writer};

/// Writes `message name=value name=value`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl<'writer> FormatFields<'writer> for Plain {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut line = Line { writer, begun: false, result: Ok(()) };
        fields.record(&mut line);
        line.result
    }
}

struct Line<'a> {
    writer: Writer<'a>,
    begun: bool,
    result: fmt::Result,
}

impl Line<'_> {
    /// A message and an error may hold a stranger's text: what is to be escaped in it is not known here.
    fn by_default(&mut self, record: impl FnOnce(&mut DefaultVisitor<'_>)) {
        if self.result.is_err() {
            return;
        }
        let mut default = DefaultVisitor::new(self.writer.by_ref(), !self.begun);
        record(&mut default);
        self.result = default.finish();
        self.begun = true;
    }

    fn named(&mut self, name: &str, value: &dyn fmt::Debug) -> fmt::Result {
        if self.begun {
            self.writer.write_char(' ')?;
        }
        self.begun = true;
        self.writer.write_str(name)?;
        self.writer.write_char('=')?;
        write!(self.writer, "{value:?}")
    }
}

impl Visit for Line<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.by_default(|default| default.record_str(field, value)),
            _ => self.record_debug(field, &value),
        }
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.by_default(|default| default.record_error(field, value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = field.name();
        if name == "message" {
            return self.by_default(|default| default.record_debug(field, value));
        }
        // What another library's logs say of themselves stands in the line already.
        if self.result.is_ok() && !name.starts_with("log.") {
            self.result = self.named(name.strip_prefix("r#").unwrap_or(name), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::format::DefaultFields;
    use tracing_subscriber::fmt::{MakeWriter, Subscriber};

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Page {
        fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(piece);
            Ok(piece.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Page {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    /// What stands in the log when its fields are written in this way.
    fn written<F>(fields: F) -> String
    where
        F: for<'a> FormatFields<'a> + Send + Sync + 'static,
    {
        let page = Page::default();
        let logs = Subscriber::builder().without_time().with_ansi(false).with_writer(page.clone());
        tracing::subscriber::with_default(logs.fmt_fields(fields).finish(), || {
            let source = io::Error::other(io::Error::other("\u{1b}[31mno room"));
            let error: &(dyn std::error::Error + 'static) = &source;
            tracing::info!(effect.id = %"eff_1", repeat = false, took = 1.25, cause = None::<&str>, "sent");
            tracing::info!(message = "a \u{1b}[31m message", r#type = "x \"y\"", count = 3_u64);
            tracing::info!(log.target = "elsewhere", error, "later");
            tracing::info!(alone = ?[1, 2]);
            tracing::info!("{}", "text\u{7}");
        });
        String::from_utf8(page.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn they_are_written_as_by_default() {
        let plain = written(Plain);
        assert_eq!(plain, written(DefaultFields::new()));
        assert!(plain.contains("sent effect.id=eff_1 repeat=false took=1.25\n"), "{plain}");
    }
}
