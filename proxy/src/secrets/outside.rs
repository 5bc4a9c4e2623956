//! Files and commands that hold secrets. Neither is ours: a file may be a pipe that nobody writes to or a mount that
//! hangs, a command may print for ever or leave others behind. Each has a bound in time and in bytes.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncReadExt;
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use zeroize::Zeroizing;

use super::{SECRET_BYTES_MAX, SecretError};

/// A secret's command has this long to answer.
pub const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// A secret's file has this long to be read.
pub const FILE_TIMEOUT: Duration = Duration::from_secs(10);

/// Threads that read one file at a time: one that hangs keeps them, and leaves the others to everybody else.
const READERS_MAX: usize = 4;
/// The longest secret, its line end, and one byte more by which a longer one is known.
const READ_BYTES_MAX: u64 = SECRET_BYTES_MAX as u64 + 3;

/// Places for the readers of each file that is being read.
static READERS: LazyLock<Mutex<HashMap<PathBuf, Weak<Semaphore>>>> = LazyLock::new(Mutex::default);

/// What a regular file holds, as far as a secret goes.
pub(super) async fn file(name: &str, path: PathBuf, within: Duration) -> Result<String, SecretError> {
    let failed = |source| SecretError::File { name: name.to_owned(), source };
    let reading = async {
        let place = readers(&path).acquire_owned().await.map_err(io::Error::other)?;
        let read = tokio::task::spawn_blocking(move || {
            let text = read(&path);
            // With the thread, and not with whoever waits for it: one that hangs is counted for as long as it does.
            drop(place);
            text
        });
        read.await.map_err(io::Error::other)?
    };
    let late = |_| io::Error::new(io::ErrorKind::TimedOut, "it could not be read in time");
    timeout(within, reading).await.map_err(late).and_then(|read| read).map_err(failed)
}

fn readers(path: &Path) -> Arc<Semaphore> {
    let mut known = READERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(places) = known.get(path).and_then(Weak::upgrade) {
        return places;
    }
    known.retain(|_, places| places.strong_count() > 0);
    let places = Arc::new(Semaphore::new(READERS_MAX));
    known.insert(path.to_owned(), Arc::downgrade(&places));
    places
}

fn read(path: &Path) -> io::Result<String> {
    // Not waiting for whoever would write to a pipe; it makes no difference to a file.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    file.take(READ_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// What a command prints, as far as a secret goes. When it fails, takes too long or prints too much, it is killed with
/// everything that it has started.
pub(super) async fn command(
    name: &str,
    command: &[String],
    directory: &Path,
    within: Duration,
) -> Result<String, SecretError> {
    let failed = |why: &str| SecretError::Command { name: name.to_owned(), why: why.to_owned() };
    let unrun = |error: io::Error| failed(&format!("it could not be run ({})", error.kind()));
    let (program, arguments) = command.split_first().ok_or_else(|| failed("it is empty"))?;
    let child = Command::new(program)
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(unrun)?;
    let mut group = Group(child);
    let answer = async {
        let mut printed = Zeroizing::new(Vec::new());
        if let Some(stdout) = group.0.stdout.take() {
            stdout.take(READ_BYTES_MAX).read_to_end(&mut printed).await.map_err(unrun)?;
        }
        if printed.len() as u64 == READ_BYTES_MAX {
            return Err(failed("it printed more than a secret may have"));
        }
        let status = group.0.wait().await.map_err(unrun)?;
        if !status.success() {
            return Err(failed("it ended with a failure"));
        }
        Ok(printed)
    };
    let printed = timeout(within, answer).await.map_err(|_| failed("it did not answer in time"))??;
    String::from_utf8(printed.to_vec()).map_err(|_| failed("its output is not text"))
}

/// A command, first of a process group of its own. As long as it has not ended, it is killed with the whole group.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let first = self.0.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(first) = first
            && let Err(error) = kill_process_group(first, Signal::KILL)
        {
            tracing::warn!(%error, "what a secret's command has started could not be ended");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::*;

    const SOON: Duration = Duration::from_secs(10);

    async fn run(script: &str, folder: &Path, within: Duration) -> Result<String, String> {
        let words = ["sh", "-c", script].map(str::to_owned);
        command("K", &words, folder, within).await.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn what_a_command_prints_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let run = |script: &'static str| run(script, folder.path(), SOON);
        assert_eq!(run("printf secret").await.unwrap(), "secret");
        let longest = run("head -c 65536 /dev/zero | tr '\\0' x; echo").await.unwrap();
        assert_eq!(longest.len(), SECRET_BYTES_MAX + 1);
        let begun = Instant::now();
        assert!(run("yes").await.unwrap_err().contains("more than a secret may have"));
        assert!(begun.elapsed() < SOON, "it is not waited for");
        assert!(run("exit 3").await.unwrap_err().contains("ended with a failure"));
        assert!(run("printf '\\377'").await.unwrap_err().contains("not text"));
    }

    /// The shell starts another program, writes its number down, and waits for it.
    #[tokio::test]
    async fn what_a_command_has_started_ends_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let script = "sleep 300 & echo $! > started; wait";
        let within = Duration::from_millis(500);
        assert!(run(script, folder.path(), within).await.unwrap_err().contains("in time"));
        let started = fs::read_to_string(folder.path().join("started")).unwrap();
        let started = Pid::from_raw(started.trim().parse().unwrap()).unwrap();
        let until = Instant::now() + SOON;
        // Killed, it is a zombie until it is waited for by whoever took it over.
        let state = || fs::read_to_string(format!("/proc/{}/stat", started.as_raw_pid()));
        while state().is_ok_and(|stat| !stat.contains(") Z ")) {
            assert!(Instant::now() < until, "it still runs");
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn only_a_regular_file_is_read_and_not_more_than_a_secret_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let read = |name: &str| file("K", folder.path().join(name), SOON);
        fs::write(folder.path().join("k"), "secret\n").unwrap();
        assert_eq!(read("k").await.unwrap(), "secret\n");
        fs::write(folder.path().join("long"), vec![b'x'; 1 << 20]).unwrap();
        assert_eq!(read("long").await.unwrap().len() as u64, READ_BYTES_MAX);
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        for path in ["pipe", "/dev/zero", "."] {
            let told = read(path).await.map_err(|error| crate::cli::chain(&error)).unwrap_err();
            assert!(told.contains("not a regular file"), "{path}: {told}");
        }
    }

    /// Four wait for something that never comes, and others are told in time.
    #[tokio::test]
    async fn a_file_that_hangs_keeps_few_readers() {
        let path = Path::new("/hangs/for/this/test");
        let places = readers(path);
        let _held: Vec<_> =
            (0..READERS_MAX).map(|_| Arc::clone(&places).try_acquire_owned().unwrap()).collect();
        let told = file("K", path.to_owned(), Duration::from_millis(50)).await.unwrap_err();
        assert!(crate::cli::chain(&told).contains("in time"), "{told}");
    }
}
