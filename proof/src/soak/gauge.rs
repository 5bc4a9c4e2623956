//! What a process takes of its machine, second by second, and whether that stays the same.

use std::fs;
use std::path::Path;

use crate::below::journal::Kept;
use crate::failure::{During, Failure};

/// Seconds of a life that are not compared: pools and caches fill, and threads begin.
pub(crate) const WARM_UP: usize = 15;
/// Samples of which the middle one counts, at the beginning and at the end of what is compared.
const WINDOW: usize = 7;
/// What the process may hold more at the end of a life than after its warm-up, and more in the last life than in the
/// first one, in KiB. It holds some 25 MiB, and an allocator gives back in pieces. The lives begin with ever more on
/// record: what grows with the record is seen between them.
const MEMORY_GROWTH_MAX: u64 = 8 * 1024;
/// Open descriptors more than after the warm-up. They come and go with each connection.
const DESCRIPTORS_GROWTH_MAX: u64 = 16;
/// The log, at any time: it is cut to 16 MiB when it was folded, and folded again before it has grown by as much.
const LOG_MAX: u64 = 32 * 1024 * 1024;

/// One second.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Resident memory, in KiB.
    pub(crate) memory: u64,
    /// Open descriptors.
    pub(crate) descriptors: u64,
    /// The database's log, in bytes.
    pub(crate) log: u64,
}

impl Sample {
    /// Of a process that runs, and of its database.
    pub(crate) fn take(pid: u32, database: &Path) -> Result<Self, Failure> {
        const STEP: &str = "measure the sidecar";
        let status = fs::read_to_string(format!("/proc/{pid}/status")).during(STEP)?;
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next());
        Ok(Self {
            memory: memory.during(STEP)?.parse().during(STEP)?,
            descriptors: fs::read_dir(format!("/proc/{pid}/fd")).during(STEP)?.count() as u64,
            log: fs::metadata(Kept::Log.beside(database)).map_or(0, |log| log.len()),
        })
    }
}

/// How a life began, after its warm-up, and how it ended.
fn ends(life: &[Sample], of: fn(&Sample) -> u64) -> Option<(u64, u64)> {
    let life = life.get(WARM_UP..).filter(|life| life.len() >= 2 * WINDOW)?;
    let middle = |window: &[Sample]| {
        let mut values: Vec<u64> = window.iter().map(of).collect();
        values.sort_unstable();
        values[values.len() / 2]
    };
    Some((middle(&life[..WINDOW]), middle(&life[life.len() - WINDOW..])))
}

/// What grew, over the lives of a process on one database.
pub(crate) fn growth(lives: &[Vec<Sample>]) -> Vec<String> {
    let mut found = Vec::new();
    let mut judged = 0;
    for (number, life) in lives.iter().enumerate() {
        if let Some((first, last)) = ends(life, |sample| sample.memory) {
            judged += 1;
            if last > first + MEMORY_GROWTH_MAX {
                found.push(format!("memory in life {number}: from {first} to {last} KiB"));
            }
        }
        if let Some((first, last)) = ends(life, |sample| sample.descriptors)
            && last > first + DESCRIPTORS_GROWTH_MAX
        {
            found.push(format!("descriptors in life {number}: from {first} to {last}"));
        }
        if let Some(sample) = life.iter().find(|sample| sample.log > LOG_MAX) {
            found.push(format!("the log in life {number}: {} bytes", sample.log));
        }
    }
    if judged == 0 {
        found.push("no life was long enough to be judged".to_owned());
    }
    let mut last = lives.iter().filter_map(|life| ends(life, |sample| sample.memory)).map(|(_, last)| last);
    if let Some(first) = last.next()
        && let Some(end) = last.next_back().filter(|end| *end > first + MEMORY_GROWTH_MAX)
    {
        found.push(format!("memory over the lives: from {first} to {end} KiB"));
    }
    found
}

/// Something that leaks: how what is found begins, and what it makes of a sample in a second of a life.
pub(crate) type Leak = (&'static str, fn(&mut Sample, u64));

/// Those that must be seen: 2 MiB, two descriptors, and 1 MiB of log a second.
pub(crate) const LEAKS: [Leak; 3] = [
    ("memory", |sample, second| sample.memory += second * 2_048),
    ("descriptors", |sample, second| sample.descriptors += second * 2),
    ("the log", |sample, second| sample.log += second << 20),
];

/// The same lives with one thing that leaks.
pub(crate) fn leaking(lives: &[Vec<Sample>], (_, leak): Leak) -> Vec<Vec<Sample>> {
    let mut lives = lives.to_vec();
    for life in &mut lives {
        for (second, sample) in (0..).zip(life) {
            leak(sample, second);
        }
    }
    lives
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a little up and down.
    fn lives() -> Vec<Vec<Sample>> {
        let life: Vec<_> = (0..40)
            .map(|second| Sample {
                memory: 40_000 + second % 3 * 500,
                descriptors: 40 + second % 5,
                log: 1 << 20,
            })
            .collect();
        vec![life.clone(), life]
    }

    #[test]
    fn what_stays_the_same_is_flat_and_each_leak_is_seen() {
        assert_eq!(growth(&lives()), Vec::<String>::new());
        for leak in LEAKS {
            assert!(growth(&leaking(&lives(), leak)).iter().any(|found| found.starts_with(leak.0)));
        }
        assert!(!growth(&[]).is_empty(), "nothing was judged");
        let mut swollen = lives();
        swollen[1].iter_mut().for_each(|sample| sample.memory += 2 * MEMORY_GROWTH_MAX);
        assert_eq!(growth(&swollen).len(), 1, "between the lives");
    }
}
