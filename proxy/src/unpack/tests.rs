use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;

/// `brotli -q 11` of 20 MiB of zeros.
const BROTLI_BOMB: &str = "y///P/gnAOKxQCD3/o///3/wTwDEYRGA7v1f/v//4J8AiMMCAN37Hw==";
/// `brotli -q 11` of [`text`].
const BROTLI_TEXT: &str = "G7E0CBwJdqzJKh0TD6l4SDrA5vUYrszeWgGErAwF7gCkw8dM2hJKLPEAA4fc/EDnmtcSt/XyP8IepZV/DicQisQSaRlZuTeUfAJEEplCTUMrl1gEIolMoaahlUsqApFEplDT0MolF4FIIlOoaWjlUopAJJEp1DS0cqmLQCSRKdQ0tHJpikAkkSnUNLRyaYtAJJEp1DS0cumKQCSRKdQ0tHJ/qJIGo8lssbaxpWsog9Fktljb2NI1lsFoMlusbWzpmspgNJkt1ja2dM1lMJrMFmsbW7qWMhhNZou1jS1d6zIYTWaLtY0tXZsyGE1mi7WNLV3bMhhNZou1jS1duzIYTWaLtY2t3ByrDEaT2WJtY0vXUAajyWyxtrGlayyD0WS2WNvY0jWVwWgyW6xtbOmay2A0mS3WNrZ0LWUwmswWaxtbutZlMJrMFmsbW7o2ZTCazBZrG1u6tmUwmswWaxtbunZlMJrMFmsbW7k5VRmMJrPF2saWrqEMRpPZYm1jS9dYBqPJbLG2saVrKoPRZLZY29jSNZfBaDJbrG1s6VrKYDSZLdY2tnSty2A0mS3WNrZ0bcpgNJkt1ja2dG3LYDSZLdY2tnTtymA0mS3WNraDBw==";

fn text() -> Vec<u8> {
    let mut text = String::new();
    for number in 0..400 {
        writeln!(text, "line {number} of a text that is packed").unwrap();
    }
    text.into_bytes()
}

fn deflated<W>(mut encoder: W, bytes: &[u8], finish: impl FnOnce(W) -> io::Result<Vec<u8>>) -> Vec<u8>
where
    W: Write,
{
    encoder.write_all(bytes).unwrap();
    finish(encoder).unwrap()
}

fn packed(bytes: &[u8]) -> Vec<(Coding, Vec<u8>)> {
    let best = Compression::best();
    let zstd = compress_to_vec(bytes, CompressionLevel::Fastest);
    let skippable = [&b"\x5a\x2a\x4d\x18\x03\0\0\0abc"[..], &zstd].concat();
    vec![
        (Coding::Gzip, deflated(GzEncoder::new(Vec::new(), best), bytes, GzEncoder::finish)),
        (Coding::Deflate, deflated(ZlibEncoder::new(Vec::new(), best), bytes, ZlibEncoder::finish)),
        (Coding::Deflate, deflated(DeflateEncoder::new(Vec::new(), best), bytes, DeflateEncoder::finish)),
        (Coding::Zstd, zstd),
        (Coding::Zstd, skippable),
    ]
}

/// All that comes out when it arrives in pieces of `size`.
fn unpack(coding: Coding, packed: &[u8], size: usize) -> Result<Vec<u8>, Unreadable> {
    let mut unpacker = Unpacker::new(coding);
    let mut out = Vec::new();
    for piece in packed.chunks(size) {
        unpacker.push(Bytes::copy_from_slice(piece));
        while let Some(piece) = unpacker.pull()? {
            out.extend_from_slice(&piece);
        }
    }
    unpacker.finish().map(|()| out)
}

