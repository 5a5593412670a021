//! The cache of shards of a run: opened when the first stage asks for it.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;

use crate::error::{Error, Result};
use crate::io::cache::Cache;
use crate::io::shard::Shard;
use crate::runtime::Cancel;

/// Where the cache lies, and what it may take.
#[derive(Debug, Clone)]
pub struct CachePlace {
    /// Its folder; none if there is no place for one.
    pub folder: Option<PathBuf>,
    /// Bytes of all shards in it, at most.
    pub limit: u64,
}

/// A cache that is opened when it is first needed.
pub(super) struct LazyCache<'p> {
    place: &'p CachePlace,
    cache: Mutex<Option<Cache>>,
}

impl<'p> LazyCache<'p> {
    pub fn new(place: &'p CachePlace) -> Self {
        Self { place, cache: Mutex::default() }
    }

    /// The cache.
    pub fn get(&self) -> Result<Cache> {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cache) = &*cache {
            return Ok(cache.clone());
        }
        let folder = self.place.folder.as_ref().ok_or_else(|| {
            Error::usage("there is no folder for the cache of shards: this user has no home")
                .hint("name one with `--cache`")
        })?;
        Ok(cache.insert(Cache::open(folder, self.place.limit)?).clone())
    }

    /// The rows of this name, if they are there.
    pub fn kept(&self, name: &str, cancel: &Cancel) -> Result<Option<Arc<Shard>>> {
        cancel.proceed()?;
        self.get()?.get(name)
    }

    /// Puts rows under a name, unless some are there.
    pub fn keep(&self, name: &str, batch: RecordBatch, cancel: &Cancel) -> Result<Arc<Shard>> {
        self.get()?.get_or_make(name, || Ok(batch), &|| cancel.proceed())
    }
}
