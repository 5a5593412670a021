//! Eviction of the least recently used shards. Shards in use stay.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::BuildLock;
use super::folder::{CacheFolder, FileIdentity, ignore_missing, is_key};
use super::folder::{USED, USED_BYTES};
use crate::shard::{self, SHARD_FILE, Shard, ShardSize};
use pairloom_base::error::{Error, ErrorCategory, Result};

/// Shard of the cache.
#[derive(Debug)]
struct CachedShard {
    key: String,
    bytes: u64,
    /// Time of the last use, in seconds and nanoseconds of the file system's clock.
    used: (i64, i64),
}

/// Reserves `size` bytes for the shard of `build_lock`. Evicts shards so that all shards, including those under
/// construction, have at most `limit` bytes. Returns the number of evicted shards.
///
/// # Errors
/// Shards in use leave too little room; then nothing is evicted. Or `cancel` returned an error, or the folder was
/// removed or cannot be written.
pub(super) fn reserve(
    folder: &CacheFolder,
    build_lock: &BuildLock,
    size: ShardSize,
    limit: u64,
    cancel: &dyn Fn() -> Result<()>,
) -> Result<u64> {
    let _cache_lock = folder.lock_exclusive(cancel)?;
    remove_leftovers(folder)?;
    let mut entries = list_shards(folder)?;
    let unfinished_bytes =
        bytes_below(&folder.tmp()).map_err(|error| folder.io_error("look at", &folder.tmp(), &error))?;
    let mut used_bytes = unfinished_bytes + entries.iter().map(|entry| entry.bytes).sum::<u64>();
    entries.sort_by(|a, b| (a.used, &a.key).cmp(&(b.used, &b.key)));
    let needed = size.total() + USED_BYTES;
    let mut evicted = Vec::new();
    for entry in entries {
        if used_bytes + needed <= limit {
            break;
        }
        if let Some(lock) = try_lock_unused(folder, &entry.key)? {
            used_bytes -= entry.bytes;
            evicted.push((entry.key, lock));
        }
    }
    if used_bytes + needed > limit {
        return Err(Error::stage(format!(
            "a shard of {} bytes does not fit into the cache: {used_bytes} of {limit} bytes are in use in `{}`",
            size.total(),
            folder.path().display()
        ))
        .hint("raise `--cache-size`, or shuffle in (smaller) windows: `shuffle = { windows = N }`"));
    }
    for (key, _lock) in &evicted {
        remove(folder, key)?;
    }
    let path = build_lock.folder();
    std::fs::create_dir(path).map_err(|error| folder.io_error("make the folder", path, &error))?;
    shard::reserve(path, size)?;
    Ok(evicted.len() as u64)
}

/// Total size of all shards in bytes, including those under construction.
pub(super) fn total_bytes(folder: &CacheFolder) -> Result<u64> {
    let unfinished_bytes =
        bytes_below(&folder.tmp()).map_err(|error| folder.io_error("look at", &folder.tmp(), &error))?;
    Ok(unfinished_bytes + list_shards(folder)?.iter().map(|entry| entry.bytes).sum::<u64>())
}

/// Removes the shard of `key` if its Arrow file is still the file `damaged` (`None`: missing), and every other shard
/// that cannot be opened, for example after a power failure. Returns the number of the others.
pub(super) fn remove_damaged(folder: &CacheFolder, key: &str, damaged: Option<FileIdentity>) -> Result<usize> {
    let _cache_lock = folder.lock_exclusive(&|| Ok(()))?;
    let path = folder.shard(key).join(SHARD_FILE);
    let found = FileIdentity::at(&path).map_err(|error| folder.io_error("look at", &path, &error))?;
    if found == damaged && folder.shard(key).is_dir() {
        remove(folder, key)?;
    }
    let mut others = 0;
    for entry in list_shards(folder)? {
        if Shard::open(&folder.shard(&entry.key)).is_err_and(|error| error.category() == ErrorCategory::Data) {
            remove(folder, &entry.key)?;
            others += 1;
        }
    }
    Ok(others)
}

/// Removes the files of killed processes. The caller holds the lock of the cache.
pub(super) fn remove_leftovers(folder: &CacheFolder) -> Result<()> {
    super::remove_unfinished_builds(folder)?;
    let removed = folder.removed_shards();
    let failed = |error: io::Error| folder.io_error("remove", &removed, &error);
    for entry in std::fs::read_dir(&removed).map_err(failed)? {
        std::fs::remove_dir_all(entry.map_err(failed)?.path()).map_err(failed)?;
    }
    Ok(())
}

/// Removes the shard of `key` atomically. The caller holds the lock of the cache.
fn remove(folder: &CacheFolder, key: &str) -> Result<()> {
    let (path, gone) = (folder.shard(key), folder.removed_shards().join(key));
    let remove = || {
        ignore_missing(std::fs::remove_dir_all(&gone))?;
        std::fs::rename(&path, &gone)?;
        std::fs::remove_dir_all(&gone)
    };
    remove().map_err(|error| folder.io_error("remove", &path, &error))
}

/// Takes the exclusive lock of the shard of `key`; `None` if the shard is in use.
fn try_lock_unused(folder: &CacheFolder, key: &str) -> Result<Option<File>> {
    let path = folder.shard(key);
    // A shard without its Arrow file cannot be in use.
    let file = File::open(path.join(SHARD_FILE)).or_else(|_| File::open(&path));
    let file = file.map_err(|error| folder.io_error("open the shard", &path, &error))?;
    Ok(folder.is_lock_taken(&path, file.try_lock())?.then_some(file))
}

fn list_shards(folder: &CacheFolder) -> Result<Vec<CachedShard>> {
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
            entries.push(CachedShard { key, bytes: bytes_below(&found.path())?, used });
        }
        Ok(entries)
    };
    list().map_err(|error| folder.io_error("list", &shards, &error))
}

/// Total size in bytes of the files below a folder. Files that are removed meanwhile do not count.
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
