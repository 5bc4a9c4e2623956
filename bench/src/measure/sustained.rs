//! Governed writes without a pause for minutes: what a process takes must not grow with what it has done.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::Failure;
use crate::client::{self, Bounds, Kind};
use crate::rig::{Counted, Proxy, Rig, Running, Secret};
use crate::stats::{Spread, float, quantile_us};

/// Between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(2);
/// The first part of the time, in which caches fill; what it took is compared with nothing.
const WARM_PARTS: usize = 5;
/// What memory may grow by between the first and the last of the quarters that follow, in MiB: what an allocator
/// gives back late.
const GROWTH_MIB_MAX: f64 = 4.0;
/// The same for descriptors: connections that are being replaced.
const GROWTH_DESCRIPTORS_MAX: f64 = 4.0;

/// What the process took at one moment.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Sample {
    /// Seconds since the first write.
    pub at_s: f64,
    /// Resident memory, in MiB.
    pub rss_mib: f64,
    /// Open descriptors.
    pub descriptors: u64,
    /// Bytes of the log, in MiB.
    pub log_mib: f64,
    /// Writes answered so far.
    pub writes: u64,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub struct Sustained {
    /// Connections, each with one request at a time.
    pub callers: usize,
    /// Seconds.
    pub seconds: f64,
    /// Governed writes that were answered.
    pub writes: u64,
    /// The middle answer and all but one in a hundred, in microseconds.
    pub p50_p99_us: (f64, f64),
    /// What the process took, all the time.
    pub samples: Vec<Sample>,
    /// Each end's count.
    pub counted: Counted,
    /// Answers that were not as they should be, and connections that broke.
    pub errors: u64,
}

/// Starts Oncegate in a directory of `parent` and writes until the bounds are reached.
///
/// # Errors
/// It could not be started or watched, or a connection could not be opened.
pub async fn run(
    program: &Path,
    parent: &Path,
    callers: usize,
    bounds: Bounds,
) -> Result<Sustained, Failure> {
    let mut rig = Rig::new(program, parent, Secret::default())?;
    let oncegate = rig.start(Proxy::Oncegate, "oncegate").await?;
    let agents = client::open(&oncegate.way, callers, true).await?;
    let begun = Instant::now();
    let loaded = client::run(agents, Kind::Write, bounds);
    tokio::pin!(loaded);
    let mut samples = Vec::new();
    let mut every = tokio::time::interval(SAMPLE_EVERY);
    let load = loop {
        tokio::select! {
            load = &mut loaded => break load,
            _ = every.tick() => samples.push(sample(&oncegate, begun)?),
        }
    };
    oncegate.child.stop().await?;
    let p50_p99_us = (quantile_us(&load.nanos, 500), quantile_us(&load.nanos, 990));
    let writes = load.nanos.len() as u64;
    let (seconds, errors) = (load.wall.as_secs_f64(), load.errors);
    let counted = rig.counted().await?;
    Ok(Sustained { callers, seconds, writes, p50_p99_us, samples, counted, errors })
}

fn sample(oncegate: &Running, begun: Instant) -> Result<Sample, Failure> {
    let log = fs::metadata(oncegate.dir.join("oncegate.db-wal")).map_or(0, |log| log.len());
    Ok(Sample {
        at_s: begun.elapsed().as_secs_f64(),
        rss_mib: float(oncegate.child.rss_kib()?) / 1024.0,
        descriptors: oncegate.child.descriptors()?,
        log_mib: float(log) / 1024.0 / 1024.0,
        writes: oncegate.way.writes.load(std::sync::atomic::Ordering::Relaxed),
    })
}

impl Sustained {
    /// Whether the process takes no more at the end than after it was warm.
    #[must_use]
    pub fn flat(&self) -> bool {
        let grown = |value: fn(&Sample) -> f64, most: f64| {
            self.grown(value).is_none_or(|(early, late)| late - early <= most)
        };
        grown(|sample| sample.rss_mib, GROWTH_MIB_MAX)
            && grown(|sample| float(sample.descriptors), GROWTH_DESCRIPTORS_MAX)
    }

    /// The median of the first and of the last quarter of the time after the warm part; `None` if it was too short.
    fn grown(&self, value: fn(&Sample) -> f64) -> Option<(f64, f64)> {
        let warm = self.samples.get(self.samples.len() / WARM_PARTS..)?;
        let quarter = warm.len() / 4;
        let early = Spread::of(warm.get(..quarter)?.iter().map(value))?;
        let late = Spread::of(warm.get(warm.len() - quarter..)?.iter().map(value))?;
        Some((early.median, late.median))
    }

    /// In words.
    #[must_use]
    pub fn text(&self) -> String {
        let pair = |name: &str, value: fn(&Sample) -> f64| match self.grown(value) {
            Some((early, late)) => format!("{name}: {early:.1} once warm, {late:.1} at the end\n"),
            None => format!("{name}: too short to say\n"),
        };
        let most = self.samples.iter().map(|sample| sample.log_mib).fold(0.0, f64::max);
        let (p50, p99) = self.p50_p99_us;
        format!(
            "{} governed writes in {:.0} s from {} callers: {:.0} per second, p50 {p50:.0} us, p99 {p99:.0} us\n\
             {}{}log: {most:.1} MiB at most\n{}; counts {}: {:?}; {} errors",
            self.writes,
            self.seconds,
            self.callers,
            float(self.writes) / self.seconds.max(0.001),
            pair("resident memory in MiB", |sample| sample.rss_mib),
            pair("open descriptors", |sample| float(sample.descriptors)),
            if self.flat() { "flat" } else { "NOT FLAT" },
            if self.counted.exact() { "exact" } else { "WRONG" },
            self.counted,
            self.errors
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(memory: impl Fn(u16) -> f64) -> Sustained {
        let sample = |number: u16| Sample {
            at_s: f64::from(number),
            rss_mib: memory(number),
            descriptors: 200,
            log_mib: 1.0,
            writes: u64::from(number),
        };
        Sustained {
            callers: 1,
            seconds: 100.0,
            writes: 100,
            p50_p99_us: (1.0, 2.0),
            samples: (0..100).map(sample).collect(),
            counted: Counted::default(),
            errors: 0,
        }
    }

    #[test]
    fn a_leak_is_not_flat_and_warming_up_is() {
        assert!(of(|number| if number < 15 { f64::from(number) } else { 30.0 }).flat());
        assert!(!of(|number| 20.0 + f64::from(number) / 10.0).flat());
    }
}
