//! Power cuts: a run of the real sidecar is recorded below SQLite, and at every moment of it the disk is put together
//! as a power cut could leave it. Each image is opened as the next start would open it, and compared with what the
//! bank and the clients had by then.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use oncegate_store::failpoint::Plant;

use crate::below::Library;
use crate::below::check::{Checker, digest};
use crate::below::disk::{Disk, Image};
use crate::below::facts::Known;
use crate::below::journal::{Call, Kept};
use crate::below::plays;
use crate::below::recording::{self, Recording};
use crate::below::rows::{Fault, Summary};
use crate::failure::{During, Failure};
use crate::memory;
use crate::report::{Extent, Report};
use crate::rng::Rng;

/// Images of the short form and of the long one.
const IMAGES: u64 = 100_000;
const IMAGES_LONG: u64 = 5_000_000;
/// Images among which a planted fault must show.
const IMAGES_PLANTED: u64 = 10_000;
/// Images at a moment of a run whose database was there before, for each at one of a first start.
const WARM_WEIGHT: u64 = 6;
/// Bytes that are compared and written together.
const PAGE: usize = 4_096;
/// Threads that check, one for each core of the smallest machine that this is run on.
const THREADS: usize = 2;

/// Runs the suite.
pub(crate) fn run(extent: &Extent) -> Result<Report, Failure> {
    let mut report = Report::new("power", extent.seed);
    let library = Library::compile()?;
    let warm = recording::warm()?;
    for plant in [Plant::SynchronousNormal, Plant::SendBeforeClaim] {
        let found = planted(&library, warm.path(), plant, extent.seed)?;
        match found {
            Some((images, fault)) => {
                report.say(&format!("planted {}: caught at image {images}: {fault}", plant.word()));
            }
            None => report.violation(&format!("planted {}: not caught", plant.word())),
        }
    }
    let mut recordings = Vec::new();
    for play in plays::ALL {
        recordings.push(Recording::of(play, &library, warm.path(), None)?);
    }
    let all: u64 = recordings.iter().map(moments).sum();
    report.say(&format!("{} scenarios recorded, {all} moments", recordings.len()));
    let total: u64 = recordings.iter().map(weight).sum();
    let images = extent.runs.unwrap_or(if extent.long { IMAGES_LONG } else { IMAGES });
    let mut from = 0;
    for (part, recording) in recordings.into_iter().enumerate() {
        let to = from + weight(&recording);
        let share = images * to / total.max(1) - images * from / total.max(1);
        from = to;
        let cuts = Cuts::new(&recording, warm.path(), Rng::new(extent.seed, part as u64).next(), share);
        let cut = cuts.all()?;
        report.runs += cut.images;
        report.say(&format!(
            "{}: {} images, {} distinct ones opened, {} databases in them",
            recording.play.name, cut.images, cut.opened, cut.found_in_them
        ));
        if let Some(found) = cut.violation {
            let kept = found.keep(recording)?;
            report.violation(&kept);
        }
    }
    Ok(report)
}

fn moments(recording: &Recording) -> u64 {
    u64::try_from(recording.journal.entries.iter().filter(|entry| matters(&entry.call)).count()).unwrap_or(0)
}

/// What part of the images is of this recording. A start that makes the database is done again for each image of one
/// that was cut off, and nothing is at stake before: a smaller part.
fn weight(recording: &Recording) -> u64 {
    moments(recording) * if recording.play.warm { WARM_WEIGHT } else { 1 }
}

/// Whether a power cut after this call can leave something else than one before it.
fn matters(call: &Call) -> bool {
    match call {
        Call::Open { .. } | Call::Write { .. } | Call::Truncate { .. } | Call::Sync => true,
        Call::Rename { .. } | Call::Unlink(_) | Call::Send(_) | Call::Answer(_) => true,
        Call::Start | Call::Close | Call::Connect | Call::Fault => false,
    }
}

/// Records a run with a fault in the program, and looks for the image that shows it.
fn planted(library: &Library, warm: &Path, plant: Plant, seed: u64) -> Result<Option<(u64, Fault)>, Failure> {
    let recording = Recording::of(&plays::LOST, library, warm, Some(plant))?;
    let cut = Cuts::new(&recording, warm, seed, IMAGES_PLANTED).all()?;
    Ok(cut.violation.map(|found| (cut.images, found.fault)))
}

/// The power cuts of one recording.
struct Cuts<'a> {
    recording: &'a Recording,
    warm: &'a Path,
    seed: u64,
    wanted: u64,
    images: AtomicU64,
    opened: AtomicU64,
    found_in_them: AtomicU64,
    stop: AtomicBool,
    found: Mutex<Option<Violation>>,
}

/// What came of them.
struct Cut {
    images: u64,
    opened: u64,
    found_in_them: u64,
    violation: Option<Violation>,
}

/// An image that must not be.
struct Violation {
    moment: usize,
    fault: Fault,
    image: Image,
}

