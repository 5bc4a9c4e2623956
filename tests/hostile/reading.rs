//! A reader of HTTP/1.1 requests that shares nothing with the product's: as strict as RFC 9112 allows a reader to be, so
//! that what it accepts has one reading. On an agent's side it also finds the end of what a recipient may tolerate: line
//! feeds alone and empty lines before a request (section 2.2), equal lengths, a length that a coding overrides, and
//! codings before the last (section 6.3). What may be framed so and not be sent on is marked as strange.

use std::fmt;

/// One request.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Minor version of HTTP/1.
    pub(crate) minor: u8,
    /// Names in lower case, values trimmed.
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    /// Its end can be found, and still it has no one reading: it may be answered, and never be sent on.
    pub(crate) strange: bool,
    /// Its framing says two things, one of which overrides the other: the connection ends behind it.
    pub(crate) last: bool,
}

impl Reading {
    /// All values of a field.
    pub(crate) fn all(&self, name: &str) -> Vec<&[u8]> {
        self.fields.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_slice()).collect()
    }

    /// A field's only value, as text.
    pub(crate) fn one(&self, name: &str) -> Option<String> {
        match self.all(name).as_slice() {
            [value] => Some(String::from_utf8_lossy(value).into_owned()),
            _ => None,
        }
    }

    /// Whether the connection ends behind it.
    pub(crate) fn closes(&self) -> bool {
        let says = |word: &str| {
            self.all("connection").iter().any(|value| {
                String::from_utf8_lossy(value).split(',').any(|w| w.trim().eq_ignore_ascii_case(word))
            })
        };
        self.last || says("close") || (self.minor == 0 && !says("keep-alive"))
    }

    /// Whether it may change something.
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS")
    }
}

/// Fields and body as text, for who reads a fault.
fn shown(f: &mut fmt::Formatter<'_>, line: &str, fields: &[(String, Vec<u8>)], body: &[u8]) -> fmt::Result {
    write!(f, "{line}")?;
    for (name, value) in fields {
        write!(f, " | {name}: {}", String::from_utf8_lossy(value))?;
    }
    write!(f, " || {:?}", String::from_utf8_lossy(body))
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        shown(f, &format!("{} {} 1.{}", self.method, self.target, self.minor), &self.fields, &self.body)
    }
}

impl fmt::Debug for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        shown(f, &self.status.to_string(), &self.fields, &self.body)
    }
}

/// Why reading stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// At the end of a request.
    Clean,
    /// Inside a request that is in order so far.
    Incomplete,
    /// At something that has no one reading.
    Broken(&'static str),
}

/// All requests of a stream, and why reading stopped.
pub(crate) fn all(bytes: &[u8], tolerant: bool) -> (Vec<Reading>, Stop) {
    let mut reader = Reader { rest: bytes, tolerant };
    let mut requests = Vec::new();
    loop {
        if tolerant {
            while let Some(after) =
                reader.rest.strip_prefix(b"\r\n").or_else(|| reader.rest.strip_prefix(b"\n"))
            {
                reader.rest = after;
            }
        }
        if reader.rest.is_empty() {
            return (requests, Stop::Clean);
        }
        match reader.request() {
            Ok(request) => requests.push(request),
            Err(stop) => return (requests, stop),
        }
    }
}

/// The first request of a stream and the bytes it took.
pub(crate) fn first(bytes: &[u8]) -> Result<(Reading, usize), Stop> {
    let mut reader = Reader { rest: bytes, tolerant: false };
    let request = reader.request()?;
    Ok((request, bytes.len() - reader.rest.len()))
}

/// One answer.
#[derive(Clone)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) fields: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl Answered {
    /// A field as text.
    pub(crate) fn field(&self, name: &str) -> Option<String> {
        let found = self.fields.iter().find(|(n, _)| n == name);
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }
}

/// All final answers of a stream. `bodiless` says which of them have no body (those to HEAD).
pub(crate) fn answers(bytes: &[u8], bodiless: impl Fn(usize) -> bool) -> Result<Vec<Answered>, Stop> {
    let mut reader = Reader { rest: bytes, tolerant: false };
    let mut all = Vec::new();
    while !reader.rest.is_empty() {
        let line = String::from_utf8_lossy(reader.line()?).into_owned();
        let rest = line.strip_prefix("HTTP/1.1 ").or_else(|| line.strip_prefix("HTTP/1.0 "));
        let status = rest.and_then(|rest| rest.get(..3)?.parse().ok());
        let status: u16 = status.ok_or(Stop::Broken("a status line"))?;
        let fields = reader.fields()?;
        if status < 200 {
            continue;
        }
        let mut answer = Answered { status, fields, body: Vec::new() };
        let length = answer.field("content-length").and_then(|text| text.parse().ok());
        answer.body = match (answer.field("transfer-encoding"), length) {
            _ if status == 204 || status == 304 => Vec::new(),
            // Where the method was not even read, an answer to HEAD has a body.
            _ if bodiless(all.len()) && (reader.rest.is_empty() || reader.rest.starts_with(b"HTTP/1.")) => {
                Vec::new()
            }
            (Some(_), None) => reader.chunks()?.0,
            (None, Some(length)) => reader.take(length)?.to_vec(),
            (Some(_), Some(_)) | (None, None) => return Err(Stop::Broken("where an answer ends")),
        };
        all.push(answer);
    }
    Ok(all)
}

struct Reader<'b> {
    rest: &'b [u8],
    tolerant: bool,
}

fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b))
}

fn digits(text: &[u8]) -> Option<usize> {
    let plain = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| plain)?.parse().ok()
}

