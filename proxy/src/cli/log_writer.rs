//! Where lines of the log go: to a file descriptor whose reader may have stopped reading. A terminal under Ctrl-S, a pager
//! or a stalled collector keeps nobody waiting but a thread of its own.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tracing_subscriber::fmt::MakeWriter;

use crate::metrics;

/// Most lines that wait for a reader; each further one is lost, and counted.
const WAITING_LINES_MAX: usize = 4_096;
/// The same, in bytes.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// What a pipe takes at once if it takes anything (`PIPE_BUF` of Linux, pipe(7)): a longer line could wait in its middle.
const AT_ONCE_MAX: usize = 4_096;

/// Writes whole lines, in the order in which they come, and waits for nobody.
#[derive(Clone)]
pub(super) struct LogWriter(Arc<Shared>);

struct Shared {
    to: File,
    waiting: Mutex<Waiting>,
    written: Condvar,
    /// Of this writer; the process counts them all.
    lost: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Somebody writes, and will write these as well.
    is_written: bool,
}

impl LogWriter {
    /// Writes to a copy of this descriptor.
    ///
    /// # Errors
    /// It cannot be copied.
    pub(super) fn to(descriptor: &impl AsFd) -> io::Result<Self> {
        let to = File::from(descriptor.as_fd().try_clone_to_owned()?);
        Ok(Self(Arc::new(Shared {
            to,
            waiting: Mutex::default(),
            written: Condvar::new(),
            lost: AtomicU64::new(0),
        })))
    }

    /// Waits until everything is written, for `at_most`.
    pub(super) fn finish(&self, at_most: Duration) {
        let waiting = self.0.waiting();
        drop(self.0.written.wait_timeout_while(waiting, at_most, |waiting| waiting.is_written));
    }

    /// Lines that it has lost.
    #[cfg(test)]
    pub(super) fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    /// Takes one line.
    fn line(&self, line: &[u8]) {
        let mut waiting = self.0.waiting();
        if waiting.lines.len() == WAITING_LINES_MAX || waiting.bytes + line.len() > WAITING_BYTES_MAX {
            return self.0.lose();
        }
        waiting.bytes += line.len();
        waiting.lines.push_back(line.to_vec());
        if !std::mem::replace(&mut waiting.is_written, true) {
            drop(waiting);
            self.write_what_waits();
        }
    }

    /// Here as far as the reader takes it at once, the rest on a thread that may wait.
    fn write_what_waits(&self) {
        while let Some(line) = self.0.next() {
            if line.len() <= AT_ONCE_MAX && self.0.takes_some() {
                self.0.write(&line);
                continue;
            }
            let shared = Arc::clone(&self.0);
            let patient = move || {
                shared.write(&line);
                while let Some(line) = shared.next() {
                    shared.write(&line);
                }
            };
            if std::thread::Builder::new().name("log".to_owned()).spawn(patient).is_err() {
                // Out of threads: this line is lost, and the next one tries again.
                self.0.lose();
                self.0.waiting().is_written = false;
            }
            return;
        }
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next line, for the one who writes; at `None` nobody does any more.
    fn next(&self) -> Option<Vec<u8>> {
        let mut waiting = self.waiting();
        let line = waiting.lines.pop_front();
        match &line {
            Some(line) => waiting.bytes -= line.len(),
            None => {
                waiting.is_written = false;
                self.written.notify_all();
            }
        }
        line
    }

    /// Whether the reader takes [`AT_ONCE_MAX`] bytes now.
    fn takes_some(&self) -> bool {
        let mut asked = [PollFd::new(&self.to, PollFlags::OUT)];
        poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }

    fn write(&self, line: &[u8]) {
        if (&self.to).write_all(line).is_err() {
            self.lose();
        }
    }

    fn lose(&self) {
        self.lost.fetch_add(1, Ordering::Relaxed);
        metrics::log_line_lost();
    }
}

impl Write for LogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.line(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, pipe};

    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    fn line(number: usize) -> String {
        format!("{number:0>100}\n")
    }

    /// The test would not end if a line waited for its reader.
    #[test]
    fn a_reader_that_has_stopped_keeps_nobody_waiting_and_misses_nothing_that_has_room() {
        let (reader, to) = pipe().unwrap();
        let log = LogWriter::to(&to).unwrap();
        drop(to);
        // More than a pipe takes (64 KiB), less than may wait.
        let lines = 3_000;
        (0..lines).for_each(|number| log.line(line(number).as_bytes()));
        log.finish(Duration::ZERO);
        assert_eq!(log.lost(), 0);
        let mut read = BufReader::new(reader).lines();
        for number in 0..lines {
            assert_eq!(format!("{}\n", read.next().unwrap().unwrap()), line(number));
        }
        log.finish(LONG);
        // From here on it takes them at once again, also those that are longer than a pipe takes in one piece.
        for text in ["short\n".to_owned(), "x".repeat(5_000) + "\n"] {
            log.line(text.as_bytes());
            assert_eq!(read.next().unwrap().unwrap() + "\n", text);
        }
        log.finish(LONG);
        drop(log);
        assert!(read.next().is_none());
    }

    #[test]
    fn what_has_no_room_is_lost_and_counted() {
        let (reader, to) = pipe().unwrap();
        let log = LogWriter::to(&to).unwrap();
        let taken = (1..20_000).take_while(|number| {
            log.line(line(*number).as_bytes());
            log.lost() == 0
        });
        assert!((WAITING_LINES_MAX..20_000).contains(&taken.count()));
        drop(reader);
        // Nor does one whose reader is gone keep anybody waiting.
        log.finish(LONG);
        assert!(log.lost() > 1, "what had waited");
    }
}
