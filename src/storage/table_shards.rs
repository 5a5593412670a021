//! Parts of a table as shards: built once, mapped on demand, prefetched.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tokio::sync::Semaphore;

use crate::cache::ShardCache;
use crate::objects::runtime;
use crate::shard::Shard;
use pairloom_base::error::{Error, Result};

/// Version of the conversion from a part to a shard. Part of the cache key.
const KEY_VERSION: &str = "shard 1";

/// Maximum number of concurrent prefetches per table: enough to hide the latency of a store, few enough to hold their
/// parts in memory.
const CONCURRENT_PREFETCHES: usize = 4;

/// Part that a shard is built from.
#[derive(Debug, Clone)]
pub struct ShardSource {
    /// Digest of the part's bytes.
    pub digest: String,
    /// Number of rows.
    pub rows: usize,
}

/// Function that reads the rows of a part.
pub type ReadPart = dyn Fn(usize) -> Result<RecordBatch> + Send + Sync;

/// Function that fails once the work is cancelled.
pub type CancelCheck = dyn Fn() -> Result<()> + Send + Sync;

/// Shards of a table. Clones share one state.
#[derive(Clone)]
pub struct TableShards(Arc<TableShardsInner>);

struct TableShardsInner {
    name: String,
    sources: Vec<ShardSource>,
    /// Cache; `None` for shards in memory.
    cache: Option<ShardCache>,
    read: Box<ReadPart>,
    check_cancelled: Box<CancelCheck>,
    schema: OnceLock<SchemaRef>,
    state: Mutex<OpenShards>,
    slots: Arc<Semaphore>,
}

#[derive(Default)]
struct OpenShards {
    /// Shards that stay open until they are released.
    open: HashMap<usize, Arc<Shard>>,
    /// Shards that are being prefetched.
    prefetching: HashSet<usize>,
}

impl fmt::Debug for TableShards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards").field("name", &self.0.name).field("shards", &self.0.sources.len()).finish()
    }
}

impl TableShards {
    /// Shards in `cache`, built from `sources`, whose rows `read` returns. `name` is for messages.
    pub fn new(
        name: impl Into<String>,
        sources: Vec<ShardSource>,
        cache: ShardCache,
        read: Box<ReadPart>,
        check_cancelled: Box<CancelCheck>,
    ) -> Self {
        Self::with(name.into(), sources, Some(cache), read, check_cancelled)
    }

    /// Shards of batches in memory.
    pub fn in_memory(name: impl Into<String>, batches: Vec<RecordBatch>) -> Self {
        let sources =
            batches.iter().map(|batch| ShardSource { digest: String::new(), rows: batch.num_rows() }).collect();
        Self::uncached(name, sources, Box::new(move |shard| Ok(batches[shard].clone())))
    }

    /// Shards without a cache, read into memory whenever they are opened.
    pub fn uncached(name: impl Into<String>, sources: Vec<ShardSource>, read: Box<ReadPart>) -> Self {
        Self::with(name.into(), sources, None, read, Box::new(|| Ok(())))
    }

    fn with(
        name: String,
        sources: Vec<ShardSource>,
        cache: Option<ShardCache>,
        read: Box<ReadPart>,
        check_cancelled: Box<CancelCheck>,
    ) -> Self {
        Self(Arc::new(TableShardsInner {
            name,
            sources,
            cache,
            read,
            check_cancelled,
            schema: OnceLock::new(),
            state: Mutex::default(),
            slots: Arc::new(Semaphore::new(CONCURRENT_PREFETCHES)),
        }))
    }

