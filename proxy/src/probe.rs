//! Names that are answered here and lead nowhere: `oncegate doctor` lets each client of a machine ask for one of its
//! own, and reads how far it came. So it is seen, and not only supposed, that a client uses the proxy and trusts it.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::json;

use crate::upstream::{Body, whole};

/// Nobody else can have it (RFC 2606). A client asks for a name one label below, and for port 443; the name itself, in
/// clear, tells how far that client came.
pub const HOST: &str = "doctor.oncegate.invalid";
/// Labels that are remembered; the oldest is forgotten.
const KEPT_MAX: usize = 256;

/// How far a client came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// To the proxy, and was asked who it is.
    Challenged,
    /// Through the proxy, to the TLS that is ended here.
    Connected,
    /// Through the TLS: it trusts the certificate, and its request was read.
    Asked,
}

impl Stage {
    /// Each with its word.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::Challenged, "challenged"), (Self::Connected, "connected"), (Self::Asked, "asked")];

    /// The word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Challenged => "challenged",
            Self::Connected => "connected",
            Self::Asked => "asked",
        }
    }
}

/// What was seen of the labels that somebody asked for.
#[derive(Default)]
pub struct Probes(Mutex<VecDeque<(String, Stage)>>);

impl Probes {
    /// Notes that a client came this far, if the host is a name of this kind.
    pub fn note(&self, host: &str, stage: Stage) {
        let Some(label) = label(host) else { return };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, seen)) = kept.iter_mut().find(|(known, _)| known == label) {
            *seen = stage.max(*seen);
            return;
        }
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back((label.to_owned(), stage));
    }

    /// How far whoever asked for this label came.
    #[must_use]
    pub fn seen(&self, label: &str) -> Option<Stage> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.iter().find(|(known, _)| known == label).map(|(_, stage)| *stage)
    }
}

/// Whether a host is the name, or one label below it.
#[must_use]
pub fn is_probe(host: &str) -> bool {
    host == HOST || label(host).is_some()
}

fn label(host: &str) -> Option<&str> {
    // A name's labels are bounded by what a name may be: 63 bytes.
    host.strip_suffix(HOST)?.strip_suffix('.').filter(|label| !label.is_empty() && !label.contains('.'))
}

/// The answer to a client that came all the way.
#[must_use]
pub fn answer() -> Response<Body> {
    document(&json!({ "oncegate": "doctor", "seen": Stage::Asked.word() }))
}

/// How far a client came, for whoever knows its label: `/LABEL`.
#[must_use]
pub fn tell(probes: &Probes, path: &str) -> Response<Body> {
    let seen = path.strip_prefix('/').and_then(|label| probes.seen(label));
    document(&json!({ "oncegate": "doctor", "seen": seen.map(Stage::word) }))
}

fn document(document: &serde_json::Value) -> Response<Body> {
    let mut response = Response::new(whole(Bytes::from(document.to_string())));
    *response.status_mut() = StatusCode::OK;
    let fields = response.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_furthest_stage_is_kept_and_their_number_is_bounded() {
        let probes = Probes::default();
        for stage in [Stage::Challenged, Stage::Asked, Stage::Connected] {
            probes.note("a.doctor.oncegate.invalid", stage);
        }
        assert_eq!(probes.seen("a"), Some(Stage::Asked));
        for number in 0..KEPT_MAX {
            probes.note(&format!("b{number}.{HOST}"), Stage::Connected);
        }
        assert_eq!((probes.seen("a"), probes.seen("b0")), (None, Some(Stage::Connected)));
        for (stage, word) in Stage::ALL {
            assert_eq!(stage.word(), word);
        }
    }

    #[test]
    fn only_one_label_below_is_a_probe() {
        for (host, probe) in [
            (HOST, true),
            ("a.doctor.oncegate.invalid", true),
            ("a.b.doctor.oncegate.invalid", false),
            ("xdoctor.oncegate.invalid", false),
            ("doctor.oncegate.invalid.example", false),
            ("oncegate.invalid", false),
        ] {
            assert_eq!(is_probe(host), probe, "{host}");
        }
    }
}
