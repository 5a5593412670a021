//! Execution of a top-k join.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::{concat_batches, interleave_record_batch, take, take_record_batch};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{exec_err, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements,
    PlanProperties, ReplaceChildrenOptions,
};
use futures::{StreamExt, TryStreamExt};

use super::corrected_lists::corrected_lists;
use super::nearest_lists::{NearItem, NearestLists, StopOnDrop};
use super::node::added_fields;
use crate::retrieval::Method;
use crate::sql::vectors::{ListVectors, VectorMeasure};

/// Rows of items that are searched together.
const BLOCK_ROWS: usize = 16_384;

/// Operator of a top-k join: collects the queries, then reads the items block by block.
///
/// # Cost
/// The product of all queries and items. Memory: the queries, a block of items, and the items of all lists; with a method
/// all items.
#[derive(Debug, Clone)]
pub(super) struct TopKJoinExec {
    queries: Arc<dyn ExecutionPlan>,
    items: Arc<dyn ExecutionPlan>,
    pub(super) measure: VectorMeasure,
    pub(super) k: usize,
    /// Method that corrects cosines.
    pub(super) method: Option<Method>,
    pub(super) query_vector: Arc<dyn PhysicalExpr>,
    pub(super) item_vector: Arc<dyn PhysicalExpr>,
    pub(super) condition: Option<Arc<dyn PhysicalExpr>>,
    /// Columns of the output: places among those of the queries, those of the items, rank and measure.
    pub(super) columns: Vec<usize>,
    pub(super) schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl TopKJoinExec {
    pub(super) fn new(
        [queries, items]: [Arc<dyn ExecutionPlan>; 2],
        measure: VectorMeasure,
        k: usize,
        method: Option<Method>,
        [query_vector, item_vector]: [Arc<dyn PhysicalExpr>; 2],
        condition: Option<Arc<dyn PhysicalExpr>>,
    ) -> Self {
        let fields = all_fields([&queries, &items]);
        let columns = (0..fields.len()).collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let properties = properties(&schema);
        Self { queries, items, measure, k, method, query_vector, item_vector, condition, columns, schema, properties }
    }

    /// The same operator with a condition of pairs.
    pub(super) fn with_condition(self, condition: Option<Arc<dyn PhysicalExpr>>) -> Self {
        Self { condition, ..self }
    }

    /// The same operator with some of its columns, under these names.
    pub(super) fn with_columns(self, columns: Vec<usize>, names: &[String]) -> Self {
        let all = all_fields([&self.queries, &self.items]);
        let field = |(&column, name): (&usize, &String)| all[column].as_ref().clone().with_name(name);
        let fields: Vec<Field> = columns.iter().zip(names).map(field).collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let properties = properties(&schema);
        Self { columns, schema, properties, ..self }
    }

    /// Collects the queries and finds the lists of their items. Returns the parts of the rows of the output.
    async fn find(&self, context: Arc<TaskContext>) -> Result<TopKRows> {
        let memory = MemoryConsumer::new("TopKJoin").register(context.memory_pool());
        let mut queries = Vec::new();
        let mut stream = self.queries.execute(0, Arc::clone(&context))?;
        while let Some(batch) = stream.try_next().await? {
            memory.try_grow(batch.get_array_memory_size())?;
            queries.push(batch);
        }
        let queries = concat_batches(&self.queries.schema(), &queries)?;
        let vectors = self.query_vector.evaluate(&queries)?.into_array(queries.num_rows())?;
        let has_vector = rows_with_vectors(&vectors)?;
        let (queries, vectors) = (take_record_batch(&queries, &has_vector)?, take(&vectors, &has_vector, None)?);
        let threads = context.session_config().target_partitions();
        let vectors = ListVectors::new(&vectors)?;
        let memory_of_lists = memory.new_empty();
        let mut items = ItemRows { kept: Vec::new(), next: 0, memory: memory.new_empty(), _queries: memory };
        if let Some(method) = self.method.clone() {
            let block = self.all_items(context, &items.memory).await?;
            let of_items = self.item_vector.evaluate(&block)?.into_array(block.num_rows())?;
            let lists = corrected_lists(method, self.k, vectors, ListVectors::new(&of_items)?, threads).await?;
            items.keep(block, &lists)?;
            return TopKRows::new(queries, &items, &lists);
        }
        let stop = StopOnDrop::default();
        let mut lists = NearestLists::new(self.measure, self.k, vectors, threads)?.stop_with(Arc::clone(&stop.0));
        let mut stream = self.items.execute(0, context)?;
        let (mut waiting, mut rows) = (Vec::new(), 0);
        loop {
            let batch = stream.try_next().await?;
            let is_last = batch.is_none();
            rows += batch.as_ref().map_or(0, RecordBatch::num_rows);
            waiting.extend(batch);
            if rows > 0 && queries.num_rows() > 0 && (is_last || rows >= BLOCK_ROWS) {
                let block = concat_batches(&self.items.schema(), &waiting)?;
                // On another thread, so that an interrupted query ends at once.
                let (join, own) = (self.clone(), queries.clone());
                let added = tokio::task::spawn_blocking(move || {
                    join.add_block(&own, block, &mut lists, &mut items)?;
                    Ok::<_, DataFusionError>((lists, items))
                });
                (lists, items) = added.await.map_err(|error| DataFusionError::External(Box::new(error)))??;
                memory_of_lists.try_resize(lists.bytes())?;
                (waiting, rows) = (Vec::new(), 0);
            }
            if is_last {
                break;
            }
        }
        TopKRows::new(queries, &items, lists.lists())
    }

    /// All items as one batch.
    async fn all_items(&self, context: Arc<TaskContext>, memory: &MemoryReservation) -> Result<RecordBatch> {
        let mut stream = self.items.execute(0, context)?;
        let mut batches = Vec::new();
        while let Some(batch) = stream.try_next().await? {
            memory.try_grow(batch.get_array_memory_size())?;
            batches.push(batch);
        }
        Ok(concat_batches(&self.items.schema(), &batches)?)
    }

    fn add_block(
        &self,
        queries: &RecordBatch,
        block: RecordBatch,
        lists: &mut NearestLists,
        items: &mut ItemRows,
    ) -> Result<()> {
        let vectors = ListVectors::new(&self.item_vector.evaluate(&block)?.into_array(block.num_rows())?)?;
        let first = items.next;
        match &self.condition {
            None => lists.add(&vectors, first, None)?,
            Some(condition) => {
                let condition = PairCondition::new(condition, queries, &block)?;
                lists.add(&vectors, first, Some(&|pairs| condition.evaluate(pairs)))?;
            }
        }
        items.keep(block, lists.lists())
    }
}

/// Columns of the queries, of the items, and those of the join.
fn all_fields(inputs: [&Arc<dyn ExecutionPlan>; 2]) -> Vec<FieldRef> {
    let of_inputs = inputs.into_iter().flat_map(|input| input.schema().fields().iter().cloned().collect::<Vec<_>>());
    of_inputs.chain(added_fields().map(Arc::new)).collect()
}

fn properties(schema: &SchemaRef) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(Arc::clone(schema)),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Final,
        Boundedness::Bounded,
    ))
}

