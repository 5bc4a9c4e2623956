//! The rig works, and counts exactly. No timing is looked at.

use std::path::Path;
use std::time::Duration;

use oncegate_bench::client::{Bounds, Kind};
use oncegate_bench::measure::{self, Plan};

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
    // Both numbers of callers, and what was weighed on disk.
    assert_eq!(counted.effects, 50 + 50 + 32);
    // The same on the direct way and through both floors.
    assert_eq!(counted.origin_writes, 4 * (50 + 50) + 32);
    for cell in &report.requests {
        assert_eq!(cell.requests, 50, "{} {:?} {}", cell.way, cell.kind, cell.callers);
    }
    let cells = |kind| report.requests.iter().filter(|cell| cell.kind == kind).count();
    assert_eq!((cells(Kind::Read), cells(Kind::Write)), (2 * 3, 2 * 4));
    assert!(!report.targets.is_empty());
}
