//! Reading a URL template from configuration.

use super::{QueryValue, Scheme, Segment, UrlTemplate};
use crate::authority::{Authority, AuthorityFault};
use crate::json::excerpt;
use crate::path::{Ambiguity, CanonicalPath};
use crate::query;
use crate::template::{Piece, Template, TemplateFault};

/// Why a text is no URL template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlFault {
    /// Neither `https://` nor `http://`.
    #[error("the URL must begin with https:// or http://")]
    Scheme,
    /// A placeholder in the host: where an action goes is fixed.
    #[error("the host of a URL must be fixed: placeholders belong in the path or the query")]
    HostPlaceholder,
    /// A host that is none.
    #[error(transparent)]
    Authority(#[from] AuthorityFault),
    /// A fragment, which is never sent.
    #[error("the URL has a fragment: remove everything from the #")]
    Fragment,
    /// A literal part with more than one reading.
    #[error(transparent)]
    Ambiguous(#[from] Ambiguity),
    /// A placeholder that is none.
    #[error(transparent)]
    Template(#[from] TemplateFault),
    /// Text and a placeholder, or two placeholders, in one path segment.
    #[error("a path segment must be plain text or exactly one placeholder: `{segment}`")]
    MixedSegment {
        /// The segment, cut.
        segment: String,
    },
    /// A secret, which has its place in `credential`.
    #[error("a secret cannot stand in an action's URL: declare it as the host's credential")]
    Secret,
    /// A placeholder in the name of a query parameter.
    #[error("the name of a query parameter must be plain text")]
    QueryName,
    /// One input member in two places, or inside another.
    #[error("the input member `{path}` is taken from two places of the URL")]
    CapturedTwice {
        /// The dotted path, cut.
        path: String,
    },
    /// One query parameter twice.
    #[error("the query parameter `{name}` stands in the URL twice")]
    QueryTwice {
        /// The name, cut.
        name: String,
    },
}

pub(super) fn url(text: &str) -> Result<UrlTemplate, UrlFault> {
    let (scheme, rest) = if let Some(rest) = text.strip_prefix("https://") {
        (Scheme::Https, rest)
    } else if let Some(rest) = text.strip_prefix("http://") {
        (Scheme::Http, rest)
    } else {
        return Err(UrlFault::Scheme);
    };
    if rest.contains('#') {
        return Err(UrlFault::Fragment);
    }
    let (host, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if host.contains(['{', '}']) {
        return Err(UrlFault::HostPlaceholder);
    }
    let authority = Authority::parse(host, Some(scheme.default_port()))?;
    let (path, raw_query) = match target.split_once('?') {
        Some((path, raw_query)) => (path, Some(raw_query)),
        None => (target, None),
    };
    let path = if path.is_empty() { "/" } else { path };
    let template =
        UrlTemplate { scheme, authority, segments: segments(path)?, query: parameters(raw_query)? };
    check_captures(&template)?;
    Ok(template)
}

fn segments(path: &str) -> Result<Vec<Segment>, UrlFault> {
    let pieces = path.split('/').skip(1).map(segment).collect::<Result<Vec<_>, _>>()?;
    // The literal parts must be unambiguous where they stand, so the whole path is read with a stand-in for
    // every placeholder.
    let stand_ins: Vec<&str> = pieces.iter().map(|piece| piece.as_deref().unwrap_or("x")).collect();
    let canonical = CanonicalPath::parse(&format!("/{}", stand_ins.join("/")))?;
    let spellings = canonical.as_str().split('/').skip(1);
    let read =
        pieces.iter().zip(canonical.segments()).zip(spellings).map(
            |((piece, decoded), spelling)| match piece {
                Ok(_) => Segment::Literal { decoded: decoded.clone(), spelling: spelling.to_owned() },
                Err(Piece::Input(path)) => Segment::Capture(path.clone()),
                Err(other) => Segment::BuildOnly(other.clone()),
            },
        );
    Ok(read.collect())
}

/// The raw text of a literal segment, or else the one placeholder.
fn segment(raw: &str) -> Result<Result<String, Piece>, UrlFault> {
    let template = Template::parse(raw)?;
    if !template.secrets().is_empty() {
        return Err(UrlFault::Secret);
    }
    match template.only_piece() {
        _ if template.is_constant() => Ok(Ok(raw.to_owned())),
        Some(piece) => Ok(Err(piece.clone())),
        None => Err(UrlFault::MixedSegment { segment: excerpt(raw) }),
    }
}

fn parameters(raw_query: Option<&str>) -> Result<Vec<(String, QueryValue)>, UrlFault> {
    let mut parameters: Vec<(String, QueryValue)> = Vec::new();
    for pair in raw_query.unwrap_or_default().split('&').filter(|pair| !pair.is_empty()) {
        let (raw_name, raw_value) = pair.split_once('=').unwrap_or((pair, ""));
        if raw_name.contains("{{") {
            return Err(UrlFault::QueryName);
        }
        let name = literal(raw_name)?;
        if name.is_empty() {
            return Err(UrlFault::Ambiguous(Ambiguity::QueryName));
        }
        if parameters.iter().any(|(other, _)| *other == name) {
            return Err(UrlFault::QueryTwice { name: excerpt(&name) });
        }
        parameters.push((name, value(raw_value)?));
        if parameters.len() > query::MAX_PARAMETERS {
            return Err(UrlFault::Ambiguous(Ambiguity::QueryTooMany));
        }
    }
    Ok(parameters)
}

fn value(raw: &str) -> Result<QueryValue, UrlFault> {
    let template = Template::parse(raw)?;
    if !template.secrets().is_empty() {
        return Err(UrlFault::Secret);
    }
    if template.is_constant() {
        return Ok(QueryValue::Literal(literal(raw)?));
    }
    if let Some(Piece::Input(path)) = template.only_piece() {
        return Ok(QueryValue::Capture(path.clone()));
    }
    let decoded = template.pieces().iter().map(|piece| match piece {
        Piece::Text(text) => literal(text).map(Piece::Text),
        Piece::Input(_) | Piece::Secret(_) | Piece::EffectId | Piece::EffectKey | Piece::Response(_) => {
            Ok(piece.clone())
        }
    });
    Ok(QueryValue::BuildOnly(Template::from_pieces(decoded.collect::<Result<_, _>>()?)))
}

/// A literal piece of a query, read as a request's would be.
fn literal(raw: &str) -> Result<String, UrlFault> {
    raw.bytes().try_for_each(query::check_raw)?;
    Ok(query::decode(raw)?)
}

/// No input member may come from two places, nor one from inside another.
fn check_captures(template: &UrlTemplate) -> Result<(), UrlFault> {
    let mut paths: Vec<&str> = if template.is_matchable() { template.inputs() } else { Vec::new() };
    paths.sort_unstable();
    let inside = |outer: &str, inner: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    for (at, outer) in paths.iter().enumerate() {
        let clash = paths.iter().skip(at + 1).find(|inner| inside(outer, inner));
        if let Some(path) = clash {
            return Err(UrlFault::CapturedTwice { path: excerpt(path) });
        }
    }
    Ok(())
}
