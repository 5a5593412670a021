//! Vectors that a session keeps in memory after a query has read them.
//!
//! Decoding vectors from Parquet takes thirty times as long as comparing them with a query, and an artefact never changes.
//! So a session of many queries keeps the rows of whole scans with vectors.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::DataType;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::memory::MemoryStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, stream};

use crate::sql::state::STORE_URL;

/// Bytes of vectors that the sessions of people keep.
pub const KEPT_VECTOR_BYTES: usize = 512 << 20;

/// Rows of a scan, by partition.
type ScanRows = Arc<Vec<Vec<RecordBatch>>>;

/// Rows of scans, up to a number of bytes, and as many while they are read. Those that were not used for the longest time go first.
pub(super) struct KeptVectors {
    limit: usize,
    /// Bytes of the scans that are being read.
    collecting: AtomicUsize,
    scans: Mutex<Scans>,
}

#[derive(Default)]
struct Scans {
    rows: HashMap<String, KeptScan>,
    bytes: usize,
    uses: u64,
}

struct KeptScan {
    rows: ScanRows,
    bytes: usize,
    last_use: u64,
}

impl fmt::Debug for KeptVectors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeptVectors").field("limit", &self.limit).finish_non_exhaustive()
    }
}

impl KeptVectors {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, collecting: AtomicUsize::new(0), scans: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Scans> {
        self.scans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, scan: &str) -> Option<ScanRows> {
        let mut scans = self.lock();
        scans.uses += 1;
        let now = scans.uses;
        let kept = scans.rows.get_mut(scan)?;
        kept.last_use = now;
        Some(Arc::clone(&kept.rows))
    }

    fn insert(&self, scan: String, rows: Vec<Vec<RecordBatch>>, bytes: usize) {
        let mut scans = self.lock();
        if bytes > self.limit || scans.rows.contains_key(&scan) {
            return;
        }
        while scans.bytes + bytes > self.limit {
            let Some((name, of)) = scans.rows.iter().min_by_key(|(_, kept)| kept.last_use) else { break };
            let (name, freed) = (name.clone(), of.bytes);
            scans.rows.remove(&name);
            scans.bytes -= freed;
        }
        scans.uses += 1;
        scans.bytes += bytes;
        let last_use = scans.uses;
        scans.rows.insert(scan, KeptScan { rows: Arc::new(rows), bytes, last_use });
    }
}

/// Optimizer rule that keeps the rows of scans of the store that read all rows of a table and some vectors.
#[derive(Debug)]
pub(super) struct KeepVectors(pub(super) Arc<KeptVectors>);

impl PhysicalOptimizerRule for KeepVectors {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            Ok(if is_whole_scan_of_vectors(&node) {
                Transformed::yes(Arc::new(KeptScanExec::new(node, Arc::clone(&self.0))) as Arc<dyn ExecutionPlan>)
            } else {
                Transformed::no(node)
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "keep_vectors"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn is_whole_scan_of_vectors(node: &Arc<dyn ExecutionPlan>) -> bool {
    let schema = node.schema();
    let has_vectors = schema.fields().iter().any(|field| matches!(field.data_type(), DataType::FixedSizeList(..)));
    let scan = node.downcast_ref::<DataSourceExec>().and_then(DataSourceExec::downcast_to_file_source::<ParquetSource>);
    has_vectors && scan.is_some_and(|(config, source)| is_whole(config, source))
}

/// True if the rows follow from the files and the names of the columns: no row is left out, and no column is computed.
fn is_whole(config: &FileScanConfig, source: &ParquetSource) -> bool {
    let of_store = config.object_store_url.as_str() == STORE_URL;
    let is_column =
        |column: &ProjectionExpr| column.expr.downcast_ref::<Column>().is_some_and(|read| read.name() == column.alias);
    let has_columns = source.projection().is_none_or(|columns| columns.iter().all(is_column));
    let mut files = config.file_groups.iter().flat_map(FileGroup::iter);
    let has_values = files.any(|file| !file.partition_values.is_empty());
    of_store && has_columns && !has_values && config.limit.is_none() && source.filter().is_none()
}

/// Scan whose rows are kept, or come from memory.
#[derive(Debug)]
struct KeptScanExec {
    input: Arc<dyn ExecutionPlan>,
    kept: Arc<KeptVectors>,
    /// Decided for all partitions at once: a row may move between them from one execution to the next.
    source: OnceLock<ScanSource>,
}

#[derive(Debug, Clone)]
enum ScanSource {
    Memory(ScanRows),
    Read(Arc<ScanCollection>),
}

/// Rows of an execution until all partitions have ended.
#[derive(Debug)]
struct ScanCollection {
    scan: String,
    kept: Arc<KeptVectors>,
    partitions: Mutex<Vec<Option<Vec<RecordBatch>>>>,
    bytes: AtomicUsize,
}

impl ScanCollection {
    /// Counts the bytes of a batch. Returns true if it may be kept.
    fn counts(&self, batch: &RecordBatch) -> bool {
        let bytes = batch.get_array_memory_size();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.kept.collecting.fetch_add(bytes, Ordering::Relaxed) + bytes <= self.kept.limit
    }

    fn finish(&self, partition: usize, batches: Vec<RecordBatch>) {
        let mut partitions = self.partitions.lock().unwrap_or_else(PoisonError::into_inner);
        if partitions[partition].replace(batches).is_none() && partitions.iter().all(Option::is_some) {
            let all = partitions.iter_mut().map(|rows| rows.take().unwrap_or_default()).collect();
            self.kept.insert(self.scan.clone(), all, self.bytes.load(Ordering::Relaxed));
        }
    }
}

impl Drop for ScanCollection {
    fn drop(&mut self) {
        self.kept.collecting.fetch_sub(self.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl KeptScanExec {
    fn new(input: Arc<dyn ExecutionPlan>, kept: Arc<KeptVectors>) -> Self {
        Self { input, kept, source: OnceLock::new() }
    }

    fn source(&self) -> &ScanSource {
        self.source.get_or_init(|| {
            let partitions = self.properties().partitioning.partition_count();
            // Files, columns and partitions: all that the rows depend on.
            let scan = format!("{partitions} {:?} {}", self.schema(), VerboseScan(&*self.input));
            match self.kept.get(&scan) {
                Some(rows) => ScanSource::Memory(rows),
                None => ScanSource::Read(Arc::new(ScanCollection {
                    scan,
                    kept: Arc::clone(&self.kept),
                    partitions: Mutex::new(vec![None; partitions]),
                    bytes: AtomicUsize::new(0),
                })),
            }
        })
    }
}

/// Scan with the names of all its files.
struct VerboseScan<'p>(&'p dyn ExecutionPlan);

impl fmt::Display for VerboseScan<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_as(DisplayFormatType::Verbose, f)
    }
}

impl DisplayAs for KeptScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())
    }
}

