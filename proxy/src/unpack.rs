//! Unpacks answers that a provider packed although it was asked not to (RFC 9110 section 8.4.1), so that a credential
//! in them can be found.
//!
//! What is read here is data from a stranger: every decoder is bounded in memory, gives its output in pieces, and the
//! whole is bounded by how far it may expand. An answer whose packing is cut or broken is one that did not arrive whole.

#[cfg(test)]
mod tests;
mod zstd;

use std::io::{self, Write};

use brotli_decompressor::reader::StandardAlloc;
use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState};
use bytes::Bytes;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, HeaderValue, header};
use thiserror::Error;

use zstd::Zstd;

/// An answer may expand to this many bytes for each byte that arrived. Text packs 3 to 30 times.
const RATIO_MAX: u64 = 256;
/// Up to so many bytes nobody asks about the ratio.
const FREE_BYTES: u64 = 4 * 1024 * 1024;
/// Deflate makes at most 1,032 bytes of one: a piece of this many becomes 1 MiB at most, before the ratio is looked at.
const DEFLATE_PIECE: usize = 1024;
/// Bytes that brotli gives at a time.
const BROTLI_PIECE: usize = 64 * 1024;

/// The codings that are known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `gzip`, `x-gzip`
    Gzip,
    /// `deflate`: the zlib format, and bare deflate, which some servers send under that name.
    Deflate,
    /// `br`
    Brotli,
    /// `zstd`
    Zstd,
}

/// How an answer's body is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// It is as it is.
    Plain,
    /// In one coding that is known.
    Known(Coding),
    /// In one that is not, or in several.
    Unknown,
}

/// What `Content-Encoding` says of a body.
#[must_use]
pub fn packing(headers: &HeaderMap) -> Packing {
    let mut packing = Packing::Plain;
    for value in headers.get_all(header::CONTENT_ENCODING) {
        let Ok(value) = value.to_str() else { return Packing::Unknown };
        for coding in value.split(',').map(str::trim).filter(|coding| !coding.is_empty()) {
            packing = match (packing, coding.to_ascii_lowercase().as_str()) {
                (packing, "identity") => packing,
                (Packing::Plain, "gzip" | "x-gzip") => Packing::Known(Coding::Gzip),
                (Packing::Plain, "deflate") => Packing::Known(Coding::Deflate),
                (Packing::Plain, "br") => Packing::Known(Coding::Brotli),
                (Packing::Plain, "zstd") => Packing::Known(Coding::Zstd),
                (Packing::Plain | Packing::Known(_) | Packing::Unknown, _) => return Packing::Unknown,
            };
        }
    }
    packing
}

/// Whether a message's framing packs its body (RFC 9112 section 7): any coding besides `chunked`, which alone is taken off
/// when it is read. Nobody here asks for one, and behind the framing nothing would tell of it any more.
#[must_use]
pub fn is_transfer_coded(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(header::TRANSFER_ENCODING).iter();
    match (lines.next().map(HeaderValue::as_bytes), lines.next()) {
        (None, _) => false,
        (Some(_), Some(_)) => true,
        (Some(coding), None) => {
            !["chunked", "identity"].iter().any(|plain| coding.eq_ignore_ascii_case(plain.as_bytes()))
        }
    }
}

/// Takes the fields off that speak of the packed bytes: they are not true of what is passed on.
pub fn unpacked_head(headers: &mut HeaderMap) {
    for name in ["content-encoding", "content-length", "content-md5", "content-digest", "accept-ranges"] {
        headers.remove(name);
    }
}

/// Why a packed body cannot be read.
#[derive(Debug, Error)]
pub enum Unreadable {
    /// It is not what its `Content-Encoding` says.
    #[error("the packed answer is broken")]
    Broken(#[source] io::Error),
    /// Its framing is whole, its packing is not.
    #[error("the packed answer ends too early")]
    Cut,
    /// More than 256 times what arrived.
    #[error("the packed answer expands to more than {RATIO_MAX} times its size")]
    Bomb,
}

/// One body on its way through a decoder.
pub struct Unpacker {
    decoder: Decoder,
    /// What arrived and was not decoded yet.
    input: Bytes,
    arrived: u64,
    made: u64,
}

enum Decoder {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// `deflate` before its first byte, which tells the two formats apart.
    Deflate,
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
    Bare(Box<DeflateDecoder<Vec<u8>>>),
    Brotli(Box<Brotli>),
    Zstd(Box<Zstd>),
    /// It has seen its end: what follows is nobody's.
    Ended,
}

struct Brotli {
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    total: usize,
    /// It has more to give without more input.
    more: bool,
    ended: bool,
}

impl Unpacker {
    /// At the beginning of a body.
    #[must_use]
    pub fn new(coding: Coding) -> Self {
        let decoder = match coding {
            Coding::Gzip => Decoder::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            Coding::Deflate => Decoder::Deflate,
            Coding::Brotli => {
                let alloc = StandardAlloc::default;
                // Strict: windows of up to 16 MiB, which is all that HTTP knows.
                let state = BrotliState::new_strict(alloc(), alloc(), alloc());
                Decoder::Brotli(Box::new(Brotli { state, total: 0, more: false, ended: false }))
            }
            Coding::Zstd => Decoder::Zstd(Box::default()),
        };
        Self { decoder, input: Bytes::new(), arrived: 0, made: 0 }
    }