#[test]
fn every_coding_split_anywhere() {
    let text = text();
    let brotli = STANDARD.decode(BROTLI_TEXT).unwrap();
    for (coding, packed) in packed(&text).into_iter().chain([(Coding::Brotli, brotli)]) {
        for size in [1, 2, 7, 64, 1 << 20] {
            assert_eq!(unpack(coding, &packed, size).unwrap(), text, "{coding:?} in pieces of {size}");
        }
        assert_eq!(unpack(coding, b"", 1).unwrap(), b"", "{coding:?}: nothing is nothing");
    }
}

#[test]
fn what_is_cut_or_broken_is_no_answer() {
    let text = text();
    let brotli = STANDARD.decode(BROTLI_TEXT).unwrap();
    for (coding, packed) in packed(&text).into_iter().chain([(Coding::Brotli, brotli)]) {
        for cut in [1, packed.len() / 2, packed.len() - 1] {
            assert!(unpack(coding, &packed[..cut], 64).is_err(), "{coding:?} cut at {cut}");
        }
        assert!(unpack(coding, b"{\"ok\":true}", 64).is_err(), "{coding:?}: not packed at all");
    }
    let (_, mut gzip) = packed(&text).swap_remove(0);
    let checksum = gzip.len() - 8;
    gzip[checksum] ^= 1;
    assert!(matches!(unpack(Coding::Gzip, &gzip, 64), Err(Unreadable::Broken(_))));
}

#[test]
fn several_members_and_frames_are_one_body() {
    for (coding, packed) in packed(b"one ").into_iter().filter(|(coding, _)| *coding != Coding::Deflate) {
        assert_eq!(unpack(coding, &packed.repeat(2), 3).unwrap(), b"one one ", "{coding:?}");
    }
}

#[test]
fn a_bomb_is_stopped_long_before_its_end() {
    let zeros = vec![0; 20 * 1024 * 1024];
    let brotli = STANDARD.decode(BROTLI_BOMB).unwrap();
    for (coding, packed) in packed(&zeros).into_iter().chain([(Coding::Brotli, brotli)]) {
        let mut unpacker = Unpacker::new(coding);
        unpacker.push(Bytes::from(packed));
        let mut made = 0;
        let ended = loop {
            match unpacker.pull() {
                Ok(Some(piece)) => made += piece.len(),
                Ok(None) => panic!("{coding:?}: {made} bytes, and no end"),
                Err(ended) => break ended,
            }
        };
        assert!(matches!(ended, Unreadable::Bomb), "{coding:?}: {ended}");
        assert!(made < 14 * 1024 * 1024, "{coding:?}: {made} bytes");
    }
}

#[test]
fn what_the_field_says() {
    for (fields, is) in [
        (&[][..], Packing::Plain),
        (&["identity"], Packing::Plain),
        (&["GZIP"], Packing::Known(Coding::Gzip)),
        (&["x-gzip"], Packing::Known(Coding::Gzip)),
        (&["identity, br"], Packing::Known(Coding::Brotli)),
        (&["gzip", "br"], Packing::Unknown),
        (&["gzip, gzip"], Packing::Unknown),
        (&["compress"], Packing::Unknown),
        (&["aws-chunked"], Packing::Unknown),
    ] {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(header::CONTENT_ENCODING, HeaderValue::from_static(field));
        }
        assert_eq!(packing(&headers), is, "{fields:?}");
    }
}

#[test]
fn any_coding_of_the_framing_but_chunked_packs() {
    for (fields, coded) in [
        (&[][..], false),
        (&["Chunked"], false),
        (&["identity"], false),
        (&["gzip, chunked"], true),
        (&["gzip", "chunked"], true),
        (&["chunked", "chunked"], true),
        (&["chunked;q=1"], true),
        (&["deflate"], true),
    ] {
        let mut headers = HeaderMap::new();
        for field in fields {
            headers.append(header::TRANSFER_ENCODING, HeaderValue::from_static(field));
        }
        assert_eq!(is_transfer_coded(&headers), coded, "{fields:?}");
    }
}
