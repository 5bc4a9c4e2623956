//! What the writer has done, for metrics. Counters only: nothing here decides anything, and reading them costs the
//! writer nothing.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::Store;
use crate::trouble::Trouble;

/// Upper bounds of the buckets of [`CommitTimes`]; above the last one everything is counted together.
pub const COMMIT_BOUNDS: [Duration; 10] = [
    Duration::from_micros(100),
    Duration::from_micros(250),
    Duration::from_micros(500),
    Duration::from_millis(1),
    Duration::from_micros(2_500),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(50),
    Duration::from_millis(250),
    Duration::from_secs(1),
];

/// The writer since the store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStats {
    /// Transactions that are durable.
    pub commits: u64,
    /// Transactions that could not be made durable; nothing of them is recorded.
    pub failed_commits: u64,
    /// Verbs in the durable transactions.
    pub jobs: u64,
    /// Verbs in the last transaction.
    pub last_batch: u64,
    /// Verbs that wait for the writer now.
    pub queue_depth: u64,
    /// From taking a batch until it is durable.
    pub commit_times: CommitTimes,
    /// Pages (4 KiB) in the write-ahead log after the last commit.
    pub log_pages: u64,
    /// Somebody reads a snapshot that is older than most of the log: the log cannot start over and grows until that
    /// read ends.
    pub log_held: bool,
    /// What kept the last transaction from being durable; `None` when it was, and nothing was found damaged before.
    pub trouble: Option<Trouble>,
}

/// How long transactions took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitTimes {
    /// How many took at most the bound of the same place in [`COMMIT_BOUNDS`] and longer than the one before; the
    /// last counts what took longer than all of them.
    pub buckets: [u64; COMMIT_BOUNDS.len() + 1],
    /// All of them together.
    pub sum: Duration,
    /// The longest.
    pub max: Duration,
}

impl Store {
    /// What the writer has done so far.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.inner.writer.stats()
    }
}

/// Written by the writer's thread; damage is told by readers as well.
#[derive(Default)]
pub(crate) struct Counters {
    commits: AtomicU64,
    failed_commits: AtomicU64,
    jobs: AtomicU64,
    last_batch: AtomicU64,
    buckets: [AtomicU64; COMMIT_BOUNDS.len() + 1],
    sum_us: AtomicU64,
    max_us: AtomicU64,
    pub(crate) log_pages: AtomicU64,
    pub(crate) log_held: AtomicBool,
    trouble: Mutex<Option<Trouble>>,
}

impl Counters {
    pub(crate) fn committed(&self, jobs: usize, took: Duration) {
        let jobs = u64::try_from(jobs).unwrap_or(u64::MAX);
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.jobs.fetch_add(jobs, Ordering::Relaxed);
        self.last_batch.store(jobs, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
        self.max_us.fetch_max(us, Ordering::Relaxed);
        let place = COMMIT_BOUNDS.iter().position(|bound| took <= *bound).unwrap_or(COMMIT_BOUNDS.len());
        if let Some(bucket) = self.buckets.get(place) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn failed(&self) {
        self.failed_commits.fetch_add(1, Ordering::Relaxed);
    }

    /// What the last transaction met, or the damage that a read did. A file that is damaged in one place may be written in others, and stays damaged.
    pub(crate) fn met(&self, met: Option<Trouble>) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if *trouble != Some(Trouble::Damaged) {
            *trouble = met;
        }
    }

    /// Whether the file was found damaged. It stays so until another process opens a good one.
    pub(crate) fn damaged(&self) -> bool {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) == Some(Trouble::Damaged)
    }

    pub(crate) fn read(&self, queue_depth: usize) -> StoreStats {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreStats {
            commits: load(&self.commits),
            failed_commits: load(&self.failed_commits),
            jobs: load(&self.jobs),
            last_batch: load(&self.last_batch),
            queue_depth: u64::try_from(queue_depth).unwrap_or(u64::MAX),
            commit_times: CommitTimes {
                buckets: std::array::from_fn(|place| self.buckets.get(place).map_or(0, load)),
                sum: Duration::from_micros(load(&self.sum_us)),
                max: Duration::from_micros(load(&self.max_us)),
            },
            log_pages: load(&self.log_pages),
            log_held: self.log_held.load(Ordering::Relaxed),
            trouble: *self.trouble.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_commit_is_in_one_bucket() {
        let counters = Counters::default();
        for us in [0, 100, 101, 5_000, 2_000_000] {
            counters.committed(2, Duration::from_micros(us));
        }
        let stats = counters.read(3);
        assert_eq!((stats.commits, stats.jobs, stats.last_batch, stats.queue_depth), (5, 10, 2, 3));
        assert_eq!(stats.commit_times.buckets, [2, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
        assert_eq!(stats.commit_times.sum, Duration::from_micros(2_005_201));
        assert_eq!(stats.commit_times.max, Duration::from_secs(2));
    }
}
