//! A proxy in a process of its own, so that its CPU time and memory can be told from everybody else's.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use crate::{During, Failure};

/// For a child to serve, and for it to end.
const CHILD_TIMEOUT: Duration = Duration::from_secs(30);
/// A clock tick in `/proc`, whatever the kernel counts in itself (`USER_HZ` is 100).
const TICK_US: u64 = 10_000;

/// A process of this same program in another role. It ends when its standard input does, so it cannot outlive us.
pub struct Child {
    /// Where it serves.
    pub addr: SocketAddr,
    /// When it was started.
    pub started: Instant,
    process: tokio::process::Child,
    pid: u32,
}

impl Child {
    /// Starts `program` with `arguments` and waits until it says that it serves. Its log goes to `log`.
    ///
    /// # Errors
    /// It could not be started, or ended or fell silent before it served.
    pub async fn start(
        program: &Path,
        arguments: &[&str],
        environment: &[(&str, &str)],
        log: &Path,
    ) -> Result<Self, Failure> {
        const STEP: &str = "start a child";
        let log = File::options().create(true).append(true).open(log).during(STEP)?;
        let started = Instant::now();
        let mut process = Command::new(program)
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .during(STEP)?;
        let pid = process.id().ok_or_else(|| Failure::new(STEP, "it has ended already"))?;
        let said = process.stdout.take().ok_or_else(|| Failure::new(STEP, "it has no output"))?;
        let mut line = String::new();
        let mut lines = BufReader::new(said);
        tokio::time::timeout(CHILD_TIMEOUT, lines.read_line(&mut line)).await.during(STEP)?.during(STEP)?;
        let addr = line
            .trim()
            .parse()
            .map_err(|_| Failure::new(STEP, format!("{arguments:?} did not serve: see its log")))?;
        Ok(Self { addr, started, process, pid })
    }

    /// CPU time of all its threads so far, ended ones too.
    ///
    /// # Errors
    /// It is gone, or the system does not tell.
    pub fn cpu(&self) -> Result<Duration, Failure> {
        cpu_of(&self.pid.to_string())
    }

    /// Resident memory, in KiB.
    ///
    /// # Errors
    /// It is gone, or the system does not tell.
    pub fn rss_kib(&self) -> Result<u64, Failure> {
        let status =
            fs::read_to_string(format!("/proc/{}/status", self.pid)).during("read a child's memory")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok())
            .ok_or_else(|| Failure::new("read a child's memory", "it cannot be read"))
    }

    /// Open descriptors.
    ///
    /// # Errors
    /// It is gone, or the system does not tell.
    pub fn descriptors(&self) -> Result<u64, Failure> {
        let open = fs::read_dir(format!("/proc/{}/fd", self.pid)).during("count a child's descriptors")?;
        Ok(open.count() as u64)
    }

    /// Lets it end by itself, and ends it if it does not.
    ///
    /// # Errors
    /// It did not end well.
    pub async fn stop(mut self) -> Result<(), Failure> {
        drop(self.process.stdin.take());
        match tokio::time::timeout(CHILD_TIMEOUT, self.process.wait()).await {
            Ok(ended) => {
                let status = ended.during("stop a child")?;
                if status.success() { Ok(()) } else { Err(Failure::new("stop a child", status)) }
            }
            Err(_) => {
                self.process.kill().await.during("stop a child")?;
                Err(Failure::new("stop a child", "it did not end in time"))
            }
        }
    }
}

/// User and system time of a process, by its number or as `self`.
///
/// # Errors
/// It is gone, or the system does not tell.
pub fn cpu_of(process: &str) -> Result<Duration, Failure> {
    const STEP: &str = "read the CPU time of a process";
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).during(STEP)?;
    let ticks = ticks(&stat).ok_or_else(|| Failure::new(STEP, "it cannot be read"))?;
    Ok(Duration::from_micros(ticks * TICK_US))
}

/// User and system time, in clock ticks: the 14th and 15th field. The 2nd may hold anything, in parentheses.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_found_behind_any_name() {
        let stat = "7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20 0 1";
        assert_eq!(ticks(stat), Some(42));
    }
}
