//! What the recorder wrote down: calls in the order in which they were made. The layout is that of
//! `struct entry` in `below/below.c`, in the byte order of this machine.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::failure::{During, Failure};

/// Bytes before the data of an entry.
const HEAD_BYTES: usize = 48;
/// A socket to the provider, and one to a client, as files are numbered.
const PROVIDER: u32 = 6;

/// The files beside each other that are the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Database,
    Log,
    Journal,
    Lock,
}

impl Kept {
    pub(crate) const ALL: [Self; 4] = [Self::Database, Self::Log, Self::Journal, Self::Lock];

    /// What follows the database's name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Database => "",
            Self::Log => "-wal",
            Self::Journal => "-journal",
            Self::Lock => "-lock",
        }
    }

    /// Where it lies.
    pub(crate) fn beside(self, database: &Path) -> PathBuf {
        let mut name = database.as_os_str().to_owned();
        name.push(self.suffix());
        PathBuf::from(name)
    }

    pub(crate) fn index(self) -> usize {
        match self {
            Self::Database => 0,
            Self::Log => 1,
            Self::Journal => 2,
            Self::Lock => 3,
        }
    }
}

/// A file, or the folder that names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum On {
    File(Kept),
    Folder,
}

/// One call that was made and did not fail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// Another process begins.
    Start,
    Open {
        on: On,
        made: bool,
        emptied: bool,
    },
    Write {
        offset: usize,
        data: Range<usize>,
    },
    Truncate {
        length: usize,
    },
    Sync,
    Rename {
        from: Option<Kept>,
        to: Option<Kept>,
    },
    Unlink(Kept),
    Close,
    Connect,
    /// Bytes that were handed to the kernel for the provider.
    Send(Range<usize>),
    /// Bytes for a client.
    Answer(Range<usize>),
    /// A call that was made to fail.
    Fault,
}

/// A call, and who made it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) process: i32,
    pub(crate) descriptor: i32,
    /// The number under which a fault can be planned; an answer has that of the call before it.
    pub(crate) number: i64,
    /// Which side of the process: the disk, or the provider.
    pub(crate) to_provider: bool,
    pub(crate) call: Call,
}

/// All of it.
pub(crate) struct Journal {
    bytes: Vec<u8>,
    pub(crate) entries: Vec<Entry>,
}

impl Journal {
    /// Reads what was written down. `brief` when the recorder left out what was written.
    pub(crate) fn read(path: &Path, brief: bool) -> Result<Self, Failure> {
        let bytes = fs::read(path).during("read what was recorded")?;
        let mut entries = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let (entry, next) = entry(&bytes, at, brief)
                .ok_or_else(|| Failure::new("read what was recorded", format!("no entry at byte {at}")))?;
            entries.push(entry);
            at = next;
        }
        Ok(Self { bytes, entries })
    }

    #[cfg(test)]
    pub(crate) fn of(bytes: Vec<u8>, entries: Vec<Entry>) -> Self {
        Self { bytes, entries }
    }

    pub(crate) fn data(&self, range: &Range<usize>) -> &[u8] {
        self.bytes.get(range.clone()).unwrap_or_default()
    }
}

fn entry(bytes: &[u8], at: usize, brief: bool) -> Option<(Entry, usize)> {
    let head = bytes.get(at..at.checked_add(HEAD_BYTES)?)?;
    let word = |offset: usize| -> Option<u32> {
        Some(u32::from_ne_bytes(head.get(offset..offset + 4)?.try_into().ok()?))
    };
    let long = |offset: usize| -> Option<i64> {
        Some(i64::from_ne_bytes(head.get(offset..offset + 8)?.try_into().ok()?))
    };
    let (kind, file, flags, length) = (word(0)?, word(4)?, word(40)?, word(44)?);
    let (offset, result) = (long(24)?, long(32)?);
    let start = at + HEAD_BYTES;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    let data = start..end;
    bytes.get(data.clone())?;
    // Data that is missing would be a hole in every image.
    let carries = matches!(kind, 3 | 10 | 11);
    if kind == 3 && !brief && i64::from(length) != result {
        return None;
    }
    let call = match kind {
        1 => Call::Start,
        2 => Call::Open { on: on(file)?, made: flags & 1 != 0, emptied: flags & 2 != 0 },
        3 => Call::Write { offset: usize::try_from(offset).ok()?, data },
        4 => Call::Truncate { length: usize::try_from(offset).ok()? },
        5 => Call::Sync,
        6 => Call::Rename { from: kept(file), to: kept(u32::try_from(offset).ok()?) },
        7 => Call::Unlink(kept(file)?),
        8 => Call::Close,
        9 => Call::Connect,
        10 => Call::Send(data),
        11 => Call::Answer(data),
        12 => Call::Fault,
        _ => return None,
    };
    let entry = Entry {
        process: i32::from_ne_bytes(head.get(8..12)?.try_into().ok()?),
        descriptor: i32::from_ne_bytes(head.get(12..16)?.try_into().ok()?),
        number: long(16)?,
        to_provider: file >= PROVIDER,
        call,
    };
    (carries || length == 0).then_some((entry, end))
}

fn kept(file: u32) -> Option<Kept> {
    let index = usize::try_from(file).ok()?.checked_sub(1)?;
    Kept::ALL.get(index).copied()
}

fn on(file: u32) -> Option<On> {
    if file == 5 { Some(On::Folder) } else { kept(file).map(On::File) }
}