/// Rows that have a vector.
fn rows_with_vectors(vectors: &ArrayRef) -> Result<UInt64Array> {
    let vectors = ListVectors::new(vectors)?;
    let rows = (0..vectors.len()).filter(|&row| vectors.get(row).is_some());
    Ok(UInt64Array::from_iter_values(rows.map(|row| row as u64)))
}

/// Condition of pairs of a query and an item of a block.
struct PairCondition<'b> {
    /// The condition on the columns that it reads alone, which are named by their numbers.
    condition: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    /// Columns that the condition reads, of the queries and of the items.
    columns: [Vec<&'b ArrayRef>; 2],
}

impl<'b> PairCondition<'b> {
    fn new(condition: &Arc<dyn PhysicalExpr>, queries: &'b RecordBatch, block: &'b RecordBatch) -> Result<Self> {
        let mut read: Vec<usize> = collect_columns(condition).iter().map(Column::index).collect();
        read.sort_unstable();
        let of_queries = queries.num_columns();
        let (mut fields, mut columns) = (Vec::new(), [Vec::new(), Vec::new()]);
        for (number, &column) in read.iter().enumerate() {
            let (side, batch, place) =
                if column < of_queries { (0, queries, column) } else { (1, block, column - of_queries) };
            // Columns of the two sides may have one name, so they are numbered.
            fields.push(batch.schema().field(place).clone().with_name(number.to_string()));
            columns[side].push(batch.column(place));
        }
        let numbered = Arc::clone(condition).transform(|expr| {
            let column = expr.downcast_ref::<Column>().and_then(|column| read.binary_search(&column.index()).ok());
            Ok(match column {
                Some(number) => Transformed::yes(Arc::new(Column::new(&number.to_string(), number)) as Arc<_>),
                None => Transformed::no(expr),
            })
        });
        Ok(Self { condition: numbered.data()?, schema: Arc::new(Schema::new(fields)), columns })
    }

