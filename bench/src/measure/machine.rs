//! What the numbers belong to: the machine, and how long its disk takes to sync.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Instant;

use crate::report::Machine;
use crate::stats::quantile_us;
use crate::{During, Failure};

/// What is written before each sync: a page, as a small commit does.
const PAGE: usize = 4096;
/// Pages of the file, used in turn.
const PAGES: usize = 256;
/// `f_type` of a file system in memory.
const TMPFS: u64 = 0x0102_1994;

/// The machine as far as it tells.
#[must_use]
pub fn describe(dir: &Path) -> Machine {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Machine {
        processor: name.map_or("unknown processor", |(_, name)| name.trim()).to_owned(),
        processors: std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
        files_in_memory: rustix::fs::statfs(dir)
            .is_ok_and(|fs| u64::try_from(fs.f_type).is_ok_and(|kind| kind == TMPFS)),
        load: [load(), 0.0],
    }
}

/// The load of the last minute.
#[must_use]
pub fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|first| first.parse().ok()).unwrap_or(0.0)
}

/// The p50 of `count` syncs of one page, in microseconds. The file has its size already: so does SQLite's log
/// once it has been folded, and a file that grows would sync more slowly.
///
/// # Errors
/// The file cannot be written.
pub fn fdatasync_us(dir: &Path, count: usize) -> Result<f64, Failure> {
    const STEP: &str = "measure fdatasync";
    let mut file = File::create(dir.join("sync.bin")).during(STEP)?;
    file.write_all(&vec![1_u8; PAGE * PAGES]).during(STEP)?;
    file.sync_all().during(STEP)?;
    let mut nanos = Vec::with_capacity(count);
    for number in 0..count {
        let at = u64::try_from((number % PAGES) * PAGE).during(STEP)?;
        file.seek(SeekFrom::Start(at)).during(STEP)?;
        file.write_all(&[2_u8; PAGE]).during(STEP)?;
        let begun = Instant::now();
        file.sync_data().during(STEP)?;
        nanos.push(u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    nanos.sort_unstable();
    Ok(quantile_us(&nanos, 500))
}
