//! The parts of a table as shards: made once, mapped when they are needed, read ahead.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use tokio::sync::Semaphore;

use crate::error::{Error, Result};
use crate::io::cache::Cache;
use crate::io::objects::runtime;
use crate::io::shard::Shard;

/// Version of what is made of a part; enters the name of a shard in the cache.
const FORMAT: &str = "shard 1";

/// Shards of one table that are read ahead at a time: enough to hide the latency of a store, few enough to hold the parts
/// that they are made of in memory.
const AT_A_TIME: usize = 4;

/// A part that a shard is made of.
#[derive(Debug, Clone)]
pub struct Source {
    /// Digest of its bytes.
    pub digest: String,
    /// Its rows.
    pub rows: usize,
}

/// Reads the rows of a part.
pub type Read = dyn Fn(usize) -> Result<RecordBatch> + Send + Sync;

/// Fails once there is no point in waiting.
pub type Proceed = dyn Fn() -> Result<()> + Send + Sync;

/// The shards of a table. Clones are the same shards.
#[derive(Clone)]
pub struct Shards(Arc<Inner>);

struct Inner {
    name: String,
    sources: Vec<Source>,
    /// Shards in memory have no cache.
    cache: Option<Cache>,
    read: Box<Read>,
    proceed: Box<Proceed>,
    schema: OnceLock<SchemaRef>,
    state: Mutex<State>,
    slots: Arc<Semaphore>,
}

#[derive(Default)]
struct State {
    /// Shards that are mapped until they are released.
    held: HashMap<usize, Arc<Shard>>,
    /// Shards that are being read ahead.
    ahead: HashSet<usize>,
}

impl fmt::Debug for Shards {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shards").field("name", &self.0.name).field("shards", &self.0.sources.len()).finish()
    }
}

impl Shards {
    /// Shards made from `sources`, whose rows `read` gives, in `cache`. `name` is for messages.
    pub fn new(
        name: impl Into<String>,
        sources: Vec<Source>,
        cache: Cache,
        read: Box<Read>,
        proceed: Box<Proceed>,
    ) -> Self {
        Self::with(name.into(), sources, Some(cache), read, proceed)
    }

    /// Shards that are in memory already.
    pub fn in_memory(name: impl Into<String>, batches: Vec<RecordBatch>) -> Self {
        let sources = batches.iter().map(|batch| Source { digest: String::new(), rows: batch.num_rows() }).collect();
        Self::uncached(name, sources, Box::new(move |shard| Ok(batches[shard].clone())))
    }

    /// Shards that are read into memory whenever they are opened.
    pub fn uncached(name: impl Into<String>, sources: Vec<Source>, read: Box<Read>) -> Self {
        Self::with(name.into(), sources, None, read, Box::new(|| Ok(())))
    }

    fn with(name: String, sources: Vec<Source>, cache: Option<Cache>, read: Box<Read>, proceed: Box<Proceed>) -> Self {
        Self(Arc::new(Inner {
            name,
            sources,
            cache,
            read,
            proceed,
            schema: OnceLock::new(),
            state: Mutex::default(),
            slots: Arc::new(Semaphore::new(AT_A_TIME)),
        }))
    }

    /// The table, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.sources.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.sources.is_empty()
    }

    /// Rows of a shard.
    #[must_use]
    pub fn rows(&self, shard: usize) -> usize {
        self.0.sources[shard].rows
    }

    /// A shard, which stays mapped until [`Shards::release`]. Made from its part if the cache does not have it.
    ///
    /// # Errors
    /// The part cannot be read or is damaged, the cache cannot take it, or its columns are not those of the other parts.
    pub fn open(&self, shard: usize) -> Result<Arc<Shard>> {
        let held = self.state().held.get(&shard).map(Arc::clone);
        if let Some(held) = held {
            return self.0.same_columns(shard, held);
        }
        let found = self.0.same_columns(shard, self.0.open(shard)?)?;
        self.state().held.insert(shard, Arc::clone(&found));
        Ok(found)
    }

    /// Begins to open shards, some at a time, in this order; [`Shards::open`] then finds them mapped. An error is met again
    /// by whoever opens the shard.
    pub fn ahead(&self, shards: impl IntoIterator<Item = usize>) {
        // Without threads nothing is read ahead; whoever opens a shard reads it.
        let Ok(runtime) = runtime() else { return };
        for shard in shards {
            {
                let mut state = self.state();
                if state.held.contains_key(&shard) || !state.ahead.insert(shard) {
                    continue;
                }
            }
            let this = self.clone();
            let slots = Arc::clone(&self.0.slots);
            runtime.spawn(async move {
                // The semaphore is never closed.
                let _slot = slots.acquire().await;
                let wanted = this.state().ahead.contains(&shard);
                let inner = Arc::clone(&this.0);
                let opened =
                    if wanted { tokio::task::spawn_blocking(move || inner.open(shard)).await.ok() } else { None };
                let mut state = this.state();
                // Released meanwhile, it is not wanted any more.
                if state.ahead.remove(&shard)
                    && let Some(Ok(opened)) = opened
                {
                    state.held.entry(shard).or_insert(opened);
                }
            });
        }
    }

    /// Lets go of a shard. It stays mapped for whoever still reads it; the cache may evict it after that.
    pub fn release(&self, shard: usize) {
        let mut state = self.state();
        state.held.remove(&shard);
        state.ahead.remove(&shard);
    }

    /// Shards that are mapped until they are released.
    #[must_use]
    pub fn held(&self) -> usize {
        self.state().held.len()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn open(&self, shard: usize) -> Result<Arc<Shard>> {
        (self.proceed)()?;
        let source = &self.sources[shard];
        let opened = match &self.cache {
            Some(cache) => cache.get_or_make(&key(&source.digest), || (self.read)(shard), &*self.proceed)?,
            None => Arc::new(Shard::of_batch(&(self.read)(shard)?)?),
        };
        if opened.rows() != source.rows {
            let (name, got, wanted) = (&self.name, opened.rows(), source.rows);
            return Err(Error::data(format!("shard {shard} of `{name}` has {got} rows, wanted {wanted}")));
        }
        Ok(opened)
    }

    /// The shard, if it has the columns of the first one that was asked for.
    fn same_columns(&self, shard: usize, opened: Arc<Shard>) -> Result<Arc<Shard>> {
        let wanted = self.schema.get_or_init(|| opened.schema().clone());
        if opened.schema() == wanted {
            return Ok(opened);
        }
        let columns = |schema: &SchemaRef| {
            let columns = schema.fields().iter().map(|field| format!("{} {}", field.name(), field.data_type()));
            columns.collect::<Vec<_>>().join(", ")
        };
        Err(Error::data(format!(
            "the columns of `{}` changed: shard {shard} has ({}), wanted ({}) as in the shards before it",
            self.name,
            columns(opened.schema()),
            columns(wanted)
        )))
    }
}

/// The name of a shard in the cache.
fn key(digest: &str) -> String {
    blake3::hash(format!("{FORMAT} {digest}").as_bytes()).to_hex()[..32].to_owned()
}
