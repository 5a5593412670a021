//! Cache of the vectors that the queries of a session have read.
//!
//! Decoding vectors from Parquet takes most of the time of a nearest-neighbour query, and an artefact never changes. So a
//! session of many queries keeps the rows of whole scans with vectors: an optimizer rule finds such scans, and their reader
//! takes them from the cache or adds them to it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::{FileRange, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::cache::lru_queue::LruQueue;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};

use crate::pass_through::{PassThroughExec, ReadInput};
use crate::state::store_url;

/// Bytes of the vector cache of a session that people use.
pub const VECTOR_CACHE_BYTES: usize = 512 << 20;

/// Files and columns of a scan, which its rows follow from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ScanKey {
    /// Files of each partition.
    pub partitions: Vec<Vec<ScannedFile>>,
    pub columns: Vec<String>,
}

/// File of a scan, or a range of its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct ScannedFile {
    pub path: String,
    pub range: Option<FileRange>,
}

/// Rows of a scan, by partition.
pub(super) type ScanRows = Arc<Vec<Vec<RecordBatch>>>;

/// Cache of the rows of scans. When it is full, the least recently used go first.
pub(super) struct VectorCache {
    /// Largest number of bytes of all rows, and of those that are being read.
    limit: usize,
    being_read: AtomicUsize,
    scans: Mutex<Scans>,
}

struct Scans {
    /// Rows and bytes.
    rows: LruQueue<ScanKey, (ScanRows, usize)>,
    bytes: usize,
}

impl fmt::Debug for VectorCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VectorCache").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl VectorCache {
    pub(crate) fn new(limit: usize) -> Self {
        let scans = Mutex::new(Scans { rows: LruQueue::new(), bytes: 0 });
        Self { limit, being_read: AtomicUsize::new(0), scans }
    }

    fn lock(&self) -> MutexGuard<'_, Scans> {
        self.scans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn get(&self, scan: &ScanKey) -> Option<ScanRows> {
        self.lock().rows.get(scan).map(|(rows, _)| Arc::clone(rows))
    }

    pub(super) fn insert(&self, scan: ScanKey, rows: Vec<Vec<RecordBatch>>, bytes: usize) {
        let mut scans = self.lock();
        if bytes > self.limit || scans.rows.contains_key(&scan) {
            return;
        }
        while scans.bytes + bytes > self.limit {
            let Some((_, (_, freed))) = scans.rows.pop() else { break };
            scans.bytes -= freed;
        }
        scans.bytes += bytes;
        scans.rows.put(scan, (Arc::new(rows), bytes));
    }

    /// Counts bytes of a scan that is being read. Returns false if they are too many to be kept.
    pub(super) fn reserve(&self, bytes: usize) -> bool {
        self.being_read.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.limit
    }

    /// Ends the count of bytes of a scan.
    pub(super) fn release(&self, bytes: usize) {
        self.being_read.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Name of the rule that moves computed columns into scans.
const PROJECTION_RULE: &str = "ProjectionPushdown";

/// Optimizer rules with one that caches scans. It comes before computed columns move into the scans, since what is kept
/// are the columns of files; all partitions and conditions of the scans are decided then.
pub(super) fn with_cached_scans(
    rules: &[Arc<dyn PhysicalOptimizerRule + Send + Sync>],
    cache: Arc<VectorCache>,
) -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let place = rules.iter().position(|rule| rule.name() == PROJECTION_RULE).unwrap_or(rules.len());
    let mut rules = rules.to_vec();
    rules.insert(place, Arc::new(CacheVectorScans(cache)));
    rules
}

/// Optimizer rule that caches the rows of scans of the store that read all rows of a table and some vectors.
#[derive(Debug)]
struct CacheVectorScans(Arc<VectorCache>);