    /// More packed bytes. Only after [`Self::pull`] had nothing more to give.
    pub fn push(&mut self, packed: Bytes) {
        self.arrived += u64::try_from(packed.len()).unwrap_or(u64::MAX);
        self.input = packed;
    }

    /// The next piece of what was packed, of about 1 MiB at most; `None` when more has to arrive first.
    ///
    /// # Errors
    /// It is broken, or it expands beyond the bound.
    pub fn pull(&mut self) -> Result<Option<Bytes>, Unreadable> {
        while !self.input.is_empty() || self.has_more() {
            let piece = self.step().map_err(Unreadable::Broken)?;
            self.made += u64::try_from(piece.len()).unwrap_or(u64::MAX);
            if self.made > FREE_BYTES && self.made / RATIO_MAX > self.arrived {
                return Err(Unreadable::Bomb);
            }
            if !piece.is_empty() {
                return Ok(Some(Bytes::from(piece)));
            }
        }
        Ok(None)
    }

    /// The body has ended. A body without a byte is whole: an answer may speak of a packing and have nothing to pack.
    ///
    /// # Errors
    /// The packing has not ended, or its checksum does not fit.
    pub fn finish(&mut self) -> Result<(), Unreadable> {
        let ended = |whole: bool| if whole { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        let finished = match &mut self.decoder {
            _ if self.arrived == 0 => Ok(()),
            Decoder::Gzip(decoder) => decoder.try_finish(),
            Decoder::Zlib(decoder) => decoder.try_finish(),
            Decoder::Bare(decoder) => decoder.try_finish(),
            Decoder::Brotli(brotli) => ended(brotli.ended),
            Decoder::Zstd(zstd) => ended(zstd.is_at_end()),
            Decoder::Deflate => ended(false),
            Decoder::Ended => Ok(()),
        };
        finished.map_err(|error| match error.kind() == io::ErrorKind::UnexpectedEof {
            true => Unreadable::Cut,
            false => Unreadable::Broken(error),
        })
    }

    /// Whether a decoder holds output for which it needs no further input.
    fn has_more(&self) -> bool {
        match &self.decoder {
            Decoder::Brotli(brotli) => brotli.more,
            Decoder::Gzip(_)
            | Decoder::Deflate
            | Decoder::Zlib(_)
            | Decoder::Bare(_)
            | Decoder::Zstd(_)
            | Decoder::Ended => false,
        }
    }

    /// Decodes some of the input, and takes it off.
    fn step(&mut self) -> io::Result<Vec<u8>> {
        if let Decoder::Deflate = self.decoder {
            // RFC 1950 section 2.2: the method is 8, the window at most 32 KiB. No block of bare deflate that a
            // compressor makes begins like that.
            let zlib = self.input.first().is_some_and(|first| first & 0x8f == 0x08);
            self.decoder = if zlib {
                Decoder::Zlib(Box::new(ZlibDecoder::new(Vec::new())))
            } else {
                Decoder::Bare(Box::new(DeflateDecoder::new(Vec::new())))
            };
        }
        let piece = &self.input[..self.input.len().min(DEFLATE_PIECE)];
        let (read, made) = match &mut self.decoder {
            Decoder::Gzip(decoder) => {
                let read = decoder.write(piece)?;
                decoder.flush()?;
                (read, std::mem::take(decoder.get_mut()))
            }
            Decoder::Zlib(decoder) => {
                let read = decoder.write(piece)?;
                decoder.flush()?;
                (read, std::mem::take(decoder.get_mut()))
            }
            Decoder::Bare(decoder) => {
                let read = decoder.write(piece)?;
                decoder.flush()?;
                (read, std::mem::take(decoder.get_mut()))
            }
            Decoder::Brotli(brotli) => brotli.step(&self.input)?,
            Decoder::Zstd(zstd) => zstd.step(&self.input)?,
            Decoder::Deflate | Decoder::Ended => (self.input.len(), Vec::new()),
        };
        if read == 0 && made.is_empty() {
            // It takes no more: it has seen its end.
            self.finish().map_err(io::Error::other)?;
            self.decoder = Decoder::Ended;
            self.input = Bytes::new();
        } else {
            drop(self.input.split_to(read));
        }
        Ok(made)
    }
}

impl Brotli {
    /// How many bytes were read, and what was made of them.
    fn step(&mut self, input: &[u8]) -> io::Result<(usize, Vec<u8>)> {
        if self.ended {
            return Ok((input.len(), Vec::new()));
        }
        let mut out = vec![0; BROTLI_PIECE];
        let (mut input_left, mut read, mut room, mut made) = (input.len(), 0, out.len(), 0);
        let result = BrotliDecompressStream(
            &mut input_left,
            &mut read,
            input,
            &mut room,
            &mut made,
            &mut out,
            &mut self.total,
            &mut self.state,
        );
        self.more = matches!(result, BrotliResult::NeedsMoreOutput);
        match result {
            BrotliResult::ResultFailure => return Err(io::ErrorKind::InvalidData.into()),
            BrotliResult::ResultSuccess => self.ended = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
        }
        out.truncate(made);
        Ok((read, out))
    }
}
