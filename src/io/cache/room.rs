//! Room for a shard: those that were not used for longest go first, those in use stay.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::claim::{self, Claim};
use super::folder::{Folder, Identity, ignore_missing, is_key, open_private};
use crate::error::{Error, Kind, Result};
use crate::io::shard::{self, SHARD, Shard, Size};

/// A file of a shard that is written when the shard is opened: its time is that of the last use.
const USED: &str = "used";

/// A shard of the cache.
#[derive(Debug)]
struct Entry {
    key: String,
    bytes: u64,
    /// When it was opened last, in seconds and nanoseconds of the disk's clock.
    used: (i64, i64),
}

/// Takes `size` bytes for the shard of `claim`, so that all shards, those being made included, have at most `limit`.
/// Returns how many shards had to go.
///
/// # Errors
/// What is in use leaves too little; then nothing is removed. What `cancel` says, the folder is gone or not writable.
pub(super) fn take(
    folder: &Folder,
    claim: &Claim,
    size: Size,
    limit: u64,
    cancel: &dyn Fn() -> Result<()>,
) -> Result<u64> {
    let _alone = folder.alone(cancel)?;
    sweep(folder)?;
    let mut entries = entries(folder)?;
    let making = bytes_below(&folder.tmp()).map_err(|error| folder.failed("look at", &folder.tmp(), &error))?;
    let mut held = making + entries.iter().map(|entry| entry.bytes).sum::<u64>();
    entries.sort_by(|a, b| (a.used, &a.key).cmp(&(b.used, &b.key)));
    let mut leaving = Vec::new();
    for entry in entries {
        if held + size.total() <= limit {
            break;
        }
        if let Some(lock) = unused(folder, &entry.key)? {
            held -= entry.bytes;
            leaving.push((entry.key, lock));
        }
    }
    if held + size.total() > limit {
        return Err(Error::stage(format!(
            "a shard of {} bytes does not fit into the cache: {held} of {limit} bytes are in use in `{}`",
            size.total(),
            folder.named().display()
        ))
        .hint("raise `--cache-size`, or shuffle in (smaller) windows: `order = { windows = N }`"));
    }
    for (key, _lock) in &leaving {
        remove(folder, key)?;
    }
    let path = claim.folder();
    std::fs::create_dir(path).map_err(|error| folder.failed("make the folder", path, &error))?;
    shard::reserve(path, size)?;
    Ok(leaving.len() as u64)
}

/// Bytes of all shards, those being made included.
pub(super) fn bytes(folder: &Folder) -> Result<u64> {
    let making = bytes_below(&folder.tmp()).map_err(|error| folder.failed("look at", &folder.tmp(), &error))?;
    Ok(making + entries(folder)?.iter().map(|entry| entry.bytes).sum::<u64>())
}

/// Notes that the shard in `path` is used now.
pub(super) fn touch(path: &Path) -> io::Result<()> {
    // A written byte sets the time: the disk's clock, which processes share.
    open_private(&path.join(USED), true)?.write_all(b"\n")
}

/// Removes the shard of `key` if its Arrow file is `damaged` (`None`: it has none), and every other shard that cannot
/// even be opened, such as after a power cut. Says how many others.
pub(super) fn remove_damaged(folder: &Folder, key: &str, damaged: Option<Identity>) -> Result<usize> {
    let _alone = folder.alone(&|| Ok(()))?;
    let path = folder.shard(key).join(SHARD);
    let found = Identity::at(&path).map_err(|error| folder.failed("look at", &path, &error))?;
    if found == damaged && folder.shard(key).is_dir() {
        remove(folder, key)?;
    }
    let mut others = 0;
    for entry in entries(folder)? {
        if Shard::open(&folder.shard(&entry.key)).is_err_and(|error| error.kind() == Kind::Data) {
            remove(folder, &entry.key)?;
            others += 1;
        }
    }
    Ok(others)
}

/// Removes what killed processes left behind. The caller holds the lock of the cache.
pub(super) fn sweep(folder: &Folder) -> Result<()> {
    claim::sweep(folder)?;
    let gone = folder.gone();
    let failed = |error: io::Error| folder.failed("remove", &gone, &error);
    for entry in std::fs::read_dir(&gone).map_err(failed)? {
        std::fs::remove_dir_all(entry.map_err(failed)?.path()).map_err(failed)?;
    }
    Ok(())
}

/// Removes the shard of `key`, which nobody sees half removed. The caller holds the lock of the cache.
fn remove(folder: &Folder, key: &str) -> Result<()> {
    let (path, gone) = (folder.shard(key), folder.gone().join(key));
    let remove = || {
        ignore_missing(std::fs::remove_dir_all(&gone))?;
        std::fs::rename(&path, &gone)?;
        std::fs::remove_dir_all(&gone)
    };
    remove().map_err(|error| folder.failed("remove", &path, &error))
}

/// The lock that nobody else uses the shard of `key`; `None` if somebody does.
fn unused(folder: &Folder, key: &str) -> Result<Option<File>> {
    let path = folder.shard(key);
    // One that lost its Arrow file is used by nobody.
    let file = File::open(path.join(SHARD)).or_else(|_| File::open(&path));
    let file = file.map_err(|error| folder.failed("open the shard", &path, &error))?;
    Ok(folder.locked(&path, file.try_lock())?.then_some(file))
}

fn entries(folder: &Folder) -> Result<Vec<Entry>> {
    let shards = folder.shards();
    let list = || {
        let mut entries = Vec::new();
        for found in std::fs::read_dir(&shards)? {
            let found = found?;
            let key = found.file_name().to_string_lossy().into_owned();
            if !is_key(&key) {
                continue;
            }
            let used = match std::fs::metadata(found.path().join(USED)) {
                Ok(file) => (file.mtime(), file.mtime_nsec()),
                Err(error) if error.kind() == ErrorKind::NotFound => (0, 0),
                Err(error) => return Err(error),
            };
            entries.push(Entry { key, bytes: bytes_below(&found.path())?, used });
        }
        Ok(entries)
    };
    list().map_err(|error| folder.failed("list", &shards, &error))
}

/// Bytes of the files in a folder and in its folders. What is removed meanwhile counts nothing.
fn bytes_below(folder: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    let listed = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        listed => listed?,
    };
    for entry in listed {
        let entry = entry?;
        match entry.metadata() {
            Ok(found) if found.is_dir() => bytes += bytes_below(&entry.path())?,
            Ok(found) => bytes += found.len(),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}
