//! Reader of a scan, from the cache or for it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow::array::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use super::cache::{ScanKey, ScanRows, VectorCache};
use crate::pass_through::ReadInput;

/// Scan whose rows come from the cache, or are added to it.
#[derive(Debug)]
pub(super) struct CachedScan {
    cache: Arc<VectorCache>,
    key: ScanKey,
    /// Decided for all partitions at once: a row may move between them from one execution to the next.
    source: OnceLock<ScanSource>,
}

#[derive(Debug, Clone)]
enum ScanSource {
    Cache(ScanRows),
    Files(Arc<ScanCollection>),
}

impl CachedScan {
    pub(super) fn new(cache: Arc<VectorCache>, key: ScanKey) -> Self {
        Self { cache, key, source: OnceLock::new() }
    }

    fn find_source(&self) -> ScanSource {
        match self.cache.get(&self.key) {
            Some(rows) => ScanSource::Cache(rows),
            None => ScanSource::Files(Arc::new(ScanCollection {
                cache: Arc::clone(&self.cache),
                key: self.key.clone(),
                partitions: Mutex::new(vec![None; self.key.partitions.len()]),
                bytes: AtomicUsize::new(0),
            })),
        }
    }
}

impl ReadInput for CachedScan {
    const NAME: &'static str = "CachedScanExec";

    // A scan has no inputs, so another one is the same scan.
    fn of_other(&self, _: &Arc<dyn ExecutionPlan>) -> Self {
        Self::new(Arc::clone(&self.cache), self.key.clone())
    }

    fn read(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let collection = match self.source.get_or_init(|| self.find_source()).clone() {
            ScanSource::Cache(rows) => {
                let rows = rows.get(partition).cloned().unwrap_or_default();
                return Ok(Box::pin(cooperative(MemoryStream::try_new(rows, input.schema(), None)?)));
            }
            ScanSource::Files(collection) => collection,
        };
        let rows = input.execute(partition, context)?;
        // The batches so far; `None` when there are too many.
        let state = (rows, Some(Vec::new()), collection);
        let read = stream::unfold(state, move |(mut rows, mut batches, collection)| async move {
            let batch = rows.next().await;
            match &batch {
                Some(Ok(batch)) if collection.reserve(batch) => {
                    if let Some(batches) = &mut batches {
                        batches.push(batch.clone());
                    }
                }
                Some(_) => batches = None,
                None => {
                    if let Some(batches) = batches.take() {
                        collection.finish(partition, batches);
                    }
                }
            }
            batch.map(|batch| (batch, (rows, batches, collection)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(input.schema(), read)))
    }
}

/// Rows of an execution until all partitions have ended.
#[derive(Debug)]
struct ScanCollection {
    cache: Arc<VectorCache>,
    key: ScanKey,
    partitions: Mutex<Vec<Option<Vec<RecordBatch>>>>,
    bytes: AtomicUsize,
}

impl ScanCollection {
    /// Counts the bytes of a batch. Returns true if it may be kept.
    fn reserve(&self, batch: &RecordBatch) -> bool {
        let bytes = batch.get_array_memory_size();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.cache.reserve(bytes)
    }

    fn finish(&self, partition: usize, batches: Vec<RecordBatch>) {
        let mut partitions = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        if partitions[partition].replace(batches).is_none() && partitions.iter().all(Option::is_some) {
            let all = partitions.iter_mut().map(|rows| rows.take().unwrap_or_default()).collect();
            self.cache.insert(self.key.clone(), all, self.bytes.load(Ordering::Relaxed));
        }
    }
}

impl Drop for ScanCollection {
    fn drop(&mut self) {
        self.cache.release(self.bytes.load(Ordering::Relaxed));
    }
}