    #[expect(clippy::disallowed_methods, reason = "a condition may read no column")]
    fn evaluate(&self, pairs: &[(usize, usize)]) -> Result<BooleanArray> {
        let places = [
            UInt64Array::from_iter_values(pairs.iter().map(|(query, _)| *query as u64)),
            UInt64Array::from_iter_values(pairs.iter().map(|(_, item)| *item as u64)),
        ];
        let mut columns = Vec::new();
        for (of_side, places) in self.columns.iter().zip(&places) {
            for column in of_side {
                columns.push(take(column, places, None)?);
            }
        }
        let rows = RecordBatchOptions::new().with_row_count(Some(pairs.len()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &rows)?;
        let accepted = self.condition.evaluate(&batch)?.into_array(pairs.len())?;
        Ok(as_boolean_array(&accepted)?.clone())
    }
}

/// Rows of the items that are in a list.
struct ItemRows {
    /// Indices of items, in order, and their rows.
    kept: Vec<(Vec<u64>, RecordBatch)>,
    /// Index of the next item.
    next: u64,
    memory: MemoryReservation,
    /// Memory of the queries.
    _queries: MemoryReservation,
}

impl ItemRows {
    /// Keeps those rows of a block that are in a list, and removes others that are no longer.
    fn keep(&mut self, block: RecordBatch, lists: &[Vec<NearItem>]) -> Result<()> {
        let first = self.next;
        self.next += block.num_rows() as u64;
        let indices = (first..self.next).collect();
        self.kept.push((indices, block));
        let mut used: Vec<u64> = lists.iter().flatten().map(|near| near.item).collect();
        used.sort_unstable();
        used.dedup();
        let mut bytes = 0;
        for (indices, rows) in &mut self.kept {
            let is_used = |item: &u64| used.binary_search(item).is_ok();
            let still: Vec<usize> = (0..indices.len()).filter(|&at| is_used(&indices[at])).collect();
            if still.len() * 2 < indices.len() {
                let places = UInt64Array::from_iter_values(still.iter().map(|&at| at as u64));
                *rows = take_record_batch(rows, &places)?;
                *indices = still.iter().map(|&at| indices[at]).collect();
            }
            bytes += rows.get_array_memory_size();
        }
        self.kept.retain(|(indices, _)| !indices.is_empty());
        self.memory.try_resize(bytes)
    }
}

/// Parts of the rows of the output.
struct TopKRows {
    queries: RecordBatch,
    items: Vec<RecordBatch>,
    /// Row of the query, batch and row of the item, rank and measure of each row of the output.
    rows: Vec<TopKRow>,
}

struct TopKRow {
    query: u64,
    item: (usize, usize),
    rank: i64,
    value: f64,
}

impl TopKRows {
    fn new(queries: RecordBatch, items: &ItemRows, lists: &[Vec<NearItem>]) -> Result<Self> {
        let mut places = HashMap::new();
        for (batch, (indices, _)) in items.kept.iter().enumerate() {
            places.extend(indices.iter().enumerate().map(|(row, &item)| (item, (batch, row))));
        }
        let mut rows = Vec::new();
        for (query, list) in (0u64..).zip(lists) {
            for (rank, near) in (1i64..).zip(list) {
                let Some(&item) = places.get(&near.item) else { return internal_err!("a row of a list is missing") };
                rows.push(TopKRow { query, item, rank, value: near.value });
            }
        }
        Ok(Self { queries, items: items.kept.iter().map(|(_, rows)| rows.clone()).collect(), rows })
    }

