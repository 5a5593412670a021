//! The folder of a cache: whose it is, whether it is still there, and its lock.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};

/// How long to sleep between two looks at a lock that another process or thread holds.
const PAUSE: Duration = Duration::from_millis(5);
/// `EMFILE` of Linux and macOS: more files are open than the process may have.
const TOO_MANY_FILES: i32 = 24;

/// A folder that is laid out as a cache.
#[derive(Debug)]
pub(super) struct Folder {
    /// The folder that was asked for.
    named: PathBuf,
    /// The version below it.
    root: PathBuf,
    /// The file of the lock when the cache was opened: another one at its path means another cache.
    lock: Identity,
    /// Open, so that no other file can become the same.
    _lock: File,
}

/// A file, whatever its name is now. Disks give the number of a file that is gone and not open any more to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub fn of(file: &File) -> io::Result<Self> {
        file.metadata().map(|found| Self { device: found.dev(), inode: found.ino() })
    }

    /// The file at `path`; `None` if there is none.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        match std::fs::metadata(path) {
            Ok(found) => Ok(Some(Self { device: found.dev(), inode: found.ino() })),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Folder {
    /// The cache in `named`, which is made, for this user alone, if it is not there.
    pub fn open(named: &Path) -> Result<Self> {
        let elsewhere = "choose another folder with `--cache`";
        let failed = |path: &Path, error: &io::Error| Error::io("make the cache folder", path, error).hint(elsewhere);
        let make = |path: &Path| {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(path);
            made.map_err(|error| failed(path, &error))
        };
        make(named)?;
        let named = named.canonicalize().map_err(|error| failed(named, &error))?;
        let root = named.join("v1");
        let user = user(&named).map_err(|error| failed(&named, &error))?;
        for path in [&named, &root] {
            if path == &root {
                make(path)?;
            }
            let owner = path.metadata().map_err(|error| failed(path, &error))?.uid();
            if owner != user {
                let message = format!("cache folder belongs to user {owner}, wanted {user}: `{}`", path.display());
                return Err(Error::data(message).hint(elsewhere));
            }
        }
        for name in ["shards", "tmp", "gone"] {
            make(&root.join(name))?;
        }
        let path = root.join("lock");
        let file = open_private(&path, true).map_err(|error| failed(&path, &error))?;
        let lock = Identity::of(&file).map_err(|error| failed(&path, &error))?;
        Ok(Self { named, root, lock, _lock: file })
    }

    /// The folder that was asked for.
    pub fn named(&self) -> &Path {
        &self.named
    }

    /// Where the shard of a key is.
    pub fn shard(&self, key: &str) -> PathBuf {
        self.shards().join(key)
    }

    pub fn shards(&self) -> PathBuf {
        self.root.join("shards")
    }

    pub fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub fn gone(&self) -> PathBuf {
        self.root.join("gone")
    }

    /// That the folder is the one that was opened.
    ///
    /// # Errors
    /// It was removed, or another one is in its place.
    pub fn alive(&self) -> Result<()> {
        match Identity::at(&self.root.join("lock")) {
            Ok(Some(found)) if found == self.lock => Ok(()),
            Ok(_) => Err(self.vanished()),
            Err(error) => Err(Error::io("look for", &self.root.join("lock"), &error)),
        }
    }

    /// The error of a folder that is not there any more.
    pub fn vanished(&self) -> Error {
        Error::data(format!("the shard cache was removed while it was in use: `{}`", self.named.display()))
            .hint("run the same command again: what is missing is made anew")
    }

    /// The error of an operation that fails on nothing but a full disk, a wrong permission, or a removed folder.
    pub fn failed(&self, doing: &str, path: &Path, error: &io::Error) -> Error {
        if error.kind() == ErrorKind::NotFound {
            return self.vanished();
        }
        let failed = Error::io(doing, path, error);
        if error.raw_os_error() == Some(TOO_MANY_FILES) {
            return failed.hint("each open shard is an open file: raise `ulimit -n`, or shuffle in smaller windows");
        }
        failed
    }

    /// The lock of the cache, given back on drop.
    ///
    /// # Errors
    /// What `cancel` says, or the folder is gone.
    pub fn alone(&self, cancel: &dyn Fn() -> Result<()>) -> Result<File> {
        loop {
            if let Some(lock) = self.try_alone()? {
                return Ok(lock);
            }
            self.wait(cancel)?;
        }
    }

    /// The lock of the cache, if nobody has it.
    pub fn try_alone(&self) -> Result<Option<File>> {
        let path = self.root.join("lock");
        let file = open_private(&path, false).map_err(|error| self.failed("open the lock", &path, &error))?;
        let locked = self.locked(&path, file.try_lock())?;
        self.alive()?;
        Ok(locked.then_some(file))
    }

    /// Waits for others a moment.
    pub fn wait(&self, cancel: &dyn Fn() -> Result<()>) -> Result<()> {
        cancel()?;
        self.alive()?;
        std::thread::sleep(PAUSE);
        Ok(())
    }

    /// Whether a lock was got.
    pub fn locked(&self, path: &Path, got: Result<(), TryLockError>) -> Result<bool> {
        match got {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(self
                .failed("lock", path, &error)
                .hint("locks are wanted, which some network disks lack: choose a local folder with `--cache`")),
        }
    }
}

/// A file of this user alone, as it is if it is there.
pub(super) fn open_private(path: &Path, create: bool) -> io::Result<File> {
    OpenOptions::new().create(create).truncate(false).write(true).mode(0o600).open(path)
}

/// Who this process is, by what it makes: the standard library does not tell.
fn user(folder: &Path) -> io::Result<u32> {
    let path = folder.join(".owner");
    loop {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                let user = file.metadata()?.uid();
                // Another process of the user may have removed it.
                ignore_missing(std::fs::remove_file(&path))?;
                return Ok(user);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => ignore_missing(std::fs::remove_file(&path))?,
            Err(error) => return Err(error),
        }
    }
}

/// What is to be removed may be gone already.
pub(super) fn ignore_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Whether a file may have this name: nothing else in the folder is looked at.
pub(super) fn is_key(name: &str) -> bool {
    (16..=128).contains(&name.len()) && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
