//! Shard cache: a folder of shards for random access, kept between runs, shared by processes, bounded in size (LRU).
//!
//! ```text
//! <folder>/v1/shards/<key>/{shard.arrow, sums, used}   shards; the time of `used` is that of the last use
//! <folder>/v1/tmp/<key>/                               shard under construction, moved to `shards` by one rename
//! <folder>/v1/tmp/<key>.lock                           build lock of the shard
//! <folder>/v1/gone/<key>/                              shard that is being removed
//! <folder>/v1/lock                                     lock for evictions
//! ```
//!
//! Locks are file locks of the operating system (`flock`), released when a process ends. There are three kinds, taken
//! in this order:
//!
//! - The build lock of a key: one builder at a time. The holder unlinks the file, so after locking it a process checks
//!   that the file at the path is still the one it locked, and otherwise starts again.
//! - The lock of the cache: one process at a time evicts and removes shards.
//! - `shard.arrow`: a shared lock while the shard is open, an exclusive one to evict it. So shards in use stay.
//!
//! A damaged shard is removed even while it is in use; processes that have it mapped keep their mapping. A shard from before
//! the last boot is read whole when it is first opened; if a power cut damaged it, it is removed and built again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use arrow::array::RecordBatch;

use self::folder::{CacheFolder, FileIdentity, ignore_missing, is_key, is_of_this_boot, open_private, set_used_now};
use crate::shard::{self, SHARD_FILE, Shard};
use pairloom_base::error::{Error, ErrorCategory, Result};

mod folder;
mod eviction;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod process_tests;
#[cfg(test)]
mod state_machine_tests;

/// Cache of shards in a folder, shared by all threads and processes of a user. Clones share one state.
#[derive(Debug, Clone)]
pub struct ShardCache {
    inner: Arc<CacheState>,
}

#[derive(Debug)]
struct CacheState {
    folder: CacheFolder,
    limit: u64,
    key_states: Mutex<BTreeMap<String, Arc<KeyState>>>,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
}

/// State of a key in this process.
#[derive(Debug, Default)]
struct KeyState {
    /// Open shard, as long as it is in use, so that it is mapped once. Locked while it is opened.
    open: Mutex<Weak<Shard>>,
    /// Locked while the shard is built.
    build: Mutex<()>,
}

/// Size of a cache, and its hits, misses and evictions in this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Total size of all shards in bytes, including those under construction.
    pub bytes: u64,
    /// Number of shards that were found.
    pub hits: u64,
    /// Number of shards that were built.
    pub misses: u64,
    /// Number of shards that were evicted.
    pub evictions: u64,
}

impl ShardCache {
    /// Opens the cache in `folder`, of at most `limit` bytes. A missing folder is created, accessible to this user
    /// only. Files of killed processes are removed.
    ///
    /// # Errors
    /// The folder is a file, cannot be written, or belongs to another user.
    pub fn open(folder: &Path, limit: u64) -> Result<Self> {
        let folder = CacheFolder::open(folder)?;
        // The holder of the lock removes such files too.
        if let Some(_cache_lock) = folder.try_lock_exclusive()? {
            eviction::remove_leftovers(&folder)?;
        }
        let [hits, misses, evictions] = std::array::from_fn(|_| AtomicU64::new(0));
        let inner = CacheState { folder, limit, key_states: Mutex::default(), hits, misses, evictions };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the shard of `key`; `None` if it is missing or under construction.
    ///
    /// # Errors
    /// The shard was damaged since the machine was started (then it is removed), or the folder of the cache was removed.
    pub fn get(&self, key: &str) -> Result<Option<Arc<Shard>>> {
        let state = self.key_state(key)?;
        let found = self.open_existing(key, &state, &|| Ok(()))?;
        self.inner.hits.fetch_add(u64::from(found.is_some()), Ordering::Relaxed);
        Ok(found)
    }

    /// Returns the shard of `key`, and builds it if it is missing. The key identifies the content of the shard: 16 to
    /// 128 lower-case hexadecimal digits.
    ///
    /// `make` gives the content of a missing shard. While one thread of one process builds it, others wait, and call
    /// `cancel` regularly. `make` may get other shards, as long as none of them depends on this one.
    ///
    /// # Errors
    /// `make` or `cancel` returned an error. Or the shard is damaged (then it is removed, and the next call builds it
    /// again), the folder of the cache was removed or cannot be written, the disk is full, or shards in use leave too
    /// little room.
    pub fn get_or_make(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<RecordBatch>,
        cancel: &dyn Fn() -> Result<()>,
    ) -> Result<Arc<Shard>> {
        let CacheState { folder, .. } = &*self.inner;
        let state = self.key_state(key)?;
        if let Some(shard) = self.open_existing(key, &state, cancel)? {
            self.inner.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(shard);
        }
        let _thread = loop {
            match state.build.try_lock() {
                Ok(guard) => break guard,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => folder.sleep(cancel)?,
            }
        };
        let build_lock = loop {
            if let Some(build_lock) = BuildLock::try_acquire(folder, key)? {
                break build_lock;
            }
            folder.sleep(cancel)?;
        };
        // Another thread or process may have built it meanwhile.
        if let Some(shard) = self.open_existing(key, &state, cancel)? {
            self.inner.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(shard);
        }
        cancel()?;
        let batch = make()?;
        let _kept = self.publish(key, &build_lock, &batch, cancel)?;
        drop(batch);
        self.inner.misses.fetch_add(1, Ordering::Relaxed);
        self.open_existing(key, &state, cancel)?.ok_or_else(|| folder.removed_error())
    }

    /// Statistics of the cache. Cost: reads the metadata of every file in the folder.
    ///
    /// # Errors
    /// The folder of the cache was removed.
    pub fn statistics(&self) -> Result<CacheStatistics> {
        let CacheState { folder, hits, misses, evictions, .. } = &*self.inner;
        folder.check_not_removed()?;
        let [hits, misses, evictions] = [hits, misses, evictions].map(|count| count.load(Ordering::Relaxed));
        Ok(CacheStatistics { bytes: eviction::total_bytes(folder)?, hits, misses, evictions })
    }

    /// Folder of the cache.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.inner.folder.path()
    }

