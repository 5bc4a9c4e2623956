//! One sidecar per database, by whatever name the file is reached: a link, a second directory entry, a mount of its own.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::OpenError;

/// The database's own name, whatever links were followed to it: everything that is kept beside it is named after this.
/// One that is not there yet is named by the folder that it would be made in; what cannot be told stays as it was given.
#[must_use]
pub fn own_name(path: &Path) -> PathBuf {
    if let Ok(own) = path.canonicalize() {
        return own;
    }
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => folder.join(name),
        (Ok(_) | Err(_), _) => path.to_owned(),
    }
}

/// Held for life. The operating system gives it up when the process ends, however it ends.
///
/// One file beside the database, so that its readers are never locked out; and, where that disturbs nobody, the database
/// itself, which has one lock whatever it is called.
///
/// Given up by name, and not by closing the files alone: a program that another thread is starting at this instant has
/// inherited them, and would hold the locks until it runs.
pub struct Lock {
    beside: File,
    database: Option<File>,
}

impl Lock {
    /// Of the database at `path`, for [`crate::Store::open_locked`]. `None` where there is none yet: nobody runs on that.
    ///
    /// # Errors
    /// Another sidecar runs on it, or the file cannot be locked.
    pub fn take(path: &Path) -> Result<Option<Self>, OpenError> {
        path.exists().then(|| Self::of(&own_name(path))).transpose()
    }

    /// Of a database that is there, by its own name.
    pub(crate) fn of(path: &Path) -> Result<Self, OpenError> {
        let mut name = path.as_os_str().to_owned();
        name.push("-lock");
        let name = PathBuf::from(name);
        let failed = |step, path: &Path| {
            let path = path.to_owned();
            move |source| OpenError::File { step, path, source }
        };
        let beside = private().create(true).open(&name).map_err(failed("create", &name))?;
        let taken = |file: &File, named: &Path| match file.try_lock() {
            Ok(()) => Ok(()),
            Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.to_owned() }),
            Err(TryLockError::Error(source)) => Err(failed("lock", named)(source)),
        };
        taken(&beside, &name)?;
        let mut lock = Self { beside, database: None };
        let database = private().open(path).map_err(failed("open", path))?;
        if has_locks_of_two_kinds(&database).map_err(failed("examine", path))? {
            taken(&database, path)?;
            lock.database = Some(database);
        }
        Ok(lock)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        for file in self.database.iter().chain([&self.beside]) {
            if let Err(error) = file.unlock() {
                tracing::warn!(%error, "the lock of the database is given up when its last holder ends");
            }
        }
    }
}

/// Whether a lock of the whole file is another thing than the locks that SQLite takes on its bytes: on Linux, unless the
/// file system makes the one out of the other, as those of a network do.
///
/// The file stays open for as long as the store lives. To close it gives up what SQLite has locked in this process
/// (POSIX: with any descriptor of a file all its locks go), and so it is opened before SQLite and closed after it.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
fn has_locks_of_two_kinds(file: &File) -> io::Result<bool> {
    /// The numbers of NFS, SMB, CIFS and SMB 2 in linux/magic.h.
    const NETWORKS: [rustix::fs::FsWord; 4] = [rustix::fs::NFS_SUPER_MAGIC, 0x517B, 0xFF53_4D42, 0xFE53_4D42];
    Ok(!NETWORKS.contains(&rustix::fs::fstatfs(file)?.f_type))
}

/// Elsewhere the two may be one, and then nobody could read.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
fn has_locks_of_two_kinds(_: &File) -> io::Result<bool> {
    Ok(false)
}

/// Makes the database where there is none, and says whether there was none. One that is there is not opened for it: another store of this process may
/// have its locks on it.
///
/// By us and before SQLite opens it, so that it is never readable for others, even for an instant; SQLite gives its log
/// the same mode.
pub(crate) fn create(path: &Path) -> Result<bool, OpenError> {
    if path.exists() {
        return Ok(false);
    }
    let made = private().create(true).open(path).map(|_| true);
    made.map_err(|source| OpenError::File { step: "create", path: path.to_owned(), source })
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn database() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("once.db");
        create(&path).unwrap();
        (folder, path)
    }

    /// As a program has that is being started by another thread just then.
    #[test]
    fn a_lock_that_was_inherited_outlives_nobody() {
        let (_folder, path) = database();
        let lock = Lock::of(&path).unwrap();
        let inherited = lock.beside.try_clone().unwrap();
        assert!(matches!(Lock::of(&path), Err(OpenError::Locked { .. })));
        drop(lock);
        assert!(Lock::of(&path).is_ok());
        drop(inherited);
    }

    #[test]
    fn a_database_has_one_name_of_its_own() {
        let (folder, path) = database();
        let link = folder.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!((own_name(&link), own_name(&path)), (path.clone(), path.clone()));
        // Not there yet, and reached through a folder that is a link.
        let other = folder.path().join("other");
        std::os::unix::fs::symlink(folder.path(), &other).unwrap();
        assert_eq!(own_name(&other.join("new.db")), path.with_file_name("new.db"));
        let nowhere = Path::new("/no-such-folder/once.db");
        assert_eq!(own_name(nowhere), nowhere);
    }
}
