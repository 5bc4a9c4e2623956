//! What the degraded suites share: a sidecar that is started through another program, and what its operator asks.

use std::process::{Command, Stdio};

use oncegate_tests::{
    binary::Build,
    sidecar::{Done, Home, Sidecar},
};
use rustix::process::{Pid, geteuid};

/// A command at the end of a shell script, which calls it as `"$@"`; `before` stands in front of the shell.
pub(crate) fn under(home: &Home, args: &[&str], before: &[&str], script: &str) -> Command {
    let sidecar = home.command(Build::Plain, args);
    let shell = ["sh", "-c", script, "sh"];
    let mut words = before.iter().chain(&shell);
    let mut command = Command::new(words.next().unwrap());
    command.args(words).arg(sidecar.get_program()).args(sidecar.get_args());
    command.env_clear().envs(sidecar.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.current_dir(home.dir()).stdin(Stdio::null());
    command
}

/// What makes a place of its own for mounts, where this user may have one.
pub(crate) fn mounts() -> Option<&'static [&'static str]> {
    const AS_ROOT: &[&str] = &["unshare", "--mount"];
    const AS_ANYBODY: &[&str] = &["unshare", "--map-root-user", "--mount"];
    let ways = if geteuid().is_root() { [AS_ROOT, AS_ANYBODY] } else { [AS_ANYBODY, AS_ANYBODY] };
    let works = |way: &&[&str]| {
        let mut tried = Command::new(way[0]);
        tried.args(&way[1..]).args(["sh", "-c", "mount -t tmpfs none /mnt"]);
        tried.output().is_ok_and(|done| done.status.success())
    };
    ways.into_iter().find(works)
}

pub(crate) fn pid(sidecar: &Sidecar) -> Option<Pid> {
    Pid::from_raw(i32::try_from(sidecar.pid()).unwrap())
}

/// What `oncegate ready` says of it.
pub(crate) fn ready(home: &Home, sidecar: &Sidecar) -> Done {
    sidecar.cli(home, "ops", &["ready"])
}