    fn key_state(&self, key: &str) -> Result<Arc<KeyState>> {
        if !is_key(key) {
            return Err(Error::internal(format!("key `{key}` of a shard, expected 16 to 128 hexadecimal digits")));
        }
        self.inner.folder.check_not_removed()?;
        let mut key_states = lock(&self.inner.key_states);
        if !key_states.contains_key(key) {
            // Drops the state of shards that are no longer in use.
            key_states.retain(|_, state| Arc::strong_count(state) > 1 || lock(&state.open).strong_count() > 0);
        }
        Ok(key_states.entry(key.to_owned()).or_default().clone())
    }

    /// Opens the shard if it is in the folder, with a shared lock so that it is not evicted.
    fn open_existing(
        &self,
        key: &str,
        state: &KeyState,
        cancel: &dyn Fn() -> Result<()>,
    ) -> Result<Option<Arc<Shard>>> {
        let mut open = lock(&state.open);
        if let Some(shard) = open.upgrade() {
            return Ok(Some(shard));
        }
        let cache = &self.inner.folder;
        let (folder, path) = (cache.shard(key), cache.shard(key).join(SHARD_FILE));
        let failed = |doing: &str, error: std::io::Error| cache.io_error(doing, &path, &error);
        // Decided before the shard is opened: another process may replace it by one of this boot meanwhile.
        let mut is_old;
        let (file, identity) = loop {
            is_old = !is_of_this_boot(&folder);
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    // A folder appears together with its files, possibly just now.
                    if !folder.is_dir() || path.exists() {
                        return Ok(None);
                    }
                    if is_old {
                        eviction::remove_damaged(cache, key, None)?;
                        return Ok(None);
                    }
                    return Err(self.damage_error(key, None, Error::io("open the shard", &path, &error)));
                }
                Err(error) => return Err(failed("open the shard", error)),
            };
            // An exclusive lock is held during eviction. The file may have been removed between our open and our lock.
            if !cache.is_lock_taken(&path, file.try_lock_shared())? {
                cache.sleep(cancel)?;
                continue;
            }
            let identity = FileIdentity::of(&file).map_err(|error| failed("look at", error))?;
            if FileIdentity::at(&path).map_err(|error| failed("look at", error))? == Some(identity) {
                break (file, identity);
            }
        };
        let whole = |shard: Shard| if is_old { shard.verify_while(cancel).map(|()| shard) } else { Ok(shard) };
        let mut shard = match Shard::from_file(file, &folder).and_then(whole) {
            Ok(shard) => shard,
            Err(error) if error.category() == ErrorCategory::Data && is_old => {
                // A shard that was built meanwhile is another file, and stays.
                eviction::remove_damaged(cache, key, Some(identity))?;
                return Ok(None);
            }
            Err(error) if error.category() == ErrorCategory::Data => {
                return Err(self.damage_error(key, Some(identity), error));
            }
            Err(error) => return Err(error),
        };
        match set_used_now(&folder) {
            // Another process has just removed it as damaged.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            touched => touched.map_err(|error| failed("note the use of", error))?,
        }
        let (this, owned) = (self.clone(), key.to_owned());
        shard.set_damage_handler(Box::new(move || this.remove(&owned, identity)));
        let shard = Arc::new(shard);
        *open = Arc::downgrade(&shard);
        Ok(Some(shard))
    }

    /// Writes the shard and moves it into the cache. It is not evicted while the returned file is open.
    fn publish(
        &self,
        key: &str,
        build_lock: &BuildLock,
        batch: &RecordBatch,
        cancel: &dyn Fn() -> Result<()>,
    ) -> Result<File> {
        let CacheState { folder, limit, evictions, .. } = &*self.inner;
        let evicted = eviction::reserve(folder, build_lock, shard::size(batch)?, *limit, cancel)?;
        evictions.fetch_add(evicted, Ordering::Relaxed);
        let (from, to) = (build_lock.folder(), folder.shard(key));
        shard::write(from, batch).map_err(|error| folder.check_not_removed().err().unwrap_or(error))?;
        let path = from.join(SHARD_FILE);
        let failed = |error: std::io::Error| folder.io_error("keep the shard", &to, &error);
        set_used_now(from).map_err(failed)?;
        let file = File::open(&path).map_err(failed)?;
        folder.is_lock_taken(&path, file.try_lock_shared())?;
        std::fs::rename(from, &to).map_err(failed)?;
        Ok(file)
    }

    /// Removes a shard that cannot be opened, and returns the error with a hint.
    fn damage_error(&self, key: &str, found: Option<FileIdentity>, error: Error) -> Error {
        let kind = error.category();
        let message = error.to_string();
        let hint = match eviction::remove_damaged(&self.inner.folder, key, found) {
            Ok(0) => "the shard was removed: run the same command again, which builds it again".to_owned(),
            Ok(others) => format!(
                "it was removed, as were {others} other damaged shards: run the same command again, which builds them \
                 again"
            ),
            Err(problem) => format!("remove its folder and run the same command again ({problem})"),
        };
        Error::new(kind, message).hint(hint)
    }

    /// Removes a shard in which damage was found.
    fn remove(&self, key: &str, identity: FileIdentity) -> Result<()> {
        if let Some(state) = lock(&self.inner.key_states).get(key).cloned() {
            *lock(&state.open) = Weak::new();
        }
        eviction::remove_damaged(&self.inner.folder, key, Some(identity)).map(drop)
    }
}

