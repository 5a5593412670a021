//! Operator that merges the parts of a top-k join.

use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{SortColumn, SortOptions, concat_batches, is_not_null, lexsort_to_indices, take_record_batch};
use arrow::datatypes::{Schema, SchemaRef, UInt64Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{exec_err, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt};

use super::exec::properties;
use super::node::{ListShape, MERGE_COLUMNS};

/// Operator that finds the `k` nearest items of each query among those of all parts of the items.
///
/// The lower index comes first among equal measures, so the rows are those of a join that was not cut.
///
/// # Cost
/// A sort of `k` rows of each query and part, all of which are in memory.
#[derive(Debug)]
pub(super) struct TopKMergeExec {
    input: Arc<dyn ExecutionPlan>,
    pub(super) shape: ListShape,
    /// True if larger measures are nearer.
    pub(super) is_similarity: bool,
    /// Place of the rank among the columns, if it is there.
    pub(super) rank: Option<usize>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl TopKMergeExec {
    /// Operator over the parts of a join.
    ///
    /// # Errors
    /// The input lacks the columns of a part.
    pub(super) fn try_new(
        input: Arc<dyn ExecutionPlan>,
        shape: ListShape,
        is_similarity: bool,
        rank: Option<usize>,
    ) -> Result<Self> {
        let fields = input.schema().fields().clone();
        let Some((own, _)) = fields.split_last_chunk::<3>().filter(|(own, of_parts)| {
            rank.is_none_or(|rank| rank < own.len()) && of_parts.iter().map(|field| field.name()).eq(MERGE_COLUMNS)
        }) else {
            return exec_err!("the merge of a top-k join has an input without the columns of a part");
        };
        let schema: SchemaRef = Arc::new(Schema::new(own.to_vec()));
        let properties = properties(&schema, 1);
        Ok(Self { input, shape, is_similarity, rank, schema, properties })
    }

    #[expect(clippy::disallowed_methods, reason = "a query may read no column")]
    fn merged(&self, parts: &RecordBatch) -> Result<RecordBatch> {
        let own = self.schema.fields().len();
        let [measure, query, item] = [own, own + 1, own + 2].map(|at| Arc::clone(parts.column(at)));
        let nearest_first = SortOptions { descending: self.is_similarity, nulls_first: false };
        let is_found = is_not_null(&measure)?;
        let order = [(Arc::clone(&query), None), (measure, Some(nearest_first)), (item, None)]
            .map(|(values, options): (ArrayRef, _)| SortColumn { values, options });
        let order = lexsort_to_indices(&order, None)?;
        let queries = query.as_primitive::<UInt64Type>();
        let (mut places, mut ranks) = (Vec::new(), Vec::new());
        let is_one_query = |a: &u32, b: &u32| queries.value(*a as usize) == queries.value(*b as usize);
        for of_query in order.values().chunk_by(is_one_query) {
            // Rows of the outer join, whose measure is missing, are last.
            let found = of_query.partition_point(|&row| is_found.value(row as usize));
            let (found, missing) = of_query.split_at(found);
            let ListShape { k, skip, is_outer } = self.shape;
            let nearest = found.get(skip..found.len().min(k)).unwrap_or_default();
            places.extend(nearest.iter().map(|&row| u64::from(row)));
            ranks.extend((1i64..).zip(found).map(|(rank, _)| Some(rank)).skip(skip).take(nearest.len()));
            if let Some(&row) = missing.first().filter(|_| is_outer && nearest.is_empty()) {
                places.push(u64::from(row));
                ranks.push(None);
            }
        }
        let nearest = take_record_batch(parts, &UInt64Array::from(places))?;
        let mut columns = nearest.columns()[..own].to_vec();
        if let Some(rank) = self.rank {
            columns[rank] = Arc::new(Int64Array::from(ranks));
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(nearest.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)?)
    }
}

impl DisplayAs for TopKMergeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TopKMergeExec: k={}", self.shape.k)
    }
}

impl ExecutionPlan for TopKMergeExec {
    fn name(&self) -> &'static str {
        "TopKMergeExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
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
        let Ok([input]) = <[_; 1]>::try_from(children) else {
            return internal_err!("the merge of a top-k join has one input");
        };
        Ok(Arc::new(Self::try_new(input, self.shape, self.is_similarity, self.rank)?))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return exec_err!("the merge of a top-k join has one partition, got {partition}");
        }
        let merge = Self::try_new(Arc::clone(&self.input), self.shape, self.is_similarity, self.rank)?;
        let batch_rows = context.session_config().batch_size();
        let batches = futures::stream::once(async move {
            let memory = MemoryConsumer::new("TopKMerge").register(context.memory_pool());
            let (mut parts, mut stream) = (Vec::new(), merge.input.execute(0, context)?);
            while let Some(batch) = stream.try_next().await? {
                // The rows are there twice while they are put together.
                memory.try_grow(2 * batch.get_array_memory_size())?;
                parts.push(batch);
            }
            let rows = merge.merged(&concat_batches(&merge.input.schema(), &parts)?)?;
            let starts = (0..rows.num_rows()).step_by(batch_rows.max(1));
            let batch = move |start| {
                let _memory = &memory;
                Ok(rows.slice(start, batch_rows.min(rows.num_rows() - start)))
            };
            Ok::<_, DataFusionError>(futures::stream::iter(starts.map(batch)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches.try_flatten().boxed())))
    }
}
