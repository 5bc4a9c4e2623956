//! A governed answer: whole, bounded, unpacked and without secrets.

use bytes::Bytes;
use http::response::Parts;
use http::{HeaderMap, Response, header};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use oncegate_policy::exchange::{Answer, Exchange, Loss, Phase};
use tokio::time::Instant;

use super::link::Link;
use super::{Prepared, chain};
use crate::scrub::Scrubber;
use crate::unpack::{self, Packing, Unpacker};

/// What stands in for a body that cannot be searched for the credential. No JSON on purpose: where an action says how
/// its API speaks inside a 2xx, this says nothing, and the outcome is unknown.
const WITHHELD: &str = "Oncegate withholds this answer's body: it is packed in a way that cannot be searched for the credential. The status is the provider's.\n";

/// Reads an answer to its end. One that cannot be read to its end, by its framing or by its packing, is lost.
pub(super) async fn collect(
    response: Response<Incoming>,
    link: &mut Link,
    prepared: &Prepared,
    deadline: Instant,
) -> Exchange {
    let (mut head, body) = response.into_parts();
    let read = match head.status.is_informational() {
        true => Err("the provider changed the protocol".to_owned()),
        false => read(&mut head, (body, link), prepared, deadline).await,
    };
    let body = match read {
        Ok(body) => body,
        Err(cause) => {
            let status = Some(head.status.as_u16());
            return Exchange::Lost(Loss { phase: Phase::ReadingBody, cause, status });
        }
    };
    let scrubber = &prepared.scrubber;
    let phrase = head.extensions.get::<ReasonPhrase>();
    Exchange::Answered(Answer {
        status: head.status.as_u16(),
        reason: phrase.map(|phrase| scrubber.clean_text(&String::from_utf8_lossy(phrase.as_bytes()))),
        headers: headers(&head.headers, scrubber),
        body: scrubber.clean_whole(body),
    })
}

/// The body as it was before it was packed. What is kept is given to later repeats, perhaps to a client that cannot
/// unpack: so also where no credential was placed.
async fn read(
    head: &mut Parts,
    (mut body, link): (Incoming, &mut Link),
    prepared: &Prepared,
    deadline: Instant,
) -> Result<Vec<u8>, String> {
    if unpack::is_transfer_coded(&head.headers) && !body.is_end_stream() {
        return Err("the answer is in a transfer coding that nobody asked for".to_owned());
    }
    let packing = unpack::packing(&head.headers);
    let mut unpacker = match packing {
        Packing::Known(coding) => Some(Unpacker::new(coding)),
        Packing::Plain | Packing::Unknown => None,
    };
    let mut whole = Whole { bytes: Vec::new(), bytes_max: prepared.bounds.max_response_body };
    loop {
        let frame = match tokio::time::timeout_at(deadline, link.frame(&mut body)).await {
            Err(_) => return Err("the answer did not end within upstream_timeout".to_owned()),
            Ok(None) => break,
            Ok(Some(Err(error))) => return Err(chain(&error)),
            Ok(Some(Ok(frame))) => frame,
        };
        // Trailers end here: they cannot be told from fields once an answer is kept.
        let Ok(data) = frame.into_data() else { continue };
        match &mut unpacker {
            None => whole.add(&data)?,
            Some(unpacker) => {
                unpacker.push(data);
                while let Some(piece) = unpacker.pull().map_err(|error| chain(&error))? {
                    whole.add(&piece)?;
                }
            }
        }
    }
    if let Some(unpacker) = &mut unpacker {
        unpacker.finish().map_err(|error| chain(&error))?;
        unpack::unpacked_head(&mut head.headers);
    }
    if packing == Packing::Unknown && !prepared.scrubber.is_empty() && !whole.bytes.is_empty() {
        tracing::warn!(host = %prepared.destination.authority, "an answer is packed in an unknown way; its body is withheld");
        unpack::unpacked_head(&mut head.headers);
        let text = http::HeaderValue::from_static("text/plain; charset=utf-8");
        head.headers.insert(header::CONTENT_TYPE, text);
        return Ok(WITHHELD.as_bytes().to_vec());
    }
    Ok(whole.bytes)
}

/// A body in the making.
struct Whole {
    bytes: Vec<u8>,
    bytes_max: usize,
}

impl Whole {
    fn add(&mut self, piece: &Bytes) -> Result<(), String> {
        if self.bytes.len() + piece.len() > self.bytes_max {
            return Err("the answer is larger than max_response_body".to_owned());
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }
}

/// Header fields as the law reads them: lower-case names, no secret. Left out are values that are no text, and names that
/// hold a secret.
fn headers(map: &HeaderMap, scrubber: &Scrubber) -> Vec<(String, String)> {
    // What the provider's `Connection` names was for us (RFC 9110 section 7.6.1).
    let connection = map.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let for_us: Vec<&str> = connection.flat_map(|names| names.split(',')).map(str::trim).collect();
    map.iter()
        .filter(|(name, _)| !for_us.iter().any(|one| one.eq_ignore_ascii_case(name.as_str())))
        .filter(|(name, _)| !scrubber.is_in_name(name.as_str()))
        .filter_map(|(name, value)| {
            Some((name.as_str().to_owned(), scrubber.clean_text(value.to_str().ok()?)))
        })
        .collect()
}
