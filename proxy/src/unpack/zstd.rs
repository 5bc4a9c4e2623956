//! Zstandard (RFC 8878), block by block: the decoder wants a whole block at a time, and must not be given more, since
//! a block of four bytes can say 128 KiB.

use std::io::{self, Read as _};

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The largest window of a frame in HTTP (RFC 9659): what has to be kept in memory of one body.
const WINDOW_MAX: u64 = 8 * 1024 * 1024;
/// Most bytes of one block, packed or not (RFC 8878 section 3.1.1.2).
const BLOCK_MAX: usize = 128 * 1024;
/// Magic number and descriptor of a frame.
const FRAME_START: usize = 5;
/// A block's header.
const BLOCK_HEADER: usize = 3;
/// Magic number and length of a frame to be skipped (section 3.1.2).
const SKIPPABLE_HEADER: usize = 8;

/// Where in the stream it stands.
#[derive(Clone, Copy)]
enum At {
    /// Between frames.
    Start,
    /// Inside a frame, before a block.
    Block,
    /// Inside a frame to be skipped: so many bytes are left of it.
    Skipping(usize),
}

/// One body.
pub(super) struct Zstd {
    decoder: FrameDecoder,
    at: At,
    /// A part of a header or of a block, until the rest of it arrives.
    held: Vec<u8>,
    /// The frame ends with a checksum.
    has_checksum: bool,
}

impl Default for Zstd {
    fn default() -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(WINDOW_MAX);
        Self { decoder, at: At::Start, held: Vec::new(), has_checksum: false }
    }
}

impl Zstd {
    /// Takes at most what is missing of the next header or block; gives what came out of it. Inside a frame the last
    /// window is kept back: the decoder gives it when the frame ends.
    pub(super) fn step(&mut self, input: &[u8]) -> io::Result<(usize, Vec<u8>)> {
        if let At::Skipping(left) = self.at {
            let read = left.min(input.len());
            self.at = if read == left { At::Start } else { At::Skipping(left - read) };
            return Ok((read, Vec::new()));
        }
        let missing = self.wanted()?.saturating_sub(self.held.len());
        let read = missing.min(input.len());
        self.held.extend_from_slice(&input[..read]);
        let wanted = self.wanted()?;
        if self.held.len() < wanted {
            return Ok((read, Vec::new()));
        }
        let unit = std::mem::take(&mut self.held);
        let made = match self.at {
            At::Start if is_skippable(&unit) => {
                let length = [unit[4], unit[5], unit[6], unit[7]].map(u32::from);
                let length = length[0] | length[1] << 8 | length[2] << 16 | length[3] << 24;
                let length = usize::try_from(length).map_err(io::Error::other)?;
                self.at = if length == 0 { At::Start } else { At::Skipping(length) };
                Vec::new()
            }
            At::Start | At::Skipping(_) => {
                self.has_checksum = unit.get(FRAME_START - 1).is_some_and(|descriptor| descriptor & 4 != 0);
                self.decoder.init(unit.as_slice()).map_err(io::Error::other)?;
                self.at = At::Block;
                Vec::new()
            }
            At::Block => self.block(&unit)?,
        };
        Ok((read, made))
    }

    /// Whether the body may end here.
    pub(super) fn is_at_end(&self) -> bool {
        matches!(self.at, At::Start) && self.held.is_empty()
    }

    fn block(&mut self, unit: &[u8]) -> io::Result<Vec<u8>> {
        self.decoder.decode_blocks(unit, BlockDecodingStrategy::UptoBlocks(1)).map_err(io::Error::other)?;
        let mut made = vec![0; self.decoder.can_collect()];
        self.decoder.read_exact(&mut made)?;
        if self.decoder.is_finished() {
            let said = self.decoder.get_checksum_from_data();
            if said.is_some() && said != self.decoder.get_calculated_checksum() {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the checksum does not fit"));
            }
            self.at = At::Start;
        }
        Ok(made)
    }

    /// How many bytes the next unit has, as far as what is held tells.
    fn wanted(&self) -> io::Result<usize> {
        match self.at {
            At::Skipping(left) => Ok(left),
            At::Start => {
                let Some(descriptor) = self.held.get(FRAME_START - 1) else { return Ok(FRAME_START) };
                Ok(if is_skippable(&self.held) { SKIPPABLE_HEADER } else { frame_header(*descriptor) })
            }
            At::Block => {
                let Some(&[a, b, c]) = self.held.first_chunk::<BLOCK_HEADER>() else {
                    return Ok(BLOCK_HEADER);
                };
                let header = usize::from(a) | usize::from(b) << 8 | usize::from(c) << 16;
                let (last, kind, size) = (header & 1 == 1, header >> 1 & 3, header >> 3);
                if size > BLOCK_MAX {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "a block is too large"));
                }
                // Of a run, the size is that of what it makes; it is written as one byte.
                let body = if kind == 1 { 1 } else { size };
                Ok(BLOCK_HEADER + body + if last { self.checksum() } else { 0 })
            }
        }
    }

    /// Bytes of the checksum after the last block, where the frame has one.
    fn checksum(&self) -> usize {
        if self.has_checksum { 4 } else { 0 }
    }
}

fn is_skippable(held: &[u8]) -> bool {
    held.len() >= 4 && held[0] & 0xf0 == 0x50 && held[1..4] == [0x2a, 0x4d, 0x18]
}

/// Bytes of a frame's header by its descriptor (section 3.1.1.1).
fn frame_header(descriptor: u8) -> usize {
    let single_segment = descriptor & 0x20 != 0;
    let window = usize::from(!single_segment);
    let dictionary = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let content_size = match descriptor >> 6 {
        0 => usize::from(single_segment),
        1 => 2,
        2 => 4,
        _ => 8,
    };
    FRAME_START + window + dictionary + content_size
}
