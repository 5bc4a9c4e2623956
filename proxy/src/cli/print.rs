//! The only place that writes to standard output and standard error. A reader that has gone away (`| head`) is
//! not an error.

use std::io::{self, Write};

use serde::Serialize;

use super::visible;

/// Prints text to standard output as it is.
pub(crate) fn out(text: &str) {
    let mut stdout = io::stdout().lock();
    // A closed pipe is the reader's choice; there is nobody left to tell.
    drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
}

/// The same; whether the reader is still there.
pub(crate) fn told(text: &str) -> bool {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_ok()
}

/// Prints a line to standard output.
pub(crate) fn line(text: &str) {
    out(&format!("{text}\n"));
}

/// Prints one JSON document to standard output.
pub(crate) fn json<T: Serialize>(document: &T) {
    match serde_json::to_string_pretty(document) {
        Ok(text) => line(&visible::json(&text)),
        Err(error) => note(&format!("cannot print the JSON document: {error}")),
    }
}

/// Prints a line for a person to standard error.
pub(crate) fn note(text: &str) {
    drop(writeln!(io::stderr().lock(), "oncegate: {}", visible::lines(text)));
}
