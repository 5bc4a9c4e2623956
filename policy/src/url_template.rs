//! Where an action goes: one template that both builds a URL and recognises it.
//!
//! What [`UrlTemplate::build`] makes, [`UrlTemplate::matches`] reads back to the same input, and in no other
//! way: a segment is wholly literal or wholly one placeholder, and a value never changes the structure.

mod claims;
mod parse;

use std::fmt;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

pub use self::claims::{QueryFit, ends_in_a_format};
pub use self::parse::UrlFault;
use crate::authority::Authority;
use crate::path::CanonicalPath;
use crate::template::{Piece, RenderFault, Scope, Template};

/// Everything but the unreserved characters (RFC 3986 section 2.3).
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scheme {
    /// `https`, default port 443.
    Https,
    /// `http`, default port 80.
    Http,
}

impl Scheme {
    /// The port that a URL of this scheme may leave out.
    #[must_use]
    pub fn default_port(self) -> u16 {
        match self {
            Scheme::Https => 443,
            Scheme::Http => 80,
        }
    }

    /// The scheme as it stands in a URL.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Https => "https",
            Scheme::Http => "http",
        }
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal {
        decoded: String,
        spelling: String,
    },
    /// The dotted input path.
    Capture(String),
    /// Known only once there is an effect or an answer: builds, and matches nothing.
    BuildOnly(Piece),
    /// All segments from here on, joined by slashes. Only ever the last.
    Rest(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum QueryValue {
    Literal(String),
    /// The dotted input path.
    Capture(String),
    /// Text around placeholders, or an effect's or answer's: builds, and matches nothing.
    BuildOnly(Template),
}

/// A URL with places for input members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlTemplate {
    scheme: Scheme,
    authority: Authority,
    segments: Vec<Segment>,
    query: Vec<(String, QueryValue)>,
}

/// What a request's URL says about the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Dotted input path and value, in template order.
    pub input: Vec<(String, String)>,
    /// The query parameters that the template does not name, in the order they came.
    pub rest: Vec<(String, String)>,
}

/// How narrowly a template matches; the greater is tried first. Literal segments beat captures from the left,
/// then literal query values count, then captured ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Specificity {
    literal_segments: Vec<bool>,
    query_literals: usize,
    query_captures: usize,
}

impl UrlTemplate {
    /// Reads a template. The authority is fixed and has no userinfo; there is no fragment; a path segment is
    /// wholly literal or wholly one placeholder.
    pub fn parse(text: &str) -> Result<Self, UrlFault> {
        parse::url(text)
    }

    /// This template with one more place at the end of its path, which takes one segment or more as one text with
    /// slashes: a file's path. Encoded slashes are taken for slashes in it (see [`CanonicalPath::spread`]).
    ///
    /// Operators cannot write it: how a server reads an encoded slash is a fact about the server.
    #[must_use]
    pub fn with_rest(mut self, input: &str) -> Self {
        self.segments.push(Segment::Rest(input.to_owned()));
        self
    }

    /// Whether it takes the rest of a path.
    #[must_use]
    pub fn takes_rest(&self) -> bool {
        matches!(self.segments.last(), Some(Segment::Rest(_)))
    }

    /// The scheme.
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The one server this goes to.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// How many path segments a matching request has.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// The dotted paths of the input members that the URL takes, in order.
    #[must_use]
    pub fn inputs(&self) -> Vec<&str> {
        let path = self.segments.iter().filter_map(|segment| match segment {
            Segment::Capture(path) | Segment::Rest(path) => Some(path.as_str()),
            Segment::Literal { .. } | Segment::BuildOnly(_) => None,
        });
        let query = self.query.iter().flat_map(|(_, value)| match value {
            QueryValue::Capture(path) => vec![path.as_str()],
            QueryValue::Literal(_) => Vec::new(),
            QueryValue::BuildOnly(template) => template.inputs(),
        });
        path.chain(query).collect()
    }

    /// Whether a proxied request can match: no part waits for an effect or an answer, and no query value
    /// mixes text and placeholders.
    #[must_use]
    pub fn is_matchable(&self) -> bool {
        !self.segments.iter().any(|segment| matches!(segment, Segment::BuildOnly(_)))
            && !self.query.iter().any(|(_, value)| matches!(value, QueryValue::BuildOnly(_)))
    }

