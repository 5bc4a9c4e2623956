//! No core is written of a sidecar that crashes: the credentials are in its memory.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, Command},
};

use oncegate_tests::{canary::below, conf::PLANTED, wait::until};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};

use crate::shop::{REFUND, Shop};

/// Lets a process write as large a core as the system lets it.
fn allow_core(pid: Pid) -> bool {
    let most = getrlimit(Resource::Core).maximum;
    prlimit(Some(pid), Resource::Core, Rlimit { current: most, maximum: most }).unwrap();
    most != Some(0)
}

/// Another program with a secret in its memory, and what becomes of it here. Says whether its core was written.
fn careless(dir: &Path) -> bool {
    let mut child: Child =
        Command::new("sleep").arg("600").env("SECRET", PLANTED).current_dir(dir).spawn().unwrap();
    let pid = Pid::from_child(&child);
    let allowed = allow_core(pid);
    kill_process(pid, Signal::ABORT).unwrap();
    let status = until("it to end", || child.try_wait().unwrap());
    assert_eq!(status.core_dumped(), allowed, "{status}: so that the test can fail");
    allowed
}

/// Whether the tests were started with it ignored, as a shell does with what it runs in the background: then their
/// sidecars ignore it too.
fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    u64::from_str_radix(ignored, 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
}

#[test]
fn a_crash_leaves_no_core() {
    let aside = tempfile::TempDir::new().unwrap();
    let pattern = fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap();
    if careless(aside.path()) && !pattern.starts_with(['|', '/']) {
        let (hits, _) = below(aside.path(), &BTreeSet::new());
        assert!(hits.iter().any(|(_, hit)| hit.encoding == "it is"), "the search reads cores");
    }
    for signal in [Signal::ABORT, Signal::ILL, Signal::QUIT].into_iter().filter(|signal| !is_ignored(*signal))
    {
        let shop = Shop::open();
        let sidecar = shop.home.serve();
        assert_eq!(sidecar.billing().refund(None, REFUND).status, 200);
        allow_core(Pid::from_raw(i32::try_from(sidecar.pid()).unwrap()).unwrap());
        // Its folder, in which a core would lie, is looked through when it ends.
        let status = sidecar.struck(signal);
        assert_eq!((status.signal(), status.core_dumped()), (Some(signal.as_raw()), false), "{status}");
    }
}