fn ends_chunked(codings: &[u8]) -> bool {
    let last = codings.rsplit(|b| *b == b',').next().unwrap_or_default();
    trim(last).eq_ignore_ascii_case(b"chunked")
}

fn trim(text: &[u8]) -> &[u8] {
    let blank = |b: &u8| *b == b' ' || *b == b'\t';
    let start = text.iter().position(|b| !blank(b)).unwrap_or(text.len());
    let end = text.iter().rposition(|b| !blank(b)).map_or(start, |at| at + 1);
    &text[start..end]
}

impl<'b> Reader<'b> {
    fn line(&mut self) -> Result<&'b [u8], Stop> {
        let end = self.rest.iter().position(|b| *b == b'\n').ok_or(Stop::Incomplete)?;
        let line = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        match line.strip_suffix(b"\r") {
            Some(line) => Ok(line),
            None if self.tolerant => Ok(line),
            None => Err(Stop::Broken("a bare line feed")),
        }
    }

    fn take(&mut self, n: usize) -> Result<&'b [u8], Stop> {
        let (taken, rest) = self.rest.split_at_checked(n).ok_or(Stop::Incomplete)?;
        self.rest = rest;
        Ok(taken)
    }

    fn request(&mut self) -> Result<Reading, Stop> {
        let line = self.line()?;
        let words: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
        let [method, target, version] = words.as_slice() else {
            return Err(Stop::Broken("the request line"));
        };
        let minor = match *version {
            b"HTTP/1.1" => 1,
            b"HTTP/1.0" => 0,
            _ => return Err(Stop::Broken("the version")),
        };
        if !is_token(method) {
            return Err(Stop::Broken("the method"));
        }
        let high = target.iter().any(|b| *b >= 0x80);
        let printable = target.iter().all(|b| *b > 0x20 && *b != 0x7f);
        if target.is_empty() || !printable || high && !self.tolerant {
            return Err(Stop::Broken("the target"));
        }
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut request = Reading {
            method: text(method),
            target: text(target),
            minor,
            fields: self.fields()?,
            body: Vec::new(),
            strange: high,
            last: false,
        };
        self.body(&mut request)?;
        Ok(request)
    }

    fn fields(&mut self) -> Result<Vec<(String, Vec<u8>)>, Stop> {
        let mut fields = Vec::new();
        loop {
            let line = self.line()?;
            if line.is_empty() {
                return Ok(fields);
            }
            let colon =
                line.iter().position(|b| *b == b':').ok_or(Stop::Broken("a field without a colon"))?;
            let (name, value) = (&line[..colon], trim(&line[colon + 1..]));
            if !is_token(name) {
                return Err(Stop::Broken("a field's name"));
            }
            if !value.iter().all(|b| *b == b'\t' || *b >= 0x20 && *b != 0x7f) {
                return Err(Stop::Broken("a field's value"));
            }
            fields.push((String::from_utf8_lossy(name).to_ascii_lowercase(), value.to_vec()));
        }
    }

    fn body(&mut self, request: &mut Reading) -> Result<(), Stop> {
        let owned = |values: Vec<&[u8]>| values.into_iter().map(<[u8]>::to_vec).collect::<Vec<_>>();
        let mut lengths = owned(request.all("content-length"));
        let codings = owned(request.all("transfer-encoding"));
        if self.tolerant {
            lengths.dedup();
        }
        match (lengths.as_slice(), codings.as_slice()) {
            ([], []) => {}
            ([length], []) => {
                let length = digits(length).ok_or(Stop::Broken("the length"))?;
                request.body = self.take(length)?.to_vec();
            }
            ([], [coding]) if request.minor == 1 && coding.eq_ignore_ascii_case(b"chunked") => {
                self.chunked(request)?;
            }
            (_, [.., last]) if self.tolerant && request.minor == 1 && ends_chunked(last) => {
                request.strange |= codings.len() > 1 || !last.eq_ignore_ascii_case(b"chunked");
                request.last = !lengths.is_empty();
                self.chunked(request)?;
            }
            (_, _) => return Err(Stop::Broken("length and coding")),
        }
        Ok(())
    }

    /// Fields behind the body of a write are read by no judge.
    fn chunked(&mut self, request: &mut Reading) -> Result<(), Stop> {
        let (body, trailers) = self.chunks()?;
        request.body = body;
        request.strange |= trailers && request.is_write();
        Ok(())
    }

    /// The body, and whether fields follow it.
    fn chunks(&mut self) -> Result<(Vec<u8>, bool), Stop> {
        let mut body = Vec::new();
        let lines = std::mem::replace(&mut self.tolerant, false);
        loop {
            let line = self.line()?;
            let (size, extension) = match line.iter().position(|b| *b == b';') {
                Some(at) => (trim(&line[..at]), &line[at..]),
                None => (line, &b""[..]),
            };
            let size = if lines { trim(size) } else { size };
            if extension.iter().any(|b| *b < 0x20 && *b != b'\t') {
                return Err(Stop::Broken("a chunk's extension"));
            }
            // Leading zeros change nothing; what does not fit is no size.
            let hex = !size.is_empty() && size.iter().all(u8::is_ascii_hexdigit);
            let text = std::str::from_utf8(size).ok().filter(|_| hex);
            let size = text.and_then(|text| usize::from_str_radix(text, 16).ok());
            let size = size.ok_or(Stop::Broken("a chunk's size"))?;
            if size == 0 {
                let trailers = self.fields()?;
                self.tolerant = lines;
                return Ok((body, !trailers.is_empty()));
            }
            body.extend_from_slice(self.take(size)?);
            if self.take(2)? != b"\r\n" {
                return Err(Stop::Broken("a chunk's end"));
            }
        }
    }
}
