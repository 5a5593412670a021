//! Optimizer rule that cuts top-k joins into parts, for the processes of a cluster.

use std::sync::Arc;

use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::datasource::physical_plan::{FileScanConfig, FileScanConfigBuilder};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use super::exec::TopKJoinExec;
use super::merge::TopKMergeExec;

/// Optimizer rule that searches each partition of the items of a top-k join by itself, and merges the lists.
///
/// It is for items and queries that are scans of files. Every part reads all queries, and such rows have one order
/// whoever reads them. A method against hubs learns from all items, so its join stays whole, and so does one with an order of equal measures. In one process a whole join
/// uses all threads as well, and packs the queries once.
///
/// No session has the rule: on a cluster the queries had another order in each part, so the merge mixed them up.
#[derive(Debug)]
pub struct TopKJoinsByParts;

impl PhysicalOptimizerRule for TopKJoinsByParts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(join) = node.downcast_ref::<TopKJoinExec>() else { return Ok(Transformed::no(node)) };
            let [queries, items] = [join.queries(), join.items()].map(before_coalescing);
            let partitions = items.output_partitioning().partition_count();
            // The order of equal measures is not among the columns of a part.
            let is_whole = join.part.is_some() || join.method.is_some() || !join.ties.is_empty();
            if partitions == 1 || is_whole || !is_scan(&queries) || !is_scan(&items) {
                return Ok(Transformed::no(node));
            }
            let part = |partition: usize| {
                // Operators that were read once give no rows again.
                let inputs = [reset_plan_states(Arc::clone(&queries))?, one_partition(&items, partition)?];
                Ok(Arc::new(join.clone().into_part(partition as u64, inputs)) as Arc<dyn ExecutionPlan>)
            };
            let parts = UnionExec::try_new((0..partitions).map(part).collect::<Result<_>>()?)?;
            let parts = Arc::new(CoalescePartitionsExec::new(parts));
            let merge = TopKMergeExec::try_new(parts, join.shape, join.measure.is_similarity(), join.rank_column())?;
            Ok(Transformed::yes(Arc::new(merge) as Arc<_>))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "topk_joins_by_parts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Operator whose partitions `plan` puts into one, if it does that alone.
fn before_coalescing(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let coalescing = plan.downcast_ref::<CoalescePartitionsExec>().filter(|coalescing| coalescing.fetch().is_none());
    Arc::clone(coalescing.map_or(plan, CoalescePartitionsExec::input))
}

/// True for a scan of files, perhaps with a condition and computed columns.
fn is_scan(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let is_row_by_row = plan.downcast_ref::<FilterExec>().is_some()
        || plan.downcast_ref::<ProjectionExec>().is_some()
        || plan.downcast_ref::<CooperativeExec>().is_some();
    files(plan).is_some() || is_row_by_row && plan.children().into_iter().all(is_scan)
}

/// Files of a scan.
fn files(plan: &Arc<dyn ExecutionPlan>) -> Option<&FileScanConfig> {
    let scan = plan.downcast_ref::<DataSourceExec>()?;
    scan.data_source().downcast_ref::<FileScanConfig>()
}

/// The same scan of one of its partitions.
fn one_partition(scan: &Arc<dyn ExecutionPlan>, partition: usize) -> Result<Arc<dyn ExecutionPlan>> {
    Arc::clone(scan)
        .transform_up(|node| {
            let Some(config) = files(&node) else { return Ok(Transformed::no(node)) };
            let Some(group) = config.file_groups.get(partition) else {
                return internal_err!("a scan has no partition {partition}");
            };
            let config = FileScanConfigBuilder::from(config.clone()).with_file_groups(vec![group.clone()]).build();
            Ok(Transformed::yes(DataSourceExec::from_data_source(config) as Arc<_>))
        })
        .data()
}