impl ExecutionPlan for KeptScanExec {
    fn name(&self) -> &'static str {
        "KeptScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([input]) = <[Arc<dyn ExecutionPlan>; 1]>::try_from(children) else {
            return internal_err!("KeptScanExec has one input");
        };
        Ok(Arc::new(Self::new(input, Arc::clone(&self.kept))))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let collection = match self.source().clone() {
            ScanSource::Memory(rows) => {
                let rows = rows.get(partition).cloned().unwrap_or_default();
                return Ok(Box::pin(cooperative(MemoryStream::try_new(rows, self.schema(), None)?)));
            }
            ScanSource::Read(collection) => collection,
        };
        let rows = self.input.execute(partition, context)?;
        // The batches so far; `None` when there are too many.
        let state = (rows, Some(Vec::new()), collection);
        let read = stream::unfold(state, move |(mut rows, mut batches, collection)| async move {
            let batch = rows.next().await;
            match &batch {
                Some(Ok(batch)) if collection.counts(batch) => {
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
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), read)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Float64Type;

    use super::*;
    use crate::sql::Session;
    use crate::sql::testing::store;

    const SUM: &str = "SELECT sum(vector_norm(feature)) FROM cnn.features";

    fn sum(session: &Session) -> crate::error::Result<f64> {
        let rows = session.query(SUM)?.collect::<crate::error::Result<Vec<_>>>()?;
        Ok(rows[0].column(0).as_primitive::<Float64Type>().value(0))
    }

    #[test]
    fn vectors_are_read_once() {
        let (folder, store, _) = store();
        let [kept, too_small, without] = [1 << 20, 100, 0].map(|bytes| {
            let session = Session::open(&store).unwrap();
            if bytes == 0 { session } else { session.keep_vectors(bytes) }
        });
        let wanted = sum(&without).unwrap();
        assert_eq!(sum(&kept).unwrap(), wanted);
        assert_eq!(sum(&too_small).unwrap(), wanted);
        // A part of a scan, and another projection, are not the same scan.
        let few =
            kept.query("SELECT feature FROM cnn.features LIMIT 1").unwrap().map(|batch| batch.unwrap().num_rows());
        assert_eq!(few.sum::<usize>(), 1);
        // Computed columns are not kept.
        let random =
            "SELECT max(r) FROM (SELECT feature AS f, random() AS r FROM cnn.features) WHERE vector_norm(f) >= 0";
        let value =
            || kept.query(random).unwrap().next().unwrap().unwrap().column(0).as_primitive::<Float64Type>().value(0);
        assert_ne!(value(), value());
        let with_ids = "SELECT image_id, feature FROM cnn.features WHERE image_id > 1";
        assert_eq!(kept.query(with_ids).unwrap().map(|batch| batch.unwrap().num_rows()).sum::<usize>(), 2);
        for part in walkdir::WalkDir::new(folder.path().join("v1/extract")) {
            let part = part.unwrap();
            if part.path().extension().is_some_and(|end| end == "parquet") {
                let size = part.metadata().unwrap().len();
                std::fs::write(part.path(), vec![0; usize::try_from(size).unwrap()]).unwrap();
            }
        }
        assert_eq!(sum(&kept).unwrap(), wanted, "from memory");
        assert!(sum(&too_small).is_err() && sum(&without).is_err(), "from the file");
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_goes_first() {
        let kept = KeptVectors::new(100);
        for (scan, bytes) in [("a", 40), ("b", 40), ("too large", 101)] {
            kept.insert(scan.to_owned(), vec![], bytes);
        }
        assert!(kept.get("a").is_some() && kept.get("too large").is_none());
        kept.insert("c".to_owned(), vec![], 50);
        assert_eq!(["a", "b", "c"].map(|scan| kept.get(scan).is_some()), [true, false, true]);
        assert_eq!(kept.lock().bytes, 90);
    }
}
