//! What a provider says inside a WebSocket (RFC 6455 section 5.2), without secrets.
//!
//! Payloads are cleaned frame by frame, their length unchanged. A frame's end ends what is held back: the answer to
//! "yes" must not wait for the next message because a secret begins with `s`. A secret that a provider spreads over
//! two frames is not found.

use std::io;

use bytes::Bytes;

use crate::scrub::{ScrubStream, Scrubber};

/// A frame's header without a mask: two bytes, and a length of up to eight.
const HEADER_MAX: usize = 10;

/// The frames of one provider, on their way to the agent.
pub(super) struct Frames {
    scrub: ScrubStream,
    header: Vec<u8>,
    /// Bytes of the payload that are still to come.
    left: u64,
}

impl Frames {
    pub(super) fn new(scrubber: Scrubber) -> Self {
        Self { scrub: scrubber.stream(true), header: Vec::with_capacity(HEADER_MAX), left: 0 }
    }

    /// Takes what came, gives what may go on.
    ///
    /// # Errors
    /// A frame that a server may not send: masked (section 5.1), or with a bit of an extension that was not agreed on,
    /// which is how a packed message looks. The socket has to be closed.
    pub(super) fn push(&mut self, bytes: Bytes) -> io::Result<Vec<u8>> {
        let mut rest = bytes;
        let mut out = Vec::with_capacity(rest.len());
        while !rest.is_empty() {
            if self.left > 0 {
                let here = usize::try_from(self.left).map_or(rest.len(), |left| left.min(rest.len()));
                self.left -= u64::try_from(here).unwrap_or(self.left);
                out.extend_from_slice(&self.scrub.push(rest.split_to(here)));
                if self.left == 0 {
                    out.extend_from_slice(&self.scrub.finish());
                }
                continue;
            }
            self.header.extend_from_slice(&rest.split_to(1));
            if let Some(length) = length(&self.header)? {
                out.append(&mut self.header);
                self.left = length;
            }
        }
        Ok(out)
    }
}

/// The payload's length, once the header is whole.
fn length(header: &[u8]) -> io::Result<Option<u64>> {
    let refuse = |why: &'static str| Err(io::Error::new(io::ErrorKind::InvalidData, why));
    let (Some(first), second) = (header.first(), header.get(1)) else { return Ok(None) };
    if first & 0x70 != 0 {
        return refuse("a frame uses an extension that was not agreed on");
    }
    let Some(second) = second else { return Ok(None) };
    if second & 0x80 != 0 {
        return refuse("the provider masks its frames");
    }
    let extended = match second & 0x7f {
        126 => 2,
        127 => 8,
        short => return Ok(Some(u64::from(short))),
    };
    let long = header
        .get(2..2 + extended)
        .map(|bytes| bytes.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
    match long {
        Some(length) if length > u64::MAX / 2 => refuse("a frame's length is no length"),
        length => Ok(length),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use zeroize::Zeroizing;

    use super::*;

    const SECRET: &str = "sk_test_planted_1";

    fn frames() -> Frames {
        let secrets = BTreeMap::from([("KEY".to_owned(), Zeroizing::new(SECRET.to_owned()))]);
        Frames::new(Scrubber::new(&secrets).unwrap())
    }

    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x81];
        match payload.len() {
            short if short < 126 => frame.push(u8::try_from(short).unwrap()),
            long if long < 65536 => {
                frame.push(126);
                frame.extend(u16::try_from(long).unwrap().to_be_bytes());
            }
            longer => {
                frame.push(127);
                frame.extend(u64::try_from(longer).unwrap().to_be_bytes());
            }
        }
        [frame, payload.to_vec()].concat()
    }

    #[test]
    fn payloads_of_every_length_are_cleaned_wherever_they_are_split() {
        for filler in [0, 90, 200, 70_000] {
            let payload = format!("{}{SECRET}s", ".".repeat(filler));
            let bytes = [frame(payload.as_bytes()), frame(b""), frame(b"yes")].concat();
            let clean = payload.replace(SECRET, "{{secret:KEY}}***");
            let expected = [frame(clean.as_bytes()), frame(b""), frame(b"yes")].concat();
            for cut in (0..bytes.len()).step_by(1 + filler / 50) {
                let mut frames = frames();
                let mut out = frames.push(Bytes::copy_from_slice(&bytes[..cut])).unwrap();
                out.extend(frames.push(Bytes::copy_from_slice(&bytes[cut..])).unwrap());
                assert!(out == expected, "{filler} bytes before, cut at {cut}");
            }
        }
    }

    #[test]
    fn the_end_of_a_frame_is_not_held_back() {
        let bytes = frame(b"yes");
        assert_eq!(frames().push(Bytes::from(bytes.clone())).unwrap(), bytes);
    }

    #[test]
    fn frames_that_cannot_be_searched_end_the_socket() {
        for bytes in
            [&[0xc1, 3, 1, 2, 3][..], &[0x81, 0x83, 0, 0, 0, 0], &[0x82, 127, 255, 0, 0, 0, 0, 0, 0, 0]]
        {
            assert!(frames().push(Bytes::copy_from_slice(bytes)).is_err(), "{bytes:?}");
        }
    }
}
