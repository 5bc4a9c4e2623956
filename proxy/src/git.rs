//! Answers of ours to git. Of a push that is refused git shows its user neither the body nor the reason phrase, only the
//! status; so the sentence goes where git does print it. Code, outcome and effect stand in the headers as ever.

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};

use crate::receive::Head;
use crate::respond::Sentence;
use crate::upstream::{Body, whole};

const PUSH: &str = "application/x-git-receive-pack-request";
const PUSH_RESULT: HeaderValue = HeaderValue::from_static("application/x-git-receive-pack-result");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
/// A packet's length counts the four digits that it is written with.
const LENGTH_BYTES: usize = 4;
/// The side band of a fatal error.
const FATAL: u8 = 3;
/// Of a sentence, so that a packet holds it (65,520 bytes).
const SENTENCE_BYTES_MAX: usize = 4096;
/// A flush packet: it ends a list, and alone it is the list of nothing.
const FLUSH: &[u8] = b"0000";

/// What git asks for over HTTP (<https://git-scm.com/docs/http-protocol>).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// `GET .../info/refs?service=git-...`: what is there, before anything is fetched or pushed.
    Discovery,
    /// `POST .../git-receive-pack` of git's own media type: the push itself.
    Push,
}

impl Asked {
    /// What a request of git's asks for; `None` for all others.
    pub fn of<B>(request: &Request<B>) -> Option<Self> {
        let uri = request.uri();
        let service = uri.query().is_some_and(|query| query.starts_with("service=git-"));
        if request.method() == Method::GET && uri.path().ends_with("/info/refs") && service {
            return Some(Self::Discovery);
        }
        is_push(request.method(), uri.path(), request.headers()).then_some(Self::Push)
    }
}

fn is_push(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let media = headers.get(CONTENT_TYPE).is_some_and(|media| media == PUSH);
    method == Method::POST && media && path.ends_with("/git-receive-pack")
}

/// Whether it is what git sends before a push of more than `http.postBuffer` (1 MiB): the same request with a flush
/// packet alone, to learn how to show who it is before it streams the pack. It updates nothing, and servers report
/// nothing on it. Recorded, it would be an effect of which nobody could ever say whether it was applied.
#[must_use]
pub fn is_probe(head: &Head, body: &[u8]) -> bool {
    body == FLUSH && is_push(&head.method, head.path.as_str(), &head.headers)
}

/// The answer to a probe, as git's servers give it. The push comes behind it and is judged.
#[must_use]
pub fn probed() -> Response<Body> {
    let mut response = Response::new(whole(Bytes::new()));
    response.headers_mut().insert(CONTENT_TYPE, PUSH_RESULT);
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(0));
    response
}

/// An answer of ours as git shows it; a provider's answer as it is.
///
/// - Discovery: git prints the lines of a `text/plain` body, whatever the status.
/// - Push: git reads an answer only with status 200. There it prints a packet on the side band of fatal errors as
///   `remote: ...` and fails (<https://git-scm.com/docs/gitprotocol-pack>). A client that has not asked for side bands
///   shows the packet as a status that it cannot read, sentence included.
#[must_use]
pub fn worded(asked: Option<Asked>, mut response: Response<Body>) -> Response<Body> {
    let (Some(asked), Some(Sentence(sentence))) = (asked, response.extensions_mut().remove()) else {
        return response;
    };
    let (status, media, body) = match asked {
        Asked::Discovery => (response.status(), TEXT, sentence.into_bytes()),
        Asked::Push => (StatusCode::OK, PUSH_RESULT, fatal(&sentence)),
    };
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, media);
    *response.body_mut() = whole(Bytes::from(body));
    response
}

/// One packet, and the one that ends the answer.
fn fatal(sentence: &str) -> Vec<u8> {
    let said = &sentence.as_bytes()[..sentence.len().min(SENTENCE_BYTES_MAX)];
    let length = said.len().saturating_add(LENGTH_BYTES).saturating_add(1);
    let mut packet = format!("{length:04x}").into_bytes();
    packet.push(FATAL);
    packet.extend_from_slice(said);
    packet.extend_from_slice(FLUSH);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, uri: &str, media: &str) -> Option<Asked> {
        Asked::of(&Request::builder().method(method).uri(uri).header(CONTENT_TYPE, media).body(()).unwrap())
    }

    #[test]
    fn only_git_is_answered_as_git() {
        for service in ["git-receive-pack", "git-upload-pack"] {
            let uri = format!("/a.git/info/refs?service={service}");
            assert_eq!(asked("GET", &uri, "-"), Some(Asked::Discovery));
            assert_eq!(asked("POST", &uri, "application/json"), None);
        }
        assert_eq!(asked("GET", "/a.git/info/refs", "-"), None);
        assert_eq!(asked("POST", "/a.git/git-receive-pack", PUSH), Some(Asked::Push));
        assert_eq!(asked("POST", "/a.git/git-receive-pack", "application/json"), None);
    }

    #[test]
    fn a_packet_says_its_length_and_its_band() {
        assert_eq!(fatal("Nothing was sent."), b"0016\x03Nothing was sent.0000");
        let long = fatal(&"a".repeat(100_000));
        assert_eq!((&long[..5], long.len()), (&b"1005\x03"[..], 5 + SENTENCE_BYTES_MAX + 4));
    }

    #[test]
    fn the_words_of_a_provider_are_left_alone() {
        let mut theirs = Response::new(whole(Bytes::from_static(b"no")));
        *theirs.status_mut() = StatusCode::FORBIDDEN;
        assert_eq!(worded(Some(Asked::Push), theirs).status(), StatusCode::FORBIDDEN);
    }
}
