//! One spelling for "which resource", or the reason why there is none.
//!
//! A path that the proxy and the provider could read differently would let one action pass for another, so
//! it is refused instead of being normalised by guess (RFC 3986 sections 3.3 and 6.2.2).

use percent_encoding::percent_decode_str;

/// Longest raw path in bytes.
pub const MAX_PATH: usize = 8 * 1024;

/// Why a request target has more than one reading.
///
/// The texts say what to change and never echo the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Ambiguity {
    /// Over [`MAX_PATH`] bytes.
    #[error("the path is longer than 8192 bytes")]
    PathTooLong,
    /// Not an absolute path.
    #[error("the path does not begin with a slash")]
    NotAbsolute,
    /// `.` or `..` as a segment, also as `%2e`.
    #[error("the path contains a dot segment: write the path it leads to")]
    DotSegment,
    /// `//`.
    #[error("the path contains an empty segment: write single slashes")]
    EmptySegment,
    /// `%2F` or `%5C`.
    #[error("the path contains an encoded slash or backslash: values with these cannot stand in a path")]
    EncodedSeparator,
    /// A raw backslash.
    #[error("the path contains a backslash: write slashes")]
    Backslash,
    /// `;` or `%3B`: servers differ in whether what follows belongs to the segment.
    #[error("the path contains a semicolon: path parameters are not accepted")]
    Parameters,
    /// A control character, raw or encoded, or a raw space.
    #[error("the request target contains a control character or a space")]
    Control,
    /// `%` without two hex digits.
    #[error(
        "the request target contains a percent sign without two hex digits: write %25 for a percent sign"
    )]
    BadEscape,
    /// Escapes that do not form UTF-8.
    #[error("the percent-encoded bytes of the request target are not UTF-8")]
    BadUtf8,
    /// Raw bytes outside ASCII.
    #[error("the request target contains raw characters outside ASCII: percent-encode them")]
    NotAscii,
    /// Encoded more than once, such as `%252F`.
    #[error("the path is percent-encoded more than once")]
    DoubleEncoding,
    /// `?` or `#` inside the path, or `#` inside the query.
    #[error("the request target contains a raw ? or # where none belongs: percent-encode it")]
    Delimiter,
    /// `;` in a query, which some servers take for `&`.
    #[error("the query contains a raw semicolon: separate with & and write %3B for a semicolon")]
    QuerySemicolon,
    /// A query parameter without a name.
    #[error("the query contains a value without a name")]
    QueryName,
    /// More parameters than [`crate::query::MAX_PARAMETERS`].
    #[error("the query has more than 256 parameters")]
    QueryTooMany,
    /// Longer than [`crate::query::MAX_QUERY`] bytes.
    #[error("the query is longer than 32768 bytes")]
    QueryTooLong,
}

/// A path with exactly one reading.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CanonicalPath {
    spelling: String,
    segments: Vec<String>,
    /// The first segment that ends at an encoded slash, in [`CanonicalPath::spread`].
    opened: Option<usize>,
}

impl CanonicalPath {
    /// Reads the path of a request target, without its query, at most 8 KiB. `/` is one empty segment, and a
    /// trailing slash is a final empty segment: it makes another resource.
    pub fn parse(raw_path: &str) -> Result<Self, Ambiguity> {
        if raw_path.len() > MAX_PATH {
            return Err(Ambiguity::PathTooLong);
        }
        let rest = raw_path.strip_prefix('/').ok_or(Ambiguity::NotAbsolute)?;
        rest.bytes().try_for_each(check_raw)?;

        let mut segments = Vec::with_capacity(raw_path.bytes().filter(|byte| *byte == b'/').count());
        let mut pieces = rest.split('/').peekable();
        // Nearly every path is one without an escape: as it came, it is its own spelling.
        if !rest.contains('%') {
            while let Some(raw) = pieces.next() {
                if raw.is_empty() && pieces.peek().is_some() {
                    return Err(Ambiguity::EmptySegment);
                }
                segments.push(undotted(raw)?.to_owned());
            }
            return Ok(Self { spelling: raw_path.to_owned(), segments, opened: None });
        }
        let mut spelling = String::with_capacity(raw_path.len());
        while let Some(raw) = pieces.next() {
            if raw.is_empty() && pieces.peek().is_some() {
                return Err(Ambiguity::EmptySegment);
            }
            spelling.push('/');
            respell(raw, &mut spelling)?;
            segments.push(decode(raw)?);
        }
        Ok(Self { spelling, segments, opened: None })
    }