    /// Reads a request's URL, or nothing if it is another. Paths are case-sensitive, a captured value is not
    /// empty, and a query parameter that the template names stands exactly once.
    #[must_use]
    pub fn matches(
        &self,
        scheme: Scheme,
        authority: &Authority,
        path: &CanonicalPath,
        query: &[(String, String)],
    ) -> Option<Captured> {
        if self.scheme != scheme || self.authority != *authority || !self.has_room_for(path) {
            return None;
        }
        let mut captured = Captured::default();
        for (at, (segment, value)) in self.segments.iter().zip(path.segments()).enumerate() {
            match segment {
                Segment::Literal { decoded, .. } if decoded == value => {}
                Segment::Capture(path) if !value.is_empty() => {
                    captured.input.push((path.clone(), value.clone()));
                }
                Segment::Rest(name) => {
                    let rest = path.segments().get(at..).unwrap_or_default();
                    // A trailing slash makes another resource.
                    if rest.last().is_none_or(String::is_empty) {
                        return None;
                    }
                    captured.input.push((name.clone(), rest.join("/")));
                }
                Segment::Literal { .. } | Segment::Capture(_) | Segment::BuildOnly(_) => return None,
            }
        }
        for (name, wanted) in &self.query {
            let value = only_value(query, name)?;
            match wanted {
                QueryValue::Literal(literal) if literal == value => {}
                QueryValue::Capture(path) if !value.is_empty() => {
                    captured.input.push((path.clone(), value.to_owned()));
                }
                QueryValue::Literal(_) | QueryValue::Capture(_) | QueryValue::BuildOnly(_) => return None,
            }
        }
        let taken = |name: &str| self.query.iter().any(|(wanted, _)| wanted == name);
        captured.rest = query.iter().filter(|(name, _)| !taken(name)).cloned().collect();
        Some(captured)
    }

    /// The names of the parameters that stand in its query.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        self.query.iter().map(|(name, _)| name.as_str())
    }

    /// Those whose value is part of it.
    pub fn pinned_parameters(&self) -> impl Iterator<Item = &str> {
        let pinned = self.query.iter().filter(|(_, value)| matches!(value, QueryValue::Literal(_)));
        pinned.map(|(name, _)| name.as_str())
    }

    /// The dotted input paths that are taken from the query.
    pub fn query_inputs(&self) -> impl Iterator<Item = &str> {
        self.query.iter().filter_map(|(_, value)| match value {
            QueryValue::Capture(path) => Some(path.as_str()),
            QueryValue::Literal(_) | QueryValue::BuildOnly(_) => None,
        })
    }

    /// Whether the path has as many segments as this takes, and encoded slashes only where the rest of a path is.
    fn has_room_for(&self, path: &CanonicalPath) -> bool {
        let (own, theirs) = (self.segments.len(), path.segments().len());
        if self.takes_rest() {
            theirs >= own && path.opened_at().is_none_or(|at| at + 1 >= own)
        } else {
            theirs == own && path.opened_at().is_none()
        }
    }

    /// The absolute URL for one request, values percent-encoded and a default port left out. A value that
    /// would give the path another structure is a fault.
    pub fn build(&self, scope: &Scope<'_>) -> Result<String, RenderFault> {
        let mut url = format!("{}://{}", self.scheme, self.authority.url_host());
        if self.authority.port != self.scheme.default_port() {
            url.push_str(&format!(":{}", self.authority.port));
        }
        for segment in &self.segments {
            url.push('/');
            match segment {
                Segment::Literal { spelling, .. } => url.push_str(spelling),
                Segment::Capture(path) => url.push_str(&fill_segment(&Piece::Input(path.clone()), scope)?),
                Segment::BuildOnly(piece) => url.push_str(&fill_segment(piece, scope)?),
                Segment::Rest(path) => url.push_str(&fill_rest(&Piece::Input(path.clone()), scope)?),
            }
        }
        for (at, (name, value)) in self.query.iter().enumerate() {
            url.push(if at == 0 { '?' } else { '&' });
            url.push_str(&percent_encode(name));
            url.push('=');
            let value = match value {
                QueryValue::Literal(text) => text.clone(),
                QueryValue::Capture(path) => Piece::Input(path.clone()).resolve(scope)?,
                QueryValue::BuildOnly(template) => template.render(scope)?,
            };
            url.push_str(&percent_encode(&value));
        }
        Ok(url)
    }

    /// How narrowly this matches, for ordering.
    #[must_use]
    pub fn specificity(&self) -> Specificity {
        let literal = |value: &QueryValue| matches!(value, QueryValue::Literal(_));
        let query_literals = self.query.iter().filter(|(_, value)| literal(value)).count();
        Specificity {
            literal_segments: self.segments.iter().map(|s| matches!(s, Segment::Literal { .. })).collect(),
            query_literals,
            query_captures: self.query.len() - query_literals,
        }
    }

    /// Whether some request could match both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        let segments_meet = |(a, b): (&Segment, &Segment)| match (a, b) {
            (Segment::Literal { decoded: a, .. }, Segment::Literal { decoded: b, .. }) => a == b,
            (Segment::Literal { decoded, .. }, Segment::Capture(_))
            | (Segment::Capture(_), Segment::Literal { decoded, .. }) => !decoded.is_empty(),
            (Segment::Capture(_), Segment::Capture(_)) => true,
            (Segment::BuildOnly(_), _) | (_, Segment::BuildOnly(_)) => false,
            (Segment::Rest(_), _) | (_, Segment::Rest(_)) => true,
        };
        self.is_matchable()
            && other.is_matchable()
            && self.scheme == other.scheme
            && self.authority == other.authority
            && self.segments.len() == other.segments.len()
            && self.segments.iter().zip(&other.segments).all(segments_meet)
            && self.query.iter().all(|(name, a)| other.query_value(name).is_none_or(|b| values_meet(a, b)))
    }

    /// Whether both match exactly the same requests.
    #[must_use]
    pub fn matches_the_same(&self, other: &Self) -> bool {
        let same_query = |(name, a): &(String, QueryValue)| {
            other
                .query_value(name)
                .is_some_and(|b| matches!((a, b), (QueryValue::Capture(_), QueryValue::Capture(_))) || a == b)
        };
        self.overlaps(other)
            && self.specificity() == other.specificity()
            && self.query.len() == other.query.len()
            && self.query.iter().all(same_query)
    }

    fn query_value(&self, name: &str) -> Option<&QueryValue> {
        self.query.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }
}

