//! The rig works, and counts exactly. No timing is looked at.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use oncegate_bench::client::{Bounds, Kind};
use oncegate_bench::measure::{self, Part, Plan, sustained};

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
    assert!(report.text().contains("hudsucker is not built"), "{}", report.text());
}

#[tokio::test]
async fn another_product_is_counted_as_the_others_are() {
    let program = Path::new(env!("CARGO_BIN_EXE_oncegate-bench"));
    let dir = tempfile::tempdir().unwrap();
    let hudsucker = dir.path().join("hudsucker");
    symlink(program, dir.path().join("oncegate-bench")).unwrap();
    symlink(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stand-in.sh"), &hudsucker).unwrap();
    let parts = vec![Part::Requests, Part::Connections, Part::Idle];
    let plan = Plan { parts, callers: vec![2], hudsucker: Some(hudsucker), ..tiny() };
    let report = measure::run(program, &plan).await.unwrap();
    assert_eq!(report.errors, 0);
    assert!(report.counted.exact(), "{:?}", report.counted);
    let mut asked = report.requests.iter().filter(|cell| cell.way == "hudsucker");
    assert_eq!(asked.next().map(|cell| (cell.kind, cell.requests)), Some((Kind::Read, 50)));
    assert!(asked.next().is_none());
    let opened = report.connections.iter().filter(|one| one.way == "hudsucker");
    assert_eq!(opened.map(|one| one.connections).collect::<Vec<_>>(), [5, 5, 5]);
    assert!(report.idle.iter().any(|idle| idle.way == "hudsucker" && idle.rss_mib > 0.0));
    assert!(!report.text().contains("hudsucker is not built"), "{}", report.text());
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
