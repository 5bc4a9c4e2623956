//! Which paths are an action's own, whatever else a request says.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;

use super::{QueryValue, Scheme, Segment, UrlTemplate};
use crate::path::CanonicalPath;

/// How a request's query stands to a template's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryFit {
    /// Each parameter that the template names is there, once and to the letter.
    Exact,
    /// To some servers it is the template's: a parameter stands twice, in another case, with brackets or white space, or
    /// one that the template pins is there and another is missing.
    Respelled,
    /// A parameter that the template names is missing: a server may look for it in the body.
    Missing,
    /// A parameter that the template pins says something else.
    Other,
}

impl UrlTemplate {
    /// Whether a server could take the path of a request for this one, query and method left aside. Wider than
    /// [`Self::matches`]: case, a trailing slash, spaces or dots at a segment's end, and the name of a format at the end of
    /// the path (`.json`, as Rails, Grape and Django REST framework route it) make no difference here, since to many servers
    /// they make none, and a place that only builds takes any segment. The authority is the caller's to compare.
    #[must_use]
    pub fn claims(&self, scheme: Scheme, path: &CanonicalPath) -> bool {
        let own = match self.segments.split_last() {
            Some((Segment::Literal { decoded, .. }, before)) if decoded.is_empty() => before,
            Some(_) | None => &self.segments,
        };
        let theirs = match path.segments().split_last() {
            Some((last, before)) if last.is_empty() => before,
            Some(_) | None => path.segments(),
        };
        let last = own.len().saturating_sub(1);
        let alike = |(at, (own, theirs)): (usize, (&Segment, &String))| match own {
            Segment::Literal { decoded, .. } => {
                let twice = decoded_again(theirs);
                let (own, theirs) = (trimmed(decoded), trimmed(&twice));
                let bare = if at == last { without_format(theirs) } else { theirs };
                own.eq_ignore_ascii_case(theirs) || own.eq_ignore_ascii_case(bare)
            }
            Segment::Capture(_) | Segment::BuildOnly(_) | Segment::Rest(_) => true,
        };
        let as_many = if self.takes_rest() { theirs.len() >= own.len() } else { theirs.len() == own.len() };
        self.scheme == scheme && as_many && own.iter().zip(theirs).enumerate().all(alike)
    }

    /// How the parameters of a query stand to those that this names, as servers bind them.
    #[must_use]
    pub fn query_fit(&self, query: &[(String, String)]) -> QueryFit {
        let (mut missing, mut pinned, mut respelled) = (false, false, false);
        for (name, wanted) in &self.query {
            let mut alike = query.iter().filter(|(given, _)| folded(given) == folded(name));
            let Some(first) = alike.next() else {
                missing = true;
                continue;
            };
            let twice = alike.clone().next().is_some();
            let could_be = |(_, value): &(String, String)| match wanted {
                QueryValue::Literal(literal) => value.trim().eq_ignore_ascii_case(literal.trim()),
                QueryValue::Capture(_) | QueryValue::BuildOnly(_) => true,
            };
            if !could_be(first) && !alike.any(could_be) {
                return QueryFit::Other;
            }
            let literal = match wanted {
                QueryValue::Literal(literal) => Some(literal),
                QueryValue::Capture(_) | QueryValue::BuildOnly(_) => None,
            };
            pinned |= literal.is_some();
            respelled |= twice || first.0 != *name || literal.is_some_and(|literal| *literal != first.1);
        }
        match (respelled || (pinned && missing), missing) {
            (true, _) => QueryFit::Respelled,
            (false, true) => QueryFit::Missing,
            (false, false) => QueryFit::Exact,
        }
    }

    /// The input path that the last segment of the path captures.
    #[must_use]
    pub fn last_input(&self) -> Option<&str> {
        match self.segments.last() {
            Some(Segment::Capture(path)) => Some(path),
            Some(Segment::Literal { .. } | Segment::BuildOnly(_) | Segment::Rest(_)) | None => None,
        }
    }

    /// Whether the path is this one to the letter, query and method left aside.
    #[must_use]
    pub fn names(&self, scheme: Scheme, path: &CanonicalPath) -> bool {
        let same = |(own, theirs): (&Segment, &String)| match own {
            Segment::Literal { decoded, .. } => decoded == theirs,
            Segment::Capture(_) | Segment::BuildOnly(_) => !theirs.is_empty(),
            Segment::Rest(_) => true,
        };
        // A trailing slash makes another resource.
        let ends = !self.takes_rest() || path.segments().last().is_some_and(|last| !last.is_empty());
        self.scheme == scheme
            && self.has_room_for(path)
            && ends
            && self.segments.iter().zip(path.segments()).all(same)
    }
}

/// A decoded segment as a server reads it that decodes once more, where a `?` or `#` ends the path.
fn decoded_again(segment: &str) -> Cow<'_, str> {
    let end = |text: &str| text.find(['?', '#']).unwrap_or(text.len());
    let again = percent_decode_str(segment).decode_utf8_lossy();
    match end(&again) {
        whole if whole == again.len() => again,
        cut => Cow::Owned(again.get(..cut).unwrap_or_default().to_owned()),
    }
}

/// A segment as servers read it that store their files under Windows' names.
fn trimmed(segment: &str) -> &str {
    segment.trim().trim_end_matches('.')
}

/// The formats that frameworks route by the end of a path, `/payouts.json` as `/payouts`: Rails `(.:format)`
/// (<https://guides.rubyonrails.org/routing.html>), Grape, Django REST framework `format_suffix_patterns`.
const FORMATS: [&str; 12] =
    ["json", "jsonp", "xml", "html", "htm", "js", "txt", "csv", "yaml", "yml", "rss", "atom"];

/// A last segment without the name of a format at its end.
fn without_format(segment: &str) -> &str {
    let is_format = |format: &str| FORMATS.iter().any(|known| known.eq_ignore_ascii_case(format));
    match segment.rsplit_once('.') {
        Some((bare, format)) if !bare.is_empty() && is_format(format) => bare,
        Some(_) | None => segment,
    }
}

/// Whether a value at the end of a path ends in what servers take off it: a format of data, a dot, white space. Other
/// formats (`site.html`, `chart.js`) are names of things at least as often.
#[must_use]
pub fn ends_in_a_format(segment: &str) -> bool {
    let of_data = |format: &str| ["json", "xml"].iter().any(|known| known.eq_ignore_ascii_case(format));
    trimmed(segment) != segment || segment.rsplit_once('.').is_some_and(|(_, format)| of_data(format))
}

/// A parameter's name as servers bind it: without case, white space or what stands in brackets.
fn folded(name: &str) -> String {
    name.split('[').next().unwrap_or_default().trim().to_ascii_lowercase()
}
