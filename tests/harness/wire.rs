//! HTTP/1.1 as bytes: enough to read what the other side wrote, and to keep all of it.

use std::io::{self, Read};

use crate::canary::Finder;

/// Reads heads and bodies from a stream; everything taken from it is kept in [`Wire::seen`].
pub struct Wire<S> {
    /// The stream itself, for writing.
    pub stream: S,
    /// All that was read, in order.
    pub seen: Vec<u8>,
    used: usize,
    watched: bool,
}

/// A start line and its header fields.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// The request line or status line.
    pub line: String,
    /// Fields in order, values trimmed.
    pub fields: Vec<(String, String)>,
}

impl Head {
    /// The first value of a field, whatever the case of its name.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    fn parse(bytes: &[u8]) -> Head {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let line = lines.next().unwrap_or_default().to_owned();
        let fields = lines
            .filter_map(|l| l.split_once(':'))
            .map(|(n, v)| (n.to_owned(), v.trim().to_owned()))
            .collect();
        Head { line, fields }
    }
}

/// How a body ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its framing says that it is whole.
    Complete,
    /// The stream ended, or broke, before it was whole.
    Cut,
}

impl<S: Read> Wire<S> {
    /// Starts at the beginning of a stream that a client reads: a secret in it fails the test, wherever it stands.
    pub fn new(stream: S) -> Wire<S> {
        Wire { stream, seen: Vec::new(), used: 0, watched: true }
    }

    /// The same for one who may be shown secrets, a provider above all. `reason` says why, for the reader.
    pub fn shown_secrets(stream: S, reason: &'static str) -> Wire<S> {
        assert!(!reason.is_empty());
        Wire { watched: false, ..Wire::new(stream) }
    }

    /// One read; `false` at the end of the stream.
    fn fill(&mut self) -> io::Result<bool> {
        let mut chunk = vec![0; 64 * 1024];
        let n = self.stream.read(&mut chunk)?;
        let from = self.seen.len().saturating_sub(Finder::everything().overlap());
        self.seen.extend_from_slice(&chunk[..n]);
        if self.watched {
            Finder::everything().nowhere_in("what a client was sent", &self.seen[from..]);
        }
        Ok(n > 0)
    }

    /// The next head, or `None` if the stream ends first.
    pub fn head(&mut self) -> io::Result<Option<Head>> {
        loop {
            let rest = &self.seen[self.used..];
            if let Some(end) = rest.windows(4).position(|w| w == b"\r\n\r\n") {
                let head = Head::parse(&rest[..end]);
                self.used += end + 4;
                return Ok(Some(head));
            }
            if !self.fill()? {
                return Ok(None);
            }
        }
    }

    /// Up to `n` bytes: fewer only if the stream ends or breaks.
    pub fn take(&mut self, n: usize) -> Vec<u8> {
        while self.seen.len() - self.used < n {
            match self.fill() {
                Ok(true) => {}
                Ok(false) | Err(_) => break,
            }
        }
        let end = self.seen.len().min(self.used + n);
        let taken = self.seen[self.used..end].to_vec();
        self.used = end;
        taken
    }

    /// Everything up to the end; `Complete` only if it ended cleanly.
    pub fn rest(&mut self) -> (Vec<u8>, End) {
        let end = loop {
            match self.fill() {
                Ok(true) => {}
                Ok(false) => break End::Complete,
                Err(_) => break End::Cut,
            }
        };
        let rest = self.seen[self.used..].to_vec();
        self.used = self.seen.len();
        (rest, end)
    }

    /// A body of known length.
    pub fn sized(&mut self, n: usize) -> (Vec<u8>, End) {
        let body = self.take(n);
        let end = if body.len() == n { End::Complete } else { End::Cut };
        (body, end)
    }

    /// Reads `n` bytes, shows them piece by piece, and forgets them: for what is too large to be kept. How many came.
    pub fn skim(&mut self, n: u64, mut look: impl FnMut(&[u8])) -> u64 {
        let mut left = n;
        while left > 0 {
            if self.used == self.seen.len() && !matches!(self.fill(), Ok(true)) {
                break;
            }
            let rest = &self.seen[self.used..];
            let here = rest.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            look(&rest[..here]);
            left -= here as u64;
            self.used += here;
            if self.used == self.seen.len() {
                // What a secret could go on from is kept.
                self.seen.drain(..self.used.saturating_sub(Finder::everything().overlap()));
                self.used = self.seen.len();
            }
        }
        n - left
    }

    /// The next chunk of a chunked body; an empty one is the last, and its trailer is still to be read.
    pub fn chunk(&mut self) -> Option<Vec<u8>> {
        let line = self.line()?;
        let size = usize::from_str_radix(line.split(';').next().unwrap_or_default().trim(), 16).ok()?;
        let part = self.take(size);
        let ends = size == 0 || self.take(2) == b"\r\n";
        (part.len() == size && ends).then_some(part)
    }

    /// The fields after the last chunk, or `None` if the stream ends first.
    pub fn trailers(&mut self) -> Option<Vec<String>> {
        let mut fields = Vec::new();
        loop {
            match self.line()? {
                line if line.is_empty() => return Some(fields),
                line => fields.push(line),
            }
        }
    }

    /// A chunked body with its trailer.
    pub fn chunked(&mut self) -> (Vec<u8>, End) {
        let mut body = Vec::new();
        loop {
            match self.chunk() {
                None => return (body, End::Cut),
                Some(part) if !part.is_empty() => body.extend_from_slice(&part),
                Some(_) => {
                    let end = if self.trailers().is_some() { End::Complete } else { End::Cut };
                    return (body, end);
                }
            }
        }
    }

    fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            let byte = self.take(1);
            if byte.is_empty() {
                return None;
            }
            line.extend_from_slice(&byte);
        }
        line.truncate(line.len() - 2);
        Some(String::from_utf8_lossy(&line).into_owned())
    }
}
