//! Cache of shards of a run, opened on first use.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;

use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_storage::cache::ShardCache;
use pairloom_storage::shard::Shard;

/// Location and size limit of the cache of shards.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// Folder of the cache; `None` if the user has no home folder.
    pub folder: Option<PathBuf>,
    /// Maximum total size of the shards in bytes.
    pub limit: u64,
}

/// A cache that is opened on first use.
pub(super) struct LazyCache<'p> {
    options: &'p CacheOptions,
    cache: Mutex<Option<ShardCache>>,
}

impl<'p> LazyCache<'p> {
    pub fn new(place: &'p CacheOptions) -> Self {
        Self { options: place, cache: Mutex::default() }
    }

    /// Opens the cache on the first call and returns it.
    pub fn get(&self) -> Result<ShardCache> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = &*cache {
            return Ok(cache.clone());
        }
        let folder = self.options.folder.as_ref().ok_or_else(|| {
            Error::usage("there is no folder for the cache of shards: this user has no home")
                .hint("name one with `--cache`")
        })?;
        Ok(cache.insert(ShardCache::open(folder, self.options.limit)?).clone())
    }

    /// Looks up rows by name.
    pub fn get_rows(&self, name: &str, cancel: &CancelToken) -> Result<Option<Arc<Shard>>> {
        cancel.check()?;
        self.get()?.get(name)
    }

    /// Stores rows under a name, unless there are some already, and returns the stored ones.
    pub fn insert_rows(&self, name: &str, batch: RecordBatch, cancel: &CancelToken) -> Result<Arc<Shard>> {
        self.get()?.get_or_make(name, || Ok(batch), &|| cancel.check())
    }
}
