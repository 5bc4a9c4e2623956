//! The rig works, and counts exactly. No timing is looked at.

use std::path::Path;
use std::time::Duration;

use oncegate_bench::client::{Bounds, Kind};
use oncegate_bench::measure::{self, Plan, sustained};

fn tiny() -> Plan {
    Plan {
        rounds: 1,
        callers: vec![1, 10],
        cell: Bounds { time: Duration::from_secs(60), requests: 50 },
        connections: 5,
        tunnels: 10,
        settle: Duration::ZERO,
        disk_effects: 32,
        syncs: 3,
        ..Plan::short()
    }
}

#[tokio::test]
async fn every_end_counts_the_same() {
    let report = measure::run(Path::new(env!("CARGO_BIN_EXE_oncegate-bench")), &tiny()).await.unwrap();
    assert_eq!(report.errors, 0);
    let counted = &report.counted;
    assert!(counted.exact(), "{counted:?}");
    // Both numbers of callers, what was weighed on disk, and two of each that a slow provider was asked by.
    let slow = 2 * 64;
    assert_eq!(counted.effects, 50 + 50 + 32 + slow);
    // The same on the direct way and through both floors, but for what was weighed.
    assert_eq!(counted.origin_writes, 4 * (50 + 50) + 32 + 2 * slow);
    for cell in &report.requests {
        assert_eq!(cell.requests, 50, "{} {:?} {}", cell.way, cell.kind, cell.callers);
    }
    let cells = |kind| report.requests.iter().filter(|cell| cell.kind == kind).count();
    assert_eq!((cells(Kind::Read), cells(Kind::Write)), (2 * 3, 2 * 4));
    assert!(!report.targets.is_empty());
}

#[tokio::test]
async fn a_long_run_counts_what_it_has_written() {
    let program = Path::new(env!("CARGO_BIN_EXE_oncegate-bench"));
    let bounds = Bounds { time: Duration::from_secs(60), requests: 200 };
    let ended = sustained::run(program, &std::env::temp_dir(), 4, bounds).await.unwrap();
    assert_eq!((ended.writes, ended.counted.effects_succeeded, ended.errors), (200, 200, 0));
    assert!(ended.counted.exact(), "{:?}", ended.counted);
    assert!(!ended.samples.is_empty());
}
