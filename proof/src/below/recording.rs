//! One scenario, played by the real sidecar under the recorder.

use std::fs;
use std::path::{Path, PathBuf};

use oncegate_store::failpoint::Plant;
use oncegate_tests::binary::Build;
use oncegate_tests::canary::Finder;
use tempfile::TempDir;

use crate::below::child::{Start, Started};
use crate::below::disk::{Disk, Image};
use crate::below::journal::{Call, Entry, Journal, Kept};
use crate::below::play::{Play, Player, Said};
use crate::below::stage::{Stage, copy};
use crate::below::{Below, Library};
use crate::failure::{During, Failure};
use crate::memory;

/// What was recorded.
pub(crate) struct Recording {
    pub(crate) play: Play,
    pub(crate) journal: Journal,
    /// The files before the first call.
    pub(crate) before: Image,
    stage: Stage,
}

impl Recording {
    /// Plays and records. `warm` is a folder in which a sidecar has run before.
    pub(crate) fn of(
        play: &Play,
        library: &Library,
        warm: &Path,
        plant: Option<Plant>,
    ) -> Result<Self, Failure> {
        let stage = Stage::new(warm, play.warm)?;
        let before = files(&stage.database()).during("read the files before")?;
        let journal = record(play, library, &stage, plant, false)?;
        let recording = Self { play: *play, journal, before, stage };
        recording.is_whole()?;
        Ok(recording)
    }

    /// What was written down gives the very files that are there: no call slipped through.
    fn is_whole(&self) -> Result<(), Failure> {
        let mut disk = Disk::with(&self.before);
        for entry in &self.journal.entries {
            disk.apply(entry, &self.journal)?;
        }
        let found = files(&self.stage.database()).during("read the files after")?;
        let seen = disk.seen(&self.journal);
        for kept in Kept::ALL {
            if seen.files[kept.index()] != found.files[kept.index()] {
                let what = format!("{} of {} was not recorded as it is", kept.suffix(), self.play.name);
                return Err(Failure::new("trust the recorder", what));
            }
        }
        // Every image is put together from what is in these files; and there was a secret to keep.
        let sent = self.stage.bank.record().all_bytes();
        if Finder::credentials().hits(&sent).is_empty() {
            return Err(Failure::new("send the bank its credential", self.play.name));
        }
        self.stage.shows_a_secret().map_or(Ok(()), |found| Err(Failure::new("keep secrets out", found)))
    }

    /// Leaves the folder where it is, for somebody to look at.
    pub(crate) fn keep(self) -> PathBuf {
        self.stage.keep()
    }
}

/// The calls of a scenario, without what was written: those at which something can happen, answers left out.
pub(crate) fn calls(play: &Play, library: &Library, warm: &Path) -> Result<Vec<Entry>, Failure> {
    let stage = Stage::new(warm, play.warm)?;
    let mut entries = record(play, library, &stage, None, true)?.entries;
    entries.retain(|entry| !matches!(entry.call, Call::Start | Call::Answer(_)));
    Ok(entries)
}

fn record(
    play: &Play,
    library: &Library,
    stage: &Stage,
    plant: Option<Plant>,
    brief: bool,
) -> Result<Journal, Failure> {
    let database = stage.database();
    let log = stage.folder().join("below.log");
    let port = stage.bank.addr().port();
    let below = Below { library, database: &database, port, log: Some(&log), brief, plan: None };
    let environment: Vec<_> = plant.iter().map(|plant| ("ONCEGATE_PLANT", plant.word().to_owned())).collect();
    let build = if plant.is_some() { Build::Failpoints } else { Build::Plain };
    let start = Start { build, folder: stage.folder(), below: Some(&below), environment: &environment };
    let mut player =
        Player::new(stage, start)?.map_err(|status| Failure::new("start the sidecar", status))?;
    for step in play.steps {
        if let Said::Gone(error) = player.play(*step)? {
            return Err(Failure::new(format!("play {step:?} of {}", play.name), error));
        }
    }
    player.end()?;
    Journal::read(&log, brief)
}

/// A folder in which a sidecar has run and has ended in order: a database that holds nothing, and trust.
pub(crate) fn warm() -> Result<TempDir, Failure> {
    const STEP: &str = "run a sidecar once";
    let warm = memory::folder()?;
    let stage = Stage::new(warm.path(), false)?;
    let start = Start { build: Build::Plain, folder: stage.folder(), below: None, environment: &[] };
    match start.now()? {
        Started::Serves(sidecar) => sidecar.stop()?,
        Started::Ended(status) => return Err(Failure::new(STEP, status)),
    }
    copy(stage.folder(), warm.path()).during(STEP)?;
    for left in ["oncegate.toml", "stderr.log"] {
        fs::remove_file(warm.path().join(left)).during(STEP)?;
    }
    Ok(warm)
}

fn files(database: &Path) -> std::io::Result<Image> {
    let mut image = Image::default();
    for kept in Kept::ALL {
        let path = kept.beside(database);
        if path.exists() {
            image.files[kept.index()] = Some(fs::read(path)?);
        }
    }
    Ok(image)
}
