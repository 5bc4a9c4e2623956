//! Which paths are an action's own, whatever else a request says.

use super::{Scheme, Segment, UrlTemplate};
use crate::path::CanonicalPath;

impl UrlTemplate {
    /// Whether a server could take the path of a request for this one, query and method left aside. Wider than
    /// [`Self::matches`]: case, a trailing slash, and spaces or dots at a segment's end make no difference here, since to many servers they make none, and a
    /// place that only builds takes any segment. The authority is the caller's to compare.
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
        let alike = |(own, theirs): (&Segment, &String)| match own {
            Segment::Literal { decoded, .. } => trimmed(decoded).eq_ignore_ascii_case(trimmed(theirs)),
            Segment::Capture(_) | Segment::BuildOnly(_) | Segment::Rest(_) => true,
        };
        let as_many = if self.takes_rest() { theirs.len() >= own.len() } else { theirs.len() == own.len() };
        self.scheme == scheme && as_many && own.iter().zip(theirs).all(alike)
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

/// A segment as servers read it that store their files under Windows' names.
fn trimmed(segment: &str) -> &str {
    segment.trim().trim_end_matches('.')
}
