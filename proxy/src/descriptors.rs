//! Descriptors: how many the process may have, and what they are for. What could not be served is not taken in, so that
//! there is always one for the operator, the record and the log.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit is raised to this many, where it is lower and the system lets it. Commands that are started inherit it, and
/// some look at each number below it: so not to whatever the system would give.
const WANTED: u64 = 65_536;
/// For the database, the log, the listeners, names that are looked up, files that are read.
const HOUSE: u64 = 128;
/// Of a limit, the control listener and idle connections to providers have an eighth each, or less.
const SHARE: u64 = 8;
/// Connections to the control listener.
const CONTROL_MAX: u64 = 512;
/// Idle connections to providers.
const IDLE_MAX: u64 = 1024;
/// An agent's connection has its own, and one to a provider.
const EACH: u64 = 2;

/// What the descriptors are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// How many there may be; `None` where the system sets no limit.
    pub limit: Option<u64>,
    /// Connections of agents, at all ports together.
    pub agents: usize,
    /// Connections to the control listener.
    pub control: usize,
    /// Idle connections to providers.
    pub idle: usize,
}

impl Shares {
    /// Of the limit as it is when this is asked first.
    #[must_use]
    pub fn of_this_process() -> Self {
        static SHARES: OnceLock<Shares> = OnceLock::new();
        *SHARES.get_or_init(|| Self::of(getrlimit(Resource::Nofile).current))
    }

    fn of(limit: Option<u64>) -> Self {
        let part = limit.map_or(u64::MAX, |limit| limit / SHARE);
        let (control, idle) = (part.clamp(1, CONTROL_MAX), part.min(IDLE_MAX));
        let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(HOUSE + control + idle));
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Self { limit, agents: count((left / EACH).max(1)), control: count(control), idle: count(idle) }
    }
}

/// Raises the soft limit as far as it may be raised and is of use. Before anything asks for the shares.
pub fn raise() {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.map_or(WANTED, |maximum| maximum.min(WANTED));
    if current.is_none_or(|current| current >= wanted) {
        return;
    }
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum }) {
        tracing::warn!(%error, wanted, "the limit on descriptors could not be raised");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_open_at_a_time_fits_the_limit() {
        for (limit, agents, control, idle) in [
            (Some(0), 1, 1, 0),
            (Some(256), 32, 32, 32),
            (Some(1024), 320, 128, 128),
            (Some(65_536), 31_936, 512, 1024),
        ] {
            assert_eq!(Shares::of(limit), Shares { limit, agents, control, idle });
            if let Some(limit @ 256..) = limit {
                let all = HOUSE + (2 * agents + control + idle) as u64;
                assert!(all <= limit, "{all} of {limit}");
            }
        }
        let free = Shares::of(None);
        assert_eq!((free.control, free.idle), (512, 1024));
        assert!(free.agents > 1 << 30);
    }
}