    /// Rows `start` to `end` of the output, with some of its columns.
    #[expect(clippy::disallowed_methods, reason = "a query may read no column")]
    fn batch(&self, start: usize, end: usize, columns: &[usize], schema: &SchemaRef) -> Result<RecordBatch> {
        let rows = &self.rows[start..end.min(self.rows.len())];
        let of_queries = self.queries.num_columns();
        let of_items = self.items.first().map_or(0, RecordBatch::num_columns);
        let side = |range: std::ops::Range<usize>| -> Vec<usize> {
            columns.iter().filter(|column| range.contains(column)).map(|column| column - range.start).collect()
        };
        let (query_columns, item_columns) = (side(0..of_queries), side(of_queries..of_queries + of_items));
        let places = UInt64Array::from_iter_values(rows.iter().map(|row| row.query));
        let queries = match query_columns.as_slice() {
            [] => None,
            some => Some(take_record_batch(&self.queries.project(some)?, &places)?),
        };
        let places: Vec<(usize, usize)> = rows.iter().map(|row| row.item).collect();
        let items = match item_columns.as_slice() {
            [] => None,
            some => {
                let items = self.items.iter().map(|rows| rows.project(some)).collect::<Result<Vec<_>, _>>()?;
                Some(interleave_record_batch(&items.iter().collect::<Vec<_>>(), &places)?)
            }
        };
        let columns_of = |side: &Option<RecordBatch>| side.as_ref().map_or(Vec::new(), |rows| rows.columns().to_vec());
        let (mut queries, mut items) = (columns_of(&queries).into_iter(), columns_of(&items).into_iter());
        let column = |&column: &usize| -> Option<ArrayRef> {
            if column < of_queries {
                queries.next()
            } else if column < of_queries + of_items {
                items.next()
            } else if column == of_queries + of_items {
                Some(Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.rank))))
            } else {
                Some(Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.value))))
            }
        };
        let Some(values) = columns.iter().map(column).collect::<Option<Vec<_>>>() else {
            return internal_err!("a column of the top-k join is missing");
        };
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), values, &options)?)
    }
}

impl DisplayAs for TopKJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measure, k, method, query_vector, item_vector, condition, .. } = self;
        write!(f, "TopKJoinExec: k={k}, {}({query_vector}, {item_vector})", measure.name())?;
        method.as_ref().map_or(Ok(()), |method| write!(f, ", method {}", method.name()))?;
        condition.as_ref().map_or(Ok(()), |condition| write!(f, ", where {condition}"))
    }
}

impl ExecutionPlan for TopKJoinExec {
    fn name(&self) -> &'static str {
        "TopKJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.queries, &self.items]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; 2])
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for expr in [&self.query_vector, &self.item_vector].into_iter().chain(&self.condition) {
            if f(expr)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Ok([queries, items]) = <[_; 2]>::try_from(children) else {
            return internal_err!("a top-k join has two inputs");
        };
        Ok(Arc::new(Self { queries, items, ..Self::clone(&self) }))
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        self.replace_children(children, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute))
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let place =
            |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().map(|column| self.columns[column.index()]);
        let columns: Option<Vec<usize>> = projection.expr().iter().map(|projected| place(&projected.expr)).collect();
        let Some(columns) = columns else { return Ok(None) };
        let schema = projection.schema();
        let properties = properties(&schema);
        Ok(Some(Arc::new(Self { columns, schema, properties, ..self.clone() })))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return exec_err!("a top-k join has one partition, got {partition}");
        }
        let (join, batch_rows) = (self.clone(), context.session_config().batch_size());
        let schema = Arc::clone(&self.schema);
        let batches = futures::stream::once(async move {
            let rows = join.find(context).await?;
            let starts = (0..rows.rows.len()).step_by(batch_rows.max(1));
            let batches = starts
                .map(move |start| rows.batch(start, start.saturating_add(batch_rows), &join.columns, &join.schema));
            Ok::<_, DataFusionError>(futures::stream::iter(batches))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten().boxed())))
    }
}
