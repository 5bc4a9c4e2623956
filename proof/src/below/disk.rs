//! A disk that keeps what was synced, and of the rest what it likes.
//!
//! What is written, cut to a length, made, renamed or removed is pending until the file, or for names the folder, is
//! synced. After a power cut each pending change is there, or not, or, for a write, in some of its sectors. This is
//! more than any file system does: names and lengths are not kept in order.

use std::collections::HashMap;
use std::ops::Range;

use crate::below::journal::{Call, Entry, Journal, Kept, On};
use crate::failure::Failure;
use crate::rng::Rng;

/// What a disk writes whole or not at all, in bytes.
const SECTOR: usize = 512;
/// Names of files.
const NAMES: usize = Kept::ALL.len();

/// A change that no sync has confirmed.
#[derive(Clone)]
enum Change {
    Write { offset: usize, data: Range<usize> },
    Truncate { length: usize },
}

/// What a file holds, whatever it is called.
#[derive(Default)]
struct Inode {
    durable: Vec<u8>,
    /// The last change before its last sync; counted over the whole disk.
    version: u64,
    /// Each with its place in the order of all changes.
    pending: Vec<(u64, Change)>,
}

/// Which inode a name means; `None`: there is no such file.
type Names = [Option<usize>; NAMES];

/// The names that one call changed, together or not at all.
type Naming = Vec<(Kept, Option<usize>)>;

/// What a descriptor is of.
#[derive(Clone, Copy)]
enum Opened {
    Folder,
    File(usize),
}

/// The disk under a process.
#[derive(Default)]
pub(crate) struct Disk {
    inodes: Vec<Inode>,
    durable: Names,
    now: Names,
    pending: Vec<(u64, Naming)>,
    open: HashMap<(i32, i32), Opened>,
    changes: u64,
}

/// The files as the next start finds them.
#[derive(Default)]
pub(crate) struct Image {
    /// By [`Kept::index`].
    pub(crate) files: [Option<Vec<u8>>; NAMES],
    /// Says which changes are in it: two images that say the same are the same.
    pub(crate) mark: u64,
}

/// How pending changes are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    Nothing,
    Everything,
    /// In the order of writing, up to one that may be torn.
    UpTo(u64),
    /// Each by itself, whole.
    Some,
    /// Each by itself, in sectors.
    Torn,
    AllBut(u64),
    Only(u64),
}

impl Disk {
    /// A disk on which these files have been for long.
    pub(crate) fn with(files: &Image) -> Self {
        let mut disk = Self::default();
        for kept in Kept::ALL {
            if let Some(content) = &files.files[kept.index()] {
                disk.inodes.push(Inode { durable: content.clone(), ..Inode::default() });
                disk.durable[kept.index()] = Some(disk.inodes.len() - 1);
            }
        }
        disk.now = disk.durable;
        disk
    }

    /// Takes one call.
    pub(crate) fn apply(&mut self, entry: &Entry, journal: &Journal) -> Result<(), Failure> {
        let who = (entry.process, entry.descriptor);
        match &entry.call {
            Call::Start | Call::Connect | Call::Send(_) | Call::Answer(_) | Call::Fault => {}
            Call::Open { on: On::Folder, .. } => drop(self.open.insert(who, Opened::Folder)),
            Call::Open { on: On::File(kept), made, emptied } => self.opened(who, *kept, *made, *emptied),
            Call::Write { offset, data } => {
                self.change(who, Change::Write { offset: *offset, data: data.clone() })?;
            }
            Call::Truncate { length } => self.change(who, Change::Truncate { length: *length })?,
            Call::Sync => self.sync(who, journal),
            Call::Rename { from, to } => {
                let moved = from.and_then(|from| self.now[from.index()]);
                let names = from.map(|from| (from, None)).into_iter().chain(to.map(|to| (to, moved)));
                self.rename(names.collect());
            }
            Call::Unlink(kept) => self.rename(vec![(*kept, None)]),
            Call::Close => drop(self.open.remove(&who)),
        }
        Ok(())
    }

    fn sync(&mut self, who: (i32, i32), journal: &Journal) {
        match self.open.get(&who) {
            Some(Opened::Folder) => {
                self.durable = self.now;
                self.pending.clear();
            }
            Some(Opened::File(inode)) => {
                let inode = &mut self.inodes[*inode];
                inode.version = self.changes;
                for (_, change) in inode.pending.drain(..) {
                    make(&mut inode.durable, &change, journal, |_| true);
                }
            }
            None => {}
        }
    }

    fn opened(&mut self, who: (i32, i32), kept: Kept, made: bool, emptied: bool) {
        let inode = match self.now[kept.index()] {
            Some(inode) if !made => inode,
            Some(_) | None => {
                self.inodes.push(Inode::default());
                let inode = self.inodes.len() - 1;
                self.rename(vec![(kept, Some(inode))]);
                inode
            }
        };
        self.open.insert(who, Opened::File(inode));
        if emptied {
            self.changes += 1;
            self.inodes[inode].pending.push((self.changes, Change::Truncate { length: 0 }));
        }
    }

