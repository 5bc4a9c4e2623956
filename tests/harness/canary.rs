//! Whether a credential can be read where it must not be: in what clients are sent, in what commands print, and in
//! the files that a sidecar leaves behind (database, its log and index, managed files, its own log).
//!
//! Every sidecar of the suites is looked through when it ends, and every client while it reads. What is looked for are
//! the credentials and keys of [`crate::conf`], each in all of [`ENCODINGS`]. A finding names the secret, the encoding
//! and the place, and never shows the secret itself.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
    fs::{self, File},
    io::{self, ErrorKind, Read},
    ops::Range,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use aho_corasick::{AhoCorasick, AhoCorasickKind};

use crate::{
    conf::{CALLER_KEYS, CREDENTIALS, Canary},
    encodings::ENCODINGS,
};

/// A secret that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The secret's name.
    pub name: &'static str,
    /// How it was written there.
    pub encoding: &'static str,
    /// The first byte of it.
    pub at: usize,
}

impl fmt::Display for Hit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}, as {}, at byte {}", self.name, self.encoding, self.at)
    }
}

/// Looks for some secrets in all encodings, in one pass.
pub struct Finder {
    pieces: Pieces,
    search: AhoCorasick,
    /// Secret and encoding, in the order in which the search numbers its patterns.
    meaning: Vec<(&'static str, &'static str)>,
    longest: usize,
}

impl Finder {
    /// For these secrets. An encoding that leaves a secret as another one does is that other one.
    pub fn of<'a>(secrets: impl IntoIterator<Item = &'a Canary>) -> Finder {
        let (mut spellings, mut meaning, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
        for secret in secrets {
            for encoding in &ENCODINGS {
                for spelling in (encoding.spell)(secret.value) {
                    if known.insert(spelling.clone()) {
                        spellings.push(spelling);
                        meaning.push((secret.name, encoding.name));
                    }
                }
            }
        }
        let longest = spellings.iter().map(Vec::len).max().unwrap_or(0);
        let pieces = Pieces::of(&spellings);
        let kind = Some(AhoCorasickKind::ContiguousNFA);
        let search = AhoCorasick::builder().kind(kind).build(spellings).expect("a search");
        Finder { pieces, search, meaning, longest }
    }

    /// For what an agent, a log or a record may show: no credential, and no key of a caller.
    pub fn everything() -> &'static Finder {
        static FINDER: OnceLock<Finder> = OnceLock::new();
        FINDER.get_or_init(|| Finder::of(CREDENTIALS.iter().chain(&CALLER_KEYS)))
    }

    /// For what a command prints: `oncegate env` shows the key that it was given.
    pub fn credentials() -> &'static Finder {
        static FINDER: OnceLock<Finder> = OnceLock::new();
        FINDER.get_or_init(|| Finder::of(&CREDENTIALS))
    }

    /// Bytes that have to be looked at again with those that come after them.
    pub fn overlap(&self) -> usize {
        self.longest.saturating_sub(1)
    }

    /// All that is found in these bytes.
    pub fn hits(&self, bytes: &[u8]) -> Vec<Hit> {
        let mut hits = Vec::new();
        for Range { start, end } in self.pieces.suspect(bytes, self.longest) {
            hits.extend(self.search.find_iter(&bytes[start..end]).map(|found| {
                let (name, encoding) = self.meaning[found.pattern().as_usize()];
                Hit { name, encoding, at: start + found.start() }
            }));
        }
        hits
    }

    /// All that is found in what can be read, which is not kept in memory.
    ///
    /// # Errors
    /// It could not be read to its end.
    pub fn hits_read(&self, mut from: impl Read) -> io::Result<Vec<Hit>> {
        let mut hits = Vec::new();
        // What comes before `kept` was looked at already, and stays for what began in it.
        let (mut bytes, mut kept, mut before) = (vec![0; self.overlap() + PART], 0, 0);
        loop {
            let read = match from.read(&mut bytes[kept..]) {
                Ok(0) => return Ok(hits),
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let there = kept + read;
            let found = self.hits(&bytes[..there]).into_iter().map(|hit| Hit { at: before + hit.at, ..hit });
            for hit in found {
                if !hits.contains(&hit) {
                    hits.push(hit);
                }
            }
            kept = there.min(self.overlap());
            before += there - kept;
            bytes.copy_within(there - kept..there, 0);
        }
    }

    /// Fails the test if anything is found.
    #[track_caller]
    pub fn nowhere_in(&self, place: &str, bytes: &[u8]) {
        if let Some(hit) = self.hits(bytes).first() {
            panic!("a secret is in {place}: {hit}");
        }
    }
}

