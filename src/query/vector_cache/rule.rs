//! Optimizer rule that finds the scans whose rows are worth keeping.

use std::sync::Arc;

use arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_expr::projection::ProjectionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::expressions::Column;

use super::cache::{ScanKey, ScannedFile, VectorCache};
use super::scan::CachedScan;
use crate::pass_through::PassThroughExec;
use crate::state::store_url;

/// Name of the rule that moves computed columns into scans.
const PROJECTION_RULE: &str = "ProjectionPushdown";

/// Optimizer rules with one that caches scans. It comes before computed columns move into the scans, since what is kept
/// are the columns of files; all partitions and conditions of the scans are decided then.
pub(crate) fn with_cached_scans(
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