impl PhysicalOptimizerRule for CacheVectorScans {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(key) = key_of_whole_scan(&node) else { return Ok(Transformed::no(node)) };
            let scan = CachedScan::new(Arc::clone(&self.0), key);
            Ok(Transformed::yes(Arc::new(PassThroughExec::new(node, scan)) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "cache_vector_scans"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Key of a scan with vectors whose rows follow from its files and the names of its columns: no row is left out, and no
/// column is computed. `None` for other operators.
fn key_of_whole_scan(node: &Arc<dyn ExecutionPlan>) -> Option<ScanKey> {
    let scan = node.downcast_ref::<DataSourceExec>()?;
    let (config, source) = scan.downcast_to_file_source::<ParquetSource>()?;
    let is_whole =
        config.object_store_url.as_str() == store_url() && config.limit.is_none() && source.filter().is_none();
    (is_whole && has_vectors(&node.schema()) && reads_columns(config, source)).then(|| ScanKey {
        partitions: config.file_groups.iter().map(files).collect(),
        columns: node.schema().fields().iter().map(|field| field.name().clone()).collect(),
    })
}

fn has_vectors(schema: &Schema) -> bool {
    schema.fields().iter().any(|field| matches!(field.data_type(), DataType::FixedSizeList(..)))
}

/// True if all columns are those of the files, under their own names.
fn reads_columns(config: &FileScanConfig, source: &ParquetSource) -> bool {
    let is_column =
        |column: &ProjectionExpr| column.expr.downcast_ref::<Column>().is_some_and(|read| read.name() == column.alias);
    let mut files = config.file_groups.iter().flat_map(FileGroup::iter);
    source.projection().is_none_or(|columns| columns.iter().all(is_column))
        && files.all(|file| file.partition_values.is_empty())
}

fn files(group: &FileGroup) -> Vec<ScannedFile> {
    let file =
        |file: &PartitionedFile| ScannedFile { path: file.object_meta.location.to_string(), range: file.range.clone() };
    group.iter().map(file).collect()
}

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

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Float64Type;

    use super::*;
    use crate::Session;
    use crate::testing::store;

    #[test]
    fn the_least_recently_used_scan_goes_first() {
        let cache = VectorCache::new(100);
        let scan = |name: &str| ScanKey { partitions: vec![], columns: vec![name.to_owned()] };
        for (name, bytes) in [("a", 40), ("b", 40), ("too large", 101)] {
            cache.insert(scan(name), vec![], bytes);
        }
        assert!(cache.get(&scan("a")).is_some() && cache.get(&scan("too large")).is_none());
        cache.insert(scan("c"), vec![], 50);
        assert_eq!(["a", "b", "c"].map(|name| cache.get(&scan(name)).is_some()), [true, false, true]);
        assert_eq!(cache.lock().bytes, 90);
    }

    const SUM: &str = "SELECT sum(vector_norm(feature)) FROM cnn.features";

    fn sum(session: &Session) -> pairloom_base::error::Result<f64> {
        let rows = session.query(SUM)?.collect::<pairloom_base::error::Result<Vec<_>>>()?;
        Ok(rows[0].column(0).as_primitive::<Float64Type>().value(0))
    }

    #[test]
    fn vectors_are_read_once() {
        let (folder, store, _) = store();
        let [caching, too_small, without] = [1 << 20, 100, 0].map(|bytes| {
            let session = Session::open(&store).unwrap();
            if bytes == 0 { session } else { session.with_vector_cache(bytes) }
        });
        let expected = sum(&without).unwrap();
        assert_eq!(sum(&caching).unwrap(), expected);
        assert_eq!(sum(&too_small).unwrap(), expected);
        // A part of a scan, and another projection, are not the same scan.
        let few =
            caching.query("SELECT feature FROM cnn.features LIMIT 1").unwrap().map(|batch| batch.unwrap().num_rows());
        assert_eq!(few.sum::<usize>(), 1);
        // Computed columns are not cached.
        let random =
            "SELECT max(r) FROM (SELECT feature AS f, random() AS r FROM cnn.features) WHERE vector_norm(f) >= 0";
        let value =
            || caching.query(random).unwrap().next().unwrap().unwrap().column(0).as_primitive::<Float64Type>().value(0);
        assert_ne!(value(), value());
        let with_ids = "SELECT image_id, feature FROM cnn.features WHERE image_id > 1";
        assert_eq!(caching.query(with_ids).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2);
        for part in walkdir::WalkDir::new(folder.path().join("v1/extract")) {
            let part = part.unwrap();
            if part.path().extension().is_some_and(|end| end == "parquet") {
                let size = part.metadata().unwrap().len();
                std::fs::write(part.path(), vec![0; usize::try_from(size).unwrap()]).unwrap();
            }
        }
        assert_eq!(sum(&caching).unwrap(), expected, "from the cache");
        assert!(sum(&too_small).is_err() && sum(&without).is_err(), "from the file");
    }
}
