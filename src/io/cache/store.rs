//! Getting and making shards.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

use arrow::array::RecordBatch;

use super::claim::Claim;
use super::folder::{Folder, Identity, is_key};
use super::room;
use crate::error::{Error, Kind, Result};
use crate::io::shard::{self, SHARD, Shard};

/// Shards in a folder, for all threads and processes of a user. A clone is the same cache.
#[derive(Debug, Clone)]
pub struct Cache {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: Folder,
    limit: u64,
    slots: Mutex<BTreeMap<String, Arc<Slot>>>,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
}

/// What this process has of a key.
#[derive(Debug, Default)]
struct Slot {
    /// The shard as long as somebody uses it, so that it is mapped once. Locked while it is opened.
    open: Mutex<Weak<Shard>>,
    /// Locked while it is made.
    making: Mutex<()>,
}

/// What a cache holds, and what it did for this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    /// Bytes of all shards in the folder, those being made included.
    pub bytes: u64,
    /// Shards that were there when they were asked for.
    pub hits: u64,
    /// Shards that were made.
    pub misses: u64,
    /// Shards that were removed to make room.
    pub evictions: u64,
}

impl Cache {
    /// The cache in `folder`, of at most `limit` bytes. The folder is made, for this user alone, if it is not there; what
    /// killed processes left in it is removed.
    ///
    /// # Errors
    /// The folder is a file, cannot be written, or belongs to another user.
    pub fn open(folder: &Path, limit: u64) -> Result<Self> {
        let folder = Folder::open(folder)?;
        // Whoever has the lock sweeps too.
        if let Some(_alone) = folder.try_alone()? {
            room::sweep(&folder)?;
        }
        let [hits, misses, evictions] = std::array::from_fn(|_| AtomicU64::new(0));
        let inner = Inner { folder, limit, slots: Mutex::default(), hits, misses, evictions };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The shard of `key`; `None` if there is none, or it is still being made.
    ///
    /// # Errors
    /// The shard is damaged (then it is removed), or the folder of the cache is gone.
    pub fn get(&self, key: &str) -> Result<Option<Arc<Shard>>> {
        let slot = self.slot(key)?;
        let found = self.find(key, &slot, &|| Ok(()))?;
        self.inner.hits.fetch_add(u64::from(found.is_some()), Ordering::Relaxed);
        Ok(found)
    }

    /// The shard of `key`, which says what the shard is made from and how: lower-case hexadecimal digits, 16 to 128.
    ///
    /// If there is none, `make` gives its content. While one thread of one process makes it, others wait, and ask
    /// `cancel` now and then. `make` may get other shards, as long as none of them needs this one.
    ///
    /// # Errors
    /// What `make` or `cancel` says. The shard is damaged (then it is removed, and made anew by the next call), the
    /// folder of the cache is gone or cannot be written, the disk is full, or what is in use leaves too little room.
    pub fn get_or_make(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<RecordBatch>,
        cancel: &dyn Fn() -> Result<()>,
    ) -> Result<Arc<Shard>> {
        let Inner { folder, .. } = &*self.inner;
        let slot = self.slot(key)?;
        if let Some(shard) = self.find(key, &slot, cancel)? {
            self.inner.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(shard);
        }
        let _thread = loop {
            match slot.making.try_lock() {
                Ok(guard) => break guard,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => folder.wait(cancel)?,
            }
        };
        let claim = loop {
            if let Some(claim) = Claim::attempt(folder, key)? {
                break claim;
            }
            folder.wait(cancel)?;
        };
        // Who was waited for has made it, or failed.
        if let Some(shard) = self.find(key, &slot, cancel)? {
            self.inner.hits.fetch_add(1, Ordering::Relaxed);
            return Ok(shard);
        }
        cancel()?;
        let batch = make()?;
        let _kept = self.publish(key, &claim, &batch, cancel)?;
        drop(batch);
        self.inner.misses.fetch_add(1, Ordering::Relaxed);
        self.find(key, &slot, cancel)?.ok_or_else(|| folder.vanished())
    }

    /// What the cache holds, and what it did. Cost: a look at every shard of the folder.
    ///
    /// # Errors
    /// The folder of the cache is gone.
    pub fn statistics(&self) -> Result<Statistics> {
        let Inner { folder, hits, misses, evictions, .. } = &*self.inner;
        folder.alive()?;
        let [hits, misses, evictions] = [hits, misses, evictions].map(|count| count.load(Ordering::Relaxed));
        Ok(Statistics { bytes: room::bytes(folder)?, hits, misses, evictions })
    }

    /// The folder of the cache.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.inner.folder.named()
    }

