//! Small files of a table, read before a query starts.
//!
//! A scan opens its files one after another, with several requests for each. Small files take less time if they are read
//! whole, several at a time: requests to a bucket overlap, and a folder needs fewer changes of threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::catalog::Session;
use datafusion::common::{DataFusionError, Result as SqlResult};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::ObjectStoreExt;
use object_store::memory::InMemory;

use crate::sql::state::STORE_URL;

/// Size of a small file. The first request for a larger one reads so much of its end.
const SMALL_FILE_BYTES: u64 = 512 << 10;
/// Total size up to which files are prefetched.
const MAX_BYTES: u64 = 64 << 20;

/// Returns true if the files are worth prefetching: several of them, each one small.
pub(super) fn is_worthwhile(files: &[PartitionedFile]) -> bool {
    let sizes = || files.iter().map(|file| file.object_meta.size);
    files.len() > 1 && sizes().all(|bytes| bytes <= SMALL_FILE_BYTES) && sizes().sum::<u64>() <= MAX_BYTES
}

/// Files in memory, under a URL of their own. Dropping the value unregisters the URL.
#[derive(Debug)]
pub(super) struct PrefetchedFiles {
    pub(super) url: ObjectStoreUrl,
    environment: Arc<RuntimeEnv>,
}

impl PrefetchedFiles {
    /// Reads files of the store.
    ///
    /// # Errors
    /// A file is absent, or the store cannot be read.
    pub(super) async fn read(state: &dyn Session, files: &[PartitionedFile]) -> SqlResult<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let environment = Arc::clone(state.runtime_env());
        let store = environment.object_store(ObjectStoreUrl::parse(STORE_URL)?)?;
        let concurrency = state.config_options().execution.meta_fetch_concurrency.get();
        let objects = InMemory::new();
        let copy = |file: &PartitionedFile| {
            let (store, objects, path) = (&store, &objects, file.object_meta.location.clone());
            async move {
                let content = store.get(&path).await?.bytes().await?;
                objects.put(&path, content.into()).await.map(|_| ())
            }
        };
        let copies = stream::iter(files.iter().map(copy)).buffer_unordered(concurrency);
        let copied: Result<(), object_store::Error> = copies.try_collect().await;
        copied.map_err(|error| DataFusionError::ObjectStore(Box::new(error)))?;
        let url = ObjectStoreUrl::parse(format!("memory://prefetched-{}/", COUNT.fetch_add(1, Ordering::Relaxed)))?;
        environment.register_object_store(url.as_ref(), Arc::new(objects));
        Ok(Self { url, environment })
    }
}

impl Drop for PrefetchedFiles {
    fn drop(&mut self) {
        // Only an unknown URL is an error.
        let _ = self.environment.deregister_object_store(self.url.as_ref());
    }
}
