//! What a request means, read in every way that servers are known to read it. What has one meaning reads alike in all.

use std::collections::HashSet;

/// Five readings of a path; `None` where one of them has none.
pub(crate) fn paths(path: &str) -> Vec<Option<String>> {
    let once = decoded(path);
    // A value may hold a percent sign; what is read twice must not come to other segments.
    let twice = once.as_deref().map(|once| match decoded(once) {
        Some(twice) if bones(&twice) != bones(once) => merged(twice.split('\0').next().unwrap_or_default()),
        Some(_) | None => merged(once),
    });
    vec![
        once.clone(),
        // Dot segments taken away after decoding.
        once.as_deref().map(without_dots),
        // Backslashes for slashes, and what follows a semicolon no part of the segment.
        once.as_deref().map(|path| without_dots(&without_parameters(&path.replace('\\', "/")))),
        // Decoded twice, slashes merged, nothing after a zero byte.
        twice,
        // Split before it is decoded: an encoded slash stays in its segment.
        path.split('/').map(decoded).collect::<Option<Vec<_>>>().and_then(|segments| {
            segments.iter().all(|segment| !segment.contains('/')).then(|| segments.join("/"))
        }),
    ]
}

/// Whether all readings of a path agree, and it holds nothing that no path should.
pub(crate) fn one_path(path: &str) -> bool {
    let readings = paths(path);
    let clean = |text: &String| !text.chars().any(char::is_control) && text.starts_with('/');
    readings.iter().all(|reading| *reading == readings[0] && reading.as_ref().is_some_and(clean))
}

fn decoded(text: &str) -> Option<String> {
    String::from_utf8(unescaped(text.as_bytes(), false)?).ok()
}

/// What makes segments of a path: how many there are, and which of them are not plain words.
fn bones(path: &str) -> Vec<&str> {
    let odd = |segment: &&str| {
        matches!(*segment, "." | "..") || segment.is_empty() || segment.contains(['\\', ';', '\0'])
    };
    path.split('/').map(|segment| if odd(&segment) { segment } else { "word" }).collect()
}

fn unescaped(bytes: &[u8], plus: bool) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut rest = bytes;
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let [high, low, after @ ..] = rest else { return None };
            let digit = |b: &u8| char::from(*b).to_digit(16);
            out.push(u8::try_from(digit(high)? * 16 + digit(low)?).ok()?);
            rest = after;
        } else {
            out.push(if plus && *first == b'+' { b' ' } else { *first });
        }
    }
    Some(out)
}

fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "." => {}
            ".." => drop(kept.pop()),
            other => kept.push(other),
        }
    }
    kept.join("/")
}

fn without_parameters(path: &str) -> String {
    let bare = path.split('/').map(|segment| segment.split(';').next().unwrap_or_default());
    bare.collect::<Vec<_>>().join("/")
}

fn merged(path: &str) -> String {
    let mut merged = path.to_owned();
    while merged.contains("//") {
        merged = merged.replace("//", "/");
    }
    merged
}

/// A host and a port in one spelling; `None` for what is no plain `host` or `host:port`.
pub(crate) fn authority(text: &str, default_port: u16) -> Option<(String, u16)> {
    let (host, port) = match text.split_once(':') {
        Some((host, port)) => {
            let plain = port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0');
            (host, port.parse().ok().filter(|_| plain)?)
        }
        None => (text, default_port),
    };
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let good = |label: &str| {
        !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
    };
    host.split('.').all(good).then_some((host, port))
}

/// The members of a form or a query; `None` where two readers could differ.
pub(crate) fn form(bytes: &[u8]) -> Option<Vec<(String, String)>> {
    if bytes.contains(&b';') {
        return None;
    }
    let text = |raw: &[u8]| String::from_utf8(unescaped(raw, true)?).ok();
    let mut members: Vec<(String, String)> = Vec::new();
    for piece in bytes.split(|b| *b == b'&').filter(|piece| !piece.is_empty()) {
        let at = piece.iter().position(|b| *b == b'=').unwrap_or(piece.len());
        let member = (text(&piece[..at])?, text(piece.get(at + 1..).unwrap_or_default())?);
        let again = members.iter().any(|(name, _)| *name == member.0);
        if again && !member.0.ends_with("[]") {
            return None;
        }
        members.push(member);
    }
    Some(members)
}

/// The deepest nesting that every common parser takes.
const DEPTH_MAX: usize = 100;

/// Whether a text is JSON that every reader reads alike: no member twice, no lone surrogate, no number beyond a double.
pub(crate) fn one_json(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    let mut scanner = Scanner { rest: text };
    scanner.value(0).is_some() && scanner.trimmed().is_empty()
}

struct Scanner<'t> {
    rest: &'t str,
}

impl<'t> Scanner<'t> {
    fn trimmed(&mut self) -> &'t str {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.rest
    }

    fn eat(&mut self, what: &str) -> Option<()> {
        self.rest = self.trimmed().strip_prefix(what)?;
        Some(())
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        if depth > DEPTH_MAX {
            return None;
        }
        match self.trimmed().chars().next()? {
            '{' => self.list("{", "}", |scanner, names: &mut HashSet<String>| {
                scanner.trimmed();
                let name = scanner.string()?;
                scanner.eat(":")?;
                scanner.value(depth + 1)?;
                names.insert(name).then_some(())
            }),
            '[' => self.list("[", "]", |scanner, _: &mut HashSet<String>| scanner.value(depth + 1)),
            '"' => self.string().map(drop),
            't' => self.eat("true"),
            'f' => self.eat("false"),
            'n' => self.eat("null"),
            _ => self.number(),
        }
    }

    fn list(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Self, &mut HashSet<String>) -> Option<()>,
    ) -> Option<()> {
        self.eat(open)?;
        if self.eat(close).is_some() {
            return Some(());
        }
        let mut names = HashSet::new();
        loop {
            item(self, &mut names)?;
            if self.eat(close).is_some() {
                return Some(());
            }
            self.eat(",")?;
        }
    }

    /// Through the standard reader, which knows escapes and refuses lone surrogates; the end is looked for here.
    fn string(&mut self) -> Option<String> {
        let mut escaped = false;
        let end = self.rest.char_indices().skip(1).find(|(_, c)| {
            let ends = *c == '"' && !escaped;
            escaped = *c == '\\' && !escaped;
            ends
        });
        let (literal, rest) = self.rest.split_at(end?.0 + 1);
        self.rest = rest;
        serde_json::from_str(literal).ok()
    }

    fn number(&mut self) -> Option<()> {
        let end =
            self.rest.find(|c: char| !c.is_ascii_digit() && !"+-.eE".contains(c)).unwrap_or(self.rest.len());
        let (literal, rest) = self.rest.split_at(end);
        self.rest = rest;
        serde_json::from_str::<serde_json::Number>(literal).ok()?;
        literal.parse::<f64>().ok().filter(|n| n.is_finite()).map(drop)
    }
}