    /// Name of the table, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Number of shards.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.sources.len()
    }

    /// Returns true if there are no shards.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.sources.is_empty()
    }

    /// Number of rows of a shard.
    #[must_use]
    pub fn rows(&self, shard: usize) -> usize {
        self.0.sources[shard].rows
    }

    /// Digest of the part that a shard is built from; empty for rows in memory.
    #[must_use]
    pub fn digest(&self, shard: usize) -> &str {
        &self.0.sources[shard].digest
    }

    /// Opens a shard, which stays open until [`TableShards::release`]. Builds it if it is not in the cache.
    ///
    /// # Errors
    /// The part cannot be read or is damaged, the shard does not fit in the cache, or its columns differ from those of
    /// the shards before.
    pub fn open(&self, shard: usize) -> Result<Arc<Shard>> {
        let held = self.state().open.get(&shard).map(Arc::clone);
        if let Some(held) = held {
            return self.0.check_columns(shard, held);
        }
        let found = self.0.check_columns(shard, self.0.open(shard)?)?;
        self.state().open.insert(shard, Arc::clone(&found));
        Ok(found)
    }

    /// Opens shards in the background, in this order, some at a time. An error is returned when the shard is opened by
    /// [`TableShards::open`].
    pub fn prefetch(&self, shards: impl IntoIterator<Item = usize>) {
        // Without threads nothing is prefetched, and `open` reads the shard.
        let Ok(runtime) = runtime() else { return };
        for shard in shards {
            {
                let mut state = self.state();
                if state.open.contains_key(&shard) || !state.prefetching.insert(shard) {
                    continue;
                }
            }
            let this = self.clone();
            let slots = Arc::clone(&self.0.slots);
            runtime.spawn(async move {
                // The semaphore is never closed.
                let _slot = slots.acquire().await;
                let expected = this.state().prefetching.contains(&shard);
                let inner = Arc::clone(&this.0);
                let opened =
                    if expected { tokio::task::spawn_blocking(move || inner.open(shard)).await.ok() } else { None };
                let mut state = this.state();
                // The shard may have been released meanwhile.
                if state.prefetching.remove(&shard)
                    && let Some(Ok(opened)) = opened
                {
                    state.open.entry(shard).or_insert(opened);
                }
            });
        }
    }

    /// Releases a shard. It stays mapped as long as it is in use elsewhere; after that the cache may evict it.
    pub fn release(&self, shard: usize) {
        let mut state = self.state();
        state.open.remove(&shard);
        state.prefetching.remove(&shard);
    }

    /// Number of open shards.
    #[must_use]
    pub fn n_open(&self) -> usize {
        self.state().open.len()
    }

    fn state(&self) -> MutexGuard<'_, OpenShards> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TableShardsInner {
    fn open(&self, shard: usize) -> Result<Arc<Shard>> {
        (self.check_cancelled)()?;
        let source = &self.sources[shard];
        let opened = match &self.cache {
            Some(cache) => cache.get_or_make(&key(&source.digest), || (self.read)(shard), &*self.check_cancelled)?,
            None => Arc::new(Shard::from_batch(&(self.read)(shard)?)?),
        };
        if opened.rows() != source.rows {
            let (name, got, expected) = (&self.name, opened.rows(), source.rows);
            return Err(Error::data(format!("shard {shard} of `{name}` has {got} rows, expected {expected}")));
        }
        Ok(opened)
    }

    /// Checks that a shard has the same columns as the first shard that was opened.
    fn check_columns(&self, shard: usize, opened: Arc<Shard>) -> Result<Arc<Shard>> {
        let expected = self.schema.get_or_init(|| opened.schema().clone());
        if opened.schema() == expected {
            return Ok(opened);
        }
        let columns = |schema: &SchemaRef| {
            let columns = schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type()));
            columns.collect::<Vec<_>>().join(", ")
        };
        Err(Error::data(format!(
            "the columns of `{}` changed: shard {shard} has ({}), expected ({}) as in the shards before it",
            self.name,
            columns(opened.schema()),
            columns(expected)
        )))
    }
}

/// Cache key of a shard.
fn key(digest: &str) -> String {
    blake3::hash(format!("{KEY_VERSION} {digest}").as_bytes()).to_hex()[..32].to_owned()
}