impl fmt::Display for UrlTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme, self.authority.url_host())?;
        if self.authority.port != self.scheme.default_port() {
            write!(f, ":{}", self.authority.port)?;
        }
        for segment in &self.segments {
            match segment {
                Segment::Literal { spelling, .. } => write!(f, "/{spelling}")?,
                Segment::Capture(path) => write!(f, "/{{{{input.{path}}}}}")?,
                Segment::BuildOnly(piece) => write!(f, "/{{{{{}}}}}", piece.name())?,
                Segment::Rest(path) => write!(f, "/{{{{input.{path}}}}}/...")?,
            }
        }
        for (at, (name, value)) in self.query.iter().enumerate() {
            write!(f, "{}{}=", if at == 0 { '?' } else { '&' }, percent_encode(name))?;
            match value {
                QueryValue::Literal(text) => f.write_str(&percent_encode(text))?,
                QueryValue::Capture(path) => write!(f, "{{{{input.{path}}}}}")?,
                QueryValue::BuildOnly(template) => write!(f, "{template}")?,
            }
        }
        Ok(())
    }
}

fn values_meet(a: &QueryValue, b: &QueryValue) -> bool {
    match (a, b) {
        (QueryValue::Literal(a), QueryValue::Literal(b)) => a == b,
        (QueryValue::Literal(text), QueryValue::Capture(_))
        | (QueryValue::Capture(_), QueryValue::Literal(text)) => !text.is_empty(),
        (QueryValue::Capture(_), QueryValue::Capture(_)) => true,
        (QueryValue::BuildOnly(_), _) | (_, QueryValue::BuildOnly(_)) => false,
    }
}

/// The value of a parameter that stands exactly once: of two, servers take the first or the last.
fn only_value<'a>(query: &'a [(String, String)], name: &str) -> Option<&'a str> {
    let mut values = query.iter().filter(|(own, _)| own == name).map(|(_, value)| value.as_str());
    let first = values.next()?;
    values.next().is_none().then_some(first)
}

/// One placeholder as one path segment, or a fault if the path would not be read back as this one segment.
fn fill_segment(piece: &Piece, scope: &Scope<'_>) -> Result<String, RenderFault> {
    let value = piece.resolve(scope)?;
    let encoded = percent_encode(&value);
    let read_back = CanonicalPath::parse(&format!("/{encoded}"));
    if read_back.is_ok_and(|path| path.segments() == [value]) {
        Ok(encoded)
    } else {
        Err(RenderFault::UrlSegment { path: crate::json::excerpt(&piece.name()) })
    }
}

/// A text with slashes as so many segments, or a fault if it would not be read back as these.
fn fill_rest(piece: &Piece, scope: &Scope<'_>) -> Result<String, RenderFault> {
    let value = piece.resolve(scope)?;
    let encoded = value.split('/').map(percent_encode).collect::<Vec<_>>().join("/");
    let read_back = CanonicalPath::parse(&format!("/{encoded}"));
    if read_back.is_ok_and(|path| path.segments().join("/") == value) && !value.ends_with('/') {
        Ok(encoded)
    } else {
        Err(RenderFault::UrlSegment { path: crate::json::excerpt(&piece.name()) })
    }
}

/// Percent-encodes everything but unreserved characters (RFC 3986 section 2.3); for values in URLs.
#[must_use]
pub fn percent_encode(text: &str) -> String {
    utf8_percent_encode(text, ENCODED).to_string()
}