    fn change(&mut self, who: (i32, i32), change: Change) -> Result<(), Failure> {
        let Some(Opened::File(inode)) = self.open.get(&who) else {
            return Err(Failure::new("follow the disk", "a file was written that was not opened"));
        };
        self.changes += 1;
        self.inodes[*inode].pending.push((self.changes, change));
        Ok(())
    }

    fn rename(&mut self, names: Naming) {
        self.changes += 1;
        for (kept, inode) in &names {
            self.now[kept.index()] = *inode;
        }
        self.pending.push((self.changes, names));
    }

    /// The files as the process itself sees them now.
    pub(crate) fn seen(&self, journal: &Journal) -> Image {
        self.chosen(Style::Everything, &mut Rng::new(0, 0), journal)
    }

    /// The files after a power cut at this moment.
    pub(crate) fn cut(&self, rng: &mut Rng, journal: &Journal) -> Image {
        let pending = self.order();
        let one = pending.get(rng.below(pending.len())).copied().unwrap_or(0);
        let style = match rng.below(16) {
            0 => Style::Nothing,
            1 => Style::Everything,
            2..=5 => Style::UpTo(one),
            6..=8 => Style::Some,
            9..=12 => Style::Torn,
            13 | 14 => Style::AllBut(one),
            _ => Style::Only(one),
        };
        self.chosen(style, rng, journal)
    }

    /// Every pending change, by its place in the order.
    fn order(&self) -> Vec<u64> {
        let named = self.pending.iter().map(|(at, _)| *at);
        let written = self.inodes.iter().flat_map(|inode| inode.pending.iter().map(|(at, _)| *at));
        let mut order: Vec<u64> = named.chain(written).collect();
        order.sort_unstable();
        order
    }

    fn chosen(&self, style: Style, rng: &mut Rng, journal: &Journal) -> Image {
        let mut names = self.durable;
        let mut mark = Mark::default();
        for (at, naming) in &self.pending {
            if style.keeps(*at, rng) {
                mark.add(*at);
                for (kept, inode) in naming {
                    names[kept.index()] = *inode;
                }
            }
        }
        let mut image = Image::default();
        for kept in Kept::ALL {
            let Some(inode) = names[kept.index()].map(|inode| &self.inodes[inode]) else { continue };
            mark.add(u64::MAX - u64::try_from(kept.index()).unwrap_or(0));
            mark.add(inode.version);
            let mut content = inode.durable.clone();
            for (at, change) in &inode.pending {
                if !style.keeps(*at, rng) {
                    continue;
                }
                mark.add(*at);
                if style.tears(*at) {
                    make(&mut content, change, journal, |sector| {
                        let there = rng.coin();
                        mark.add(u64::try_from(sector).unwrap_or(0) << 1 | u64::from(there));
                        there
                    });
                } else {
                    make(&mut content, change, journal, |_| true);
                }
            }
            image.files[kept.index()] = Some(content);
        }
        image.mark = mark.0;
        image
    }
}

impl Style {
    fn keeps(self, at: u64, rng: &mut Rng) -> bool {
        match self {
            Self::Nothing => false,
            Self::Everything => true,
            Self::UpTo(last) => at <= last,
            Self::Some => rng.coin(),
            Self::Torn => rng.below(4) > 0,
            Self::AllBut(one) => at != one,
            Self::Only(one) => at == one,
        }
    }

    fn tears(self, at: u64) -> bool {
        match self {
            Self::UpTo(one) => at == one,
            Self::Torn => true,
            Self::Nothing | Self::Everything | Self::Some | Self::AllBut(_) | Self::Only(_) => false,
        }
    }
}

/// Makes a change, in those of its sectors that are there.
fn make(content: &mut Vec<u8>, change: &Change, journal: &Journal, mut there: impl FnMut(usize) -> bool) {
    match change {
        Change::Truncate { length } => content.resize(*length, 0),
        Change::Write { offset, data } => {
            let mut rest = journal.data(data);
            let mut at = *offset;
            while !rest.is_empty() {
                let (part, after) = rest.split_at(rest.len().min(SECTOR - at % SECTOR));
                if there(at / SECTOR) {
                    let end = at + part.len();
                    if content.len() < end {
                        content.resize(end, 0);
                    }
                    content[at..end].copy_from_slice(part);
                }
                at += part.len();
                rest = after;
            }
        }
    }
}

/// FNV-1a over what was chosen.
struct Mark(u64);

impl Default for Mark {
    fn default() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }
}

impl Mark {
    fn add(&mut self, what: u64) {
        for byte in what.to_le_bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}

#[cfg(test)]
mod tests;