/// Bytes of a file that are looked at together: they stay near the processor.
const PART: usize = 64 * 1024;
/// Bytes of a piece.
const PIECE: usize = 8;

/// Every piece of every spelling. A spelling is longer than a piece, so a text that holds one has a piece of it at one of
/// every few bytes. Most of what is searched holds none, and these few are all that is looked at of it.
struct Pieces {
    known: HashSet<u64>,
    /// Whether a piece may be known, by its hash: a million bits, so that the set is hardly ever asked.
    marks: Vec<u64>,
    /// From one look to the next. No spelling fits between two.
    step: usize,
}

impl Pieces {
    fn of(spellings: &[Vec<u8>]) -> Self {
        let shortest = spellings.iter().map(Vec::len).min().unwrap_or(PIECE);
        let step = (shortest + 1)
            .checked_sub(PIECE)
            .filter(|step| *step > 0)
            .expect("a spelling is as long as a piece");
        let known: HashSet<u64> =
            spellings.iter().flat_map(|spelling| spelling.windows(PIECE).map(number)).collect();
        let mut marks = vec![0; 1 << 14];
        for piece in &known {
            let (word, bit) = mark(*piece);
            marks[word] |= bit;
        }
        Self { known, marks, step }
    }

    /// The parts that hold all there is to be found, if no spelling is longer than `longest`.
    fn suspect(&self, bytes: &[u8], longest: usize) -> Vec<Range<usize>> {
        let mut parts: Vec<Range<usize>> = Vec::new();
        for (at, piece) in bytes.windows(PIECE).enumerate().step_by(self.step) {
            let piece = number(piece);
            let (word, bit) = mark(piece);
            if self.marks[word] & bit == 0 || !self.known.contains(&piece) {
                continue;
            }
            let part = (at + PIECE).saturating_sub(longest)..(at + longest).min(bytes.len());
            match parts.last_mut().filter(|last| part.start <= last.end) {
                Some(last) => last.end = part.end,
                None => parts.push(part),
            }
        }
        parts
    }
}

fn number(piece: &[u8]) -> u64 {
    u64::from_le_bytes(piece.try_into().expect("a piece"))
}

/// The upper bits of a product depend on all of a piece.
fn mark(piece: u64) -> (usize, u64) {
    let hash = piece.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
    ((hash >> 6) as usize, 1 << (hash & 63))
}

/// What is found in the files below a folder, with the file, but in `except`; and how many files there are. Links are not
/// followed, and a file that goes meanwhile is gone.
pub fn below(dir: &Path, except: &BTreeSet<PathBuf>) -> (Vec<(PathBuf, Hit)>, usize) {
    let (mut found, mut files) = (Vec::new(), 0);
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        let Some(entries) = there(fs::read_dir(&dir)) else { continue };
        for entry in entries {
            let entry = entry.unwrap();
            let Some(kind) = there(entry.file_type()) else { continue };
            let path = entry.path();
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() && !except.contains(&path) {
                let hits = File::open(&path).and_then(|file| Finder::everything().hits_read(file));
                let Some(hits) = there(hits) else { continue };
                files += 1;
                found.extend(hits.into_iter().map(|hit| (path.clone(), hit)));
            }
        }
    }
    (found, files)
}

fn there<T>(read: std::io::Result<T>) -> Option<T> {
    match read {
        Ok(read) => Some(read),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(error) => panic!("cannot be looked through: {error}"),
    }
}

/// Fails the test if a secret is in a file below the folder; says how many files were looked at.
#[track_caller]
pub fn nowhere_below(dir: &Path, except: &BTreeSet<PathBuf>) -> usize {
    let (found, files) = below(dir, except);
    let told: Vec<String> = found.iter().map(|(path, hit)| format!("{}: {hit}", path.display())).collect();
    assert!(told.is_empty(), "a secret is in the folder of a sidecar:\n{}", told.join("\n"));
    files
}