impl Violation {
    /// Leaves everything that shows it in a folder, and says where.
    fn keep(self, recording: Recording) -> Result<String, Failure> {
        let name = recording.play.name;
        let folder = recording.keep();
        let place = folder.join("image");
        fs::create_dir_all(&place).during("keep an image")?;
        write(&self.image, &place.join("oncegate.db"), &[]).during("keep an image")?;
        Ok(format!(
            "{name}, power cut after entry {}: {} (kept in {})",
            self.moment,
            self.fault,
            folder.display()
        ))
    }
}

impl<'a> Cuts<'a> {
    fn new(recording: &'a Recording, warm: &'a Path, seed: u64, wanted: u64) -> Self {
        let (images, opened, found_in_them, stop, found) = Default::default();
        Self { recording, warm, seed, wanted, images, opened, found_in_them, stop, found }
    }

    fn all(&self) -> Result<Cut, Failure> {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|part| scope.spawn(move || self.some(part))).collect();
            threads.into_iter().try_for_each(|thread| {
                thread.join().map_err(|_| Failure::new("check images", "a thread panicked"))?
            })
        })?;
        let violation = self.found.lock().unwrap_or_else(PoisonError::into_inner).take();
        let count = |counted: &AtomicU64| counted.load(Ordering::SeqCst);
        let (images, opened, found_in_them) =
            (count(&self.images), count(&self.opened), count(&self.found_in_them));
        Ok(Cut { images, opened, found_in_them, violation })
    }

    /// Every moment that is this thread's.
    fn some(&self, part: usize) -> Result<(), Failure> {
        let journal = &self.recording.journal;
        let folder = memory::folder()?;
        let mut bench = Bench {
            path: folder.path().join("oncegate.db"),
            checker: Checker::new(&self.warm.join("oncegate.db"))?,
            there: Vec::new(),
            images: HashMap::new(),
            found: HashMap::new(),
        };
        let mut disk = Disk::with(&self.recording.before);
        let mut known = Known::default();
        let total = moments(self.recording);
        let mut moment = 0;
        for (at, entry) in journal.entries.iter().enumerate() {
            disk.apply(entry, journal)?;
            known.learn(&entry.call, journal);
            if !matters(&entry.call) {
                continue;
            }
            let share = self.wanted * (moment + 1) / total - self.wanted * moment / total;
            let mine = usize::try_from(moment).unwrap_or(0) % THREADS == part;
            moment += 1;
            if !mine {
                continue;
            }
            let mut rng = Rng::new(self.seed, moment);
            for _ in 0..share {
                if self.stop.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let image = disk.cut(&mut rng, journal);
                self.images.fetch_add(1, Ordering::Relaxed);
                if let Err(fault) = self.look(&mut bench, &image, &known) {
                    self.stop.store(true, Ordering::Relaxed);
                    let violation = Violation { moment: at, fault, image };
                    self.found.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(violation);
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    fn look(&self, bench: &mut Bench, image: &Image, known: &Known) -> Result<(), Fault> {
        let digest = match bench.images.get(&image.mark) {
            // The same bytes were opened before.
            Some(digest) => *digest,
            None => {
                self.opened.fetch_add(1, Ordering::Relaxed);
                write(image, &bench.path, &bench.there)
                    .map_err(|error| format!("an image cannot be written: {error}"))?;
                bench.there = Checker::settle(&bench.path)?;
                let digest = digest(&bench.there);
                bench.images.insert(image.mark, digest);
                digest
            }
        };
        let found = match bench.found.entry(digest) {
            Entry::Occupied(found) => found.into_mut(),
            Entry::Vacant(place) => {
                self.found_in_them.fetch_add(1, Ordering::Relaxed);
                bench.there.clear();
                place.insert(bench.checker.examine(&bench.path)?.before)
            }
        };
        known.judge(found)
    }
}

/// What one thread checks with.
struct Bench {
    path: PathBuf,
    checker: Checker,
    /// What the database's file holds; empty when that is not known.
    there: Vec<u8>,
    /// By an image's mark: what was left when it was opened and closed.
    images: HashMap<u64, u128>,
    /// By what was left: what it says.
    found: HashMap<u128, Summary>,
}

/// Puts the files of an image in place, and nothing else beside them. `there` is what the database holds already, if
/// that is known.
fn write(image: &Image, database: &Path, there: &[u8]) -> std::io::Result<()> {
    for kept in Kept::ALL {
        let path = kept.beside(database);
        match &image.files[kept.index()] {
            Some(content) if kept == Kept::Database && !there.is_empty() => overwrite(&path, content, there)?,
            Some(content) => fs::write(path, content)?,
            None if path.exists() => fs::remove_file(path)?,
            None => {}
        }
    }
    Ok(())
}

/// Writes what differs from what is there: the memory of the rest is not given back and asked for again.
fn overwrite(path: &Path, content: &[u8], there: &[u8]) -> std::io::Result<()> {
    let file = File::options().write(true).open(path)?;
    for (number, part) in content.chunks(PAGE).enumerate() {
        let at = number * PAGE;
        if there.get(at..at + part.len()) != Some(part) {
            file.write_all_at(part, u64::try_from(at).unwrap_or(u64::MAX))?;
        }
    }
    file.set_len(u64::try_from(content.len()).unwrap_or(u64::MAX))
}