    fn slot(&self, key: &str) -> Result<Arc<Slot>> {
        if !is_key(key) {
            return Err(Error::internal(format!("key `{key}` of a shard, wanted 16 to 128 hexadecimal digits")));
        }
        self.inner.folder.alive()?;
        let mut slots = lock(&self.inner.slots);
        if !slots.contains_key(key) {
            // Shards that nobody uses any more.
            slots.retain(|_, slot| Arc::strong_count(slot) > 1 || lock(&slot.open).strong_count() > 0);
        }
        Ok(slots.entry(key.to_owned()).or_default().clone())
    }

    /// The shard if it is in the folder, locked so that it stays there.
    fn find(&self, key: &str, slot: &Slot, cancel: &dyn Fn() -> Result<()>) -> Result<Option<Arc<Shard>>> {
        let mut open = lock(&slot.open);
        if let Some(shard) = open.upgrade() {
            return Ok(Some(shard));
        }
        let cache = &self.inner.folder;
        let (folder, path) = (cache.shard(key), cache.shard(key).join(SHARD));
        let failed = |doing: &str, error: std::io::Error| cache.failed(doing, &path, &error);
        let (file, identity) = loop {
            let file = match File::open(&path) {
                Ok(file) => file,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    // A folder appears with all that is in it, perhaps just now.
                    if !folder.is_dir() || path.exists() {
                        return Ok(None);
                    }
                    return Err(self.damaged(key, None, Error::io("open the shard", &path, &error)));
                }
                Err(error) => return Err(failed("open the shard", error)),
            };
            // Who holds it alone makes room, perhaps without it; he may have removed it between our open and our lock.
            if !cache.locked(&path, file.try_lock_shared())? {
                cache.wait(cancel)?;
                continue;
            }
            let identity = Identity::of(&file).map_err(|error| failed("look at", error))?;
            if Identity::at(&path).map_err(|error| failed("look at", error))? == Some(identity) {
                break (file, identity);
            }
        };
        let mut shard = match Shard::of_file(file, &folder) {
            Ok(shard) => shard,
            Err(error) if error.kind() == Kind::Data => return Err(self.damaged(key, Some(identity), error)),
            Err(error) => return Err(error),
        };
        match room::touch(&folder) {
            // Somebody else found it damaged just now.
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            touched => touched.map_err(|error| failed("note the use of", error))?,
        }
        let (this, owned) = (self.clone(), key.to_owned());
        shard.when_damaged(Box::new(move || this.remove(&owned, identity)));
        let shard = Arc::new(shard);
        *open = Arc::downgrade(&shard);
        Ok(Some(shard))
    }

    /// Writes the shard and takes it into the cache. It stays there as long as the returned file is open.
    fn publish(&self, key: &str, claim: &Claim, batch: &RecordBatch, cancel: &dyn Fn() -> Result<()>) -> Result<File> {
        let Inner { folder, limit, evictions, .. } = &*self.inner;
        let evicted = room::take(folder, claim, shard::size(batch)?, *limit, cancel)?;
        evictions.fetch_add(evicted, Ordering::Relaxed);
        let (from, to) = (claim.folder(), folder.shard(key));
        shard::write(from, batch).map_err(|error| folder.alive().err().unwrap_or(error))?;
        let path = from.join(SHARD);
        let failed = |error: std::io::Error| folder.failed("keep the shard", &to, &error);
        room::touch(from).map_err(failed)?;
        let file = File::open(&path).map_err(failed)?;
        folder.locked(&path, file.try_lock_shared())?;
        std::fs::rename(from, &to).map_err(failed)?;
        Ok(file)
    }

    /// The error of a shard that cannot be opened, after it was removed.
    fn damaged(&self, key: &str, found: Option<Identity>, error: Error) -> Error {
        let kind = error.kind();
        let message = error.to_string();
        let hint = match room::remove_damaged(&self.inner.folder, key, found) {
            Ok(0) => "the shard is removed: run the same command again, which makes it anew".to_owned(),
            Ok(others) => format!(
                "it is removed, and so are {others} others that are damaged: run the same command again, which makes them \
                 anew"
            ),
            Err(problem) => format!("remove its folder and run the same command again ({problem})"),
        };
        Error::new(kind, message).hint(hint)
    }

    /// Removes a shard that turned out to be damaged.
    fn remove(&self, key: &str, identity: Identity) -> Result<()> {
        if let Some(slot) = lock(&self.inner.slots).get(key).cloned() {
            *lock(&slot.open) = Weak::new();
        }
        room::remove_damaged(&self.inner.folder, key, Some(identity)).map(drop)
    }
}

/// Nothing that a panic could leave half changed is behind these locks.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