    /// Reads a path with `%2F` taken for a slash: some clients encode the slashes of a file's path, and servers whose
    /// last placeholder is a file's path take both spellings for the same. Only a template that takes the rest of a
    /// path matches what is read in this way. All that [`Self::parse`] refuses besides is refused here too.
    pub fn spread(raw_path: &str) -> Result<Self, Ambiguity> {
        let slashes = raw_path.replace("%2f", "%2F");
        let opened =
            slashes.split_once("%2F").map(|(before, _)| before.matches('/').count().saturating_sub(1));
        Ok(Self { opened, ..Self::parse(&slashes.replace("%2F", "/"))? })
    }

    /// As a request is read: with an encoded slash, the path is spread, and only an action that says so takes it. Whether it was.
    ///
    /// # Errors
    /// As [`Self::parse`], but for that.
    pub fn parse_or_spread(raw_path: &str) -> Result<(Self, bool), Ambiguity> {
        match Self::parse(raw_path) {
            Err(Ambiguity::EncodedSeparator) => Ok((Self::spread(raw_path)?, true)),
            strict => Ok((strict?, false)),
        }
    }

    /// The first segment that ends at an encoded slash, if the path was read with [`Self::spread`] and has one.
    #[must_use]
    pub fn opened_at(&self) -> Option<usize> {
        self.opened
    }

    /// The segments, percent-decoded once. Never empty; only the last may be the empty text.
    #[must_use]
    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    /// The canonical spelling (RFC 3986 section 6.2.2): unreserved characters decoded, other escapes in upper
    /// case hex, everything else as it came.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.spelling
    }
}

fn check_raw(byte: u8) -> Result<(), Ambiguity> {
    match byte {
        0x80.. => Err(Ambiguity::NotAscii),
        0..=0x20 | 0x7f => Err(Ambiguity::Control),
        b'\\' => Err(Ambiguity::Backslash),
        b';' => Err(Ambiguity::Parameters),
        b'?' | b'#' => Err(Ambiguity::Delimiter),
        _ => Ok(()),
    }
}

/// Appends `raw` to `out` with its escapes in canonical form.
fn respell(raw: &str, out: &mut String) -> Result<(), Ambiguity> {
    let mut rest = raw;
    while let Some((plain, after)) = rest.split_once('%') {
        out.push_str(plain);
        let digits = after.get(..2).ok_or(Ambiguity::BadEscape)?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(Ambiguity::BadEscape);
        }
        let byte = u8::from_str_radix(digits, 16).map_err(|_| Ambiguity::BadEscape)?;
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&digits.to_ascii_uppercase());
        }
        rest = after.get(2..).unwrap_or_default();
    }
    out.push_str(rest);
    Ok(())
}

/// Decodes one segment once, and makes sure that a server which decodes twice would see the same structure. `raw` has
/// passed [`check_raw`]: without an escape it can only be a dot segment.
fn decode(raw: &str) -> Result<String, Ambiguity> {
    if !raw.contains('%') {
        return undotted(raw).map(str::to_owned);
    }
    let once = percent_decode_str(raw).decode_utf8().map_err(|_| Ambiguity::BadUtf8)?.into_owned();
    check_decoded(&once)?;
    if holds_escape(&once) {
        let twice = percent_decode_str(&once).decode_utf8_lossy().into_owned();
        if holds_escape(&twice) || check_decoded(&twice).is_err() {
            return Err(Ambiguity::DoubleEncoding);
        }
    }
    Ok(once)
}

fn undotted(segment: &str) -> Result<&str, Ambiguity> {
    if segment == "." || segment == ".." { Err(Ambiguity::DotSegment) } else { Ok(segment) }
}

fn check_decoded(segment: &str) -> Result<(), Ambiguity> {
    undotted(segment)?;
    if segment.contains(['/', '\\']) {
        return Err(Ambiguity::EncodedSeparator);
    }
    if segment.contains(';') {
        return Err(Ambiguity::Parameters);
    }
    if segment.chars().any(char::is_control) {
        return Err(Ambiguity::Control);
    }
    Ok(())
}

fn holds_escape(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes
        .windows(3)
        .any(|w| matches!(w, [b'%', high, low] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit()))
}