/// Locks a mutex, ignoring poisoning: a panic cannot leave the data behind these locks inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Exclusive right to build the shard of a key. Drop releases it and removes what was not published.
#[derive(Debug)]
struct BuildLock {
    lock: PathBuf,
    folder: PathBuf,
    held: File,
}

impl BuildLock {
    /// Takes the build lock of `key`; `None` if it is held elsewhere. Removes the files of a builder that was killed.
    pub fn try_acquire(folder: &CacheFolder, key: &str) -> Result<Option<Self>> {
        let lock = folder.tmp().join(format!("{key}.lock"));
        let failed = |error: std::io::Error| folder.io_error("open the lock", &lock, &error);
        loop {
            folder.check_not_removed()?;
            let file = open_private(&lock, true).map_err(failed)?;
            if !folder.is_lock_taken(&lock, file.try_lock())? {
                return Ok(None);
            }
            // The last holder may have unlinked the file between our open and our lock; then others lock another file.
            if FileIdentity::at(&lock).map_err(failed)? != Some(FileIdentity::of(&file).map_err(failed)?) {
                continue;
            }
            let build_lock = Self { folder: folder.tmp().join(key), lock, held: file };
            ignore_missing(std::fs::remove_dir_all(&build_lock.folder))
                .map_err(|error| folder.io_error("remove", &build_lock.folder, &error))?;
            return Ok(Some(build_lock));
        }
    }

    /// Folder to build the shard in. Not created yet.
    pub fn folder(&self) -> &PathBuf {
        &self.folder
    }
}

impl Drop for BuildLock {
    fn drop(&mut self) {
        // Files that cannot be removed now are removed by the next sweep. The lock is unlinked while it is held. If the
        // cache was removed, another cache may be in its place, which is left alone.
        if let (Ok(held), Ok(Some(found))) = (FileIdentity::of(&self.held), FileIdentity::at(&self.lock))
            && held == found
        {
            let _ = std::fs::remove_dir_all(&self.folder);
            let _ = std::fs::remove_file(&self.lock);
        }
    }
}

/// Removes the files of builders that were killed.
fn remove_unfinished_builds(folder: &CacheFolder) -> Result<()> {
    let tmp = folder.tmp();
    let failed = |error: std::io::Error| folder.io_error("list", &tmp, &error);
    for entry in std::fs::read_dir(&tmp).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let name = name.to_string_lossy();
        let key = name.strip_suffix(".lock").unwrap_or(&name);
        if is_key(key) {
            drop(BuildLock::try_acquire(folder, key)?);
        }
    }
    Ok(())
}
