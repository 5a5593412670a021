//! Execution of a top-k join, and the planner that puts it into a physical plan.

use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::{SortOptions, concat_batches};
use arrow::datatypes::{Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{exec_err, internal_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::expressions::Column;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildrenPropertiesMode, DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, InputDistributionRequirements,
    PlanProperties, ReplaceChildrenOptions,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use futures::{StreamExt, TryStreamExt};

use super::block_items::NamedVectors;
use super::nearest_lists::{NearItem, NearestLists, StopOnDrop, TieKeys, corrected_lists};
use super::node::{ListShape, TopKJoin, added_fields, join_method};
use super::top_k_rows::{ItemRows, PairCondition, TopKRows};
use crate::topk_join_function::TOPK_JOIN;
use crate::vectors::VectorMeasure;
use pairloom_retrieval::Method;

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
    pub(super) shape: ListShape,
    /// Order of items with equal measures: expressions on the items.
    pub(super) ties: Vec<PhysicalSortExpr>,
    /// Method that corrects cosines.
    pub(super) method: Option<Method>,
    /// Rows that the method learns from in place of the queries, and of the items.
    banks: Vec<Arc<dyn ExecutionPlan>>,
    pub(super) bank_vectors: Vec<Arc<dyn PhysicalExpr>>,
    pub(super) query_vector: Arc<dyn PhysicalExpr>,
    pub(super) item_vector: Arc<dyn PhysicalExpr>,
    /// Columns of the vectors with their tables, for messages.
    pub(super) vector_names: [Arc<str>; 2],
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
        let shape = ListShape::of_nearest(k);
        let fields = all_fields([&queries, &items], shape);
        let columns = (0..fields.len()).collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let properties = properties(&schema);
        let vector_names = [&query_vector, &item_vector].map(|vector| Arc::from(vector.to_string()));
        Self {
            queries,
            items,
            measure,
            shape,
            ties: Vec::new(),
            method,
            banks: Vec::new(),
            bank_vectors: Vec::new(),
            query_vector,
            item_vector,
            vector_names,
            condition,
            columns,
            schema,
            properties,
        }
    }

    /// Number of columns that [`Self::with_columns`] can choose from.
    pub(super) fn column_count(&self) -> usize {
        all_fields([&self.queries, &self.items], self.shape).len()
    }

    /// The same operator, whose method learns from banks.
    pub(super) fn with_banks(
        self,
        banks: Vec<Arc<dyn ExecutionPlan>>,
        bank_vectors: Vec<Arc<dyn PhysicalExpr>>,
    ) -> Self {
        Self { banks, bank_vectors, ..self }
    }

    /// The same operator, whose messages name the vectors so.
    pub(super) fn with_vector_names(self, vector_names: [Arc<str>; 2]) -> Self {
        Self { vector_names, ..self }
    }

    /// The same operator with a condition of pairs.
    pub(super) fn with_condition(self, condition: Option<Arc<dyn PhysicalExpr>>) -> Self {
        Self { condition, ..self }
    }

    /// The same operator with an order of items with equal measures.
    pub(super) fn with_ties(self, ties: Vec<PhysicalSortExpr>) -> Self {
        Self { ties, ..self }
    }

    /// The same operator with lists of another shape.
    pub(super) fn with_shape(self, shape: ListShape) -> Self {
        let names: Vec<String> = self.schema.fields().iter().map(|field| field.name().clone()).collect();
        let columns = self.columns.clone();
        Self { shape, ..self }.with_columns(columns, &names)
    }

    /// The same operator with some of its columns, under these names.
    pub(super) fn with_columns(self, columns: Vec<usize>, names: &[String]) -> Self {
        let all = all_fields([&self.queries, &self.items], self.shape);
        let field = |(&column, name): (&usize, &String)| all[column].as_ref().clone().with_name(name);
        let fields: Vec<Field> = columns.iter().zip(names).map(field).collect();
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let properties = properties(&schema);
        Self { columns, schema, properties, ..self }
    }

    /// Collects the queries and finds the lists of their items.
    async fn find(&self, context: Arc<TaskContext>) -> Result<TopKRows> {
        let memory = MemoryConsumer::new("TopKJoin").register(context.memory_pool());
        let mut queries = Vec::new();
        let mut stream = self.queries.execute(0, Arc::clone(&context))?;
        while let Some(batch) = stream.try_next().await? {
            memory.try_grow(batch.get_array_memory_size())?;
            queries.push(batch);
        }
        let all_queries = concat_batches(&self.queries.schema(), &queries)?;
        drop(queries);
        let [query_name, item_name] = &self.vector_names;
        let (vectors, measured) = NamedVectors::measured(&self.query_vector, &all_queries, query_name, self.measure)?;
        let queries = vectors.rows().clone();
        let output = |items: &ItemRows, lists: &[Vec<NearItem>]| {
            let items_or_missing = items.batches(&self.items.schema(), self.shape.is_outer)?;
            TopKRows::new((all_queries, measured), items, items_or_missing, lists, self.shape)
        };
        let threads = context.session_config().target_partitions();
        let memory_of_lists = memory.new_empty();
        let mut items = ItemRows::new(memory);
        if let Some(method) = self.method.clone() {
            let mut banks = Vec::new();
            for (bank, vector) in self.banks.iter().zip(&self.bank_vectors) {
                let rows = all_rows(bank, Arc::clone(&context), &items.memory).await?;
                banks.push(NamedVectors::new(vector, rows, &Arc::from(format!("{vector} of the bank")))?);
            }
            let block = all_rows(&self.items, context, &items.memory).await?;
            let of_items = NamedVectors::new(&self.item_vector, block.clone(), item_name)?;
            let lists = corrected_lists(method, self.shape.k, vectors, of_items, banks, threads).await?;
            items.keep(block, &lists)?;
            return output(&items, &lists);
        }
        let stop = StopOnDrop::default();
        let mut keys = TieKeys::new(&self.ties, &self.items.schema())?;
        let mut lists = NearestLists::new(self.measure, self.shape.k, vectors, threads)?.stop_with(Arc::clone(&stop.0));
        if self.shape.k == 0 {
            return output(&items, lists.lists());
        }
        let mut stream = self.items.execute(0, context)?;
        let (mut waiting, mut rows) = (Vec::new(), 0);
        loop {
            let batch = stream.try_next().await?;
            let is_last = batch.is_none();
            rows += batch.as_ref().map_or(0, RecordBatch::num_rows);
            waiting.extend(batch);
            if rows > 0 && queries.num_rows() > 0 && (is_last || rows >= BLOCK_ROWS) {
                let block = concat_batches(&self.items.schema(), &waiting)?;
                memory_of_lists.try_resize(lists.bytes().saturating_add(lists.bytes_of_block(rows)))?;
                // On another thread, so that an interrupted query ends at once.
                let (join, own) = (self.clone(), queries.clone());
                let added = tokio::task::spawn_blocking(move || {
                    join.add_block(&own, block, &mut lists, &mut items, &mut keys)?;
                    Ok::<_, DataFusionError>((lists, items, keys))
                });
                (lists, items, keys) = added.await.map_err(|error| DataFusionError::External(Box::new(error)))??;
                memory_of_lists.try_resize(lists.bytes())?;
                (waiting, rows) = (Vec::new(), 0);
            }
            if is_last {
                break;
            }
        }
        output(&items, lists.lists())
    }

    fn add_block(
        &self,
        queries: &RecordBatch,
        block: RecordBatch,
        lists: &mut NearestLists,
        items: &mut ItemRows,
        keys: &mut Option<TieKeys>,
    ) -> Result<()> {
        let vectors = NamedVectors::new(&self.item_vector, block, &self.vector_names[1])?;
        let (block, first) = (vectors.rows(), items.next);
        if let Some(keys) = keys {
            lists.order_ties_by(keys.of_block(&self.ties, block)?);
        }
        match &self.condition {
            None => lists.add(&vectors, first, None)?,
            Some(condition) => {
                let condition = PairCondition::new(condition, queries, block)?;
                lists.add(&vectors, first, Some(&|pairs| condition.evaluate(pairs)))?;
            }
        }
        items.keep(vectors.into_rows(), lists.lists())
    }
}

/// All rows of an input as one batch.
async fn all_rows(
    input: &Arc<dyn ExecutionPlan>,
    context: Arc<TaskContext>,
    memory: &MemoryReservation,
) -> Result<RecordBatch> {
    let mut stream = input.execute(0, context)?;
    let mut batches = Vec::new();
    while let Some(batch) = stream.try_next().await? {
        memory.try_grow(batch.get_array_memory_size())?;
        batches.push(batch);
    }
    Ok(concat_batches(&input.schema(), &batches)?)
}

/// Columns of the queries, of the items, and those of the join.
fn all_fields([queries, items]: [&Arc<dyn ExecutionPlan>; 2], shape: ListShape) -> Vec<FieldRef> {
    let may_be_missing = |field: FieldRef| {
        if shape.is_outer { Arc::new(field.as_ref().clone().with_nullable(true)) } else { field }
    };
    let fields = |of: &Arc<dyn ExecutionPlan>| of.schema().fields().iter().cloned().collect::<Vec<_>>();
    let of_lists = fields(items).into_iter().chain(added_fields().map(Arc::new)).map(may_be_missing);
    fields(queries).into_iter().chain(of_lists).collect()
}

fn properties(schema: &SchemaRef) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(Arc::clone(schema)),
        Partitioning::UnknownPartitioning(1),
        EmissionType::Final,
        Boundedness::Bounded,
    ))
}

impl DisplayAs for TopKJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measure, shape, ties, method, query_vector, item_vector, condition, .. } = self;
        write!(f, "TopKJoinExec: k={}, {}({query_vector}, {item_vector})", shape.k, measure.name())?;
        if shape.skip > 0 {
            write!(f, ", skip {}", shape.skip)?;
        }
        if shape.is_outer {
            write!(f, ", outer")?;
        }
        ties.iter().try_for_each(|tie| write!(f, ", then {tie}"))?;
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
        [&self.queries, &self.items].into_iter().chain(&self.banks).collect()
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        self.input_distribution_requirements().into_per_child()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition; 2 + self.banks.len()])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false; 2 + self.banks.len()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let vectors = [&self.query_vector, &self.item_vector].into_iter().chain(&self.bank_vectors);
        let ties = self.ties.iter().map(|tie| &tie.expr);
        for expr in vectors.chain(ties).chain(&self.condition) {
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
        let [queries, items, banks @ ..] = &*children else {
            return internal_err!("a top-k join has two inputs at least");
        };
        let (queries, items) = (Arc::clone(queries), Arc::clone(items));
        let new = Self { queries, items, banks: banks.to_vec(), ..Self::clone(&self) };
        Ok(Arc::new(Self { properties: properties(&new.schema), ..new }))
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
            let starts = (0..rows.len()).step_by(batch_rows.max(1));
            let batches = starts
                .map(move |start| rows.batch(start, start.saturating_add(batch_rows), &join.columns, &join.schema));
            Ok::<_, DataFusionError>(futures::stream::iter(batches))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten().boxed())))
    }
}

/// Planner of queries that knows the top-k join, and joins by `IS NOT DISTINCT FROM`.
#[derive(Debug)]
pub(crate) struct SessionPlanner;

#[async_trait]
impl QueryPlanner for SessionPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(TopKJoinPlanner)]);
        planner.create_physical_plan(plan, session).await
    }
}

/// Planner of top-k joins.
struct TopKJoinPlanner;

#[async_trait]
impl ExtensionPlanner for TopKJoinPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(join), [queries, items, banks @ ..]) = (node.as_any().downcast_ref::<TopKJoin>(), inputs) else {
            return Ok(None);
        };
        let both = join.queries.schema().join(join.items.schema())?;
        let expr = |expr, schema| planner.create_physical_expr(expr, schema, session, context);
        let vectors = [expr(&join.query_vector, join.queries.schema())?, expr(&join.item_vector, join.items.schema())?];
        let condition = join.condition.as_ref().map(|condition| expr(condition, &both));
        let condition: Option<Arc<dyn PhysicalExpr>> = condition.transpose()?;
        let inputs = [Arc::clone(queries), Arc::clone(items)];
        let method = join.method.as_deref().map(join_method).transpose()?;
        let mut bank_vectors = Vec::new();
        for (bank, vector) in join.banks.iter().zip(&join.bank_vectors) {
            bank_vectors.push(expr(vector, bank.schema())?);
        }
        let mut ties = Vec::new();
        for tie in &join.ties {
            let options = SortOptions { descending: !tie.asc, nulls_first: tie.nulls_first };
            ties.push(PhysicalSortExpr::new(expr(&tie.expr, join.items.schema())?, options));
        }
        if let Some(parameter) = &join.k_parameter {
            return plan_err!("k of `{TOPK_JOIN}` is {parameter}, which has no value");
        }
        let (shape, names) = (join.shape, join.vector_names.clone());
        let join = TopKJoinExec::new(inputs, join.measure, shape.k, method, vectors, condition);
        let join = join.with_banks(banks.to_vec(), bank_vectors).with_vector_names(names).with_ties(ties);
        Ok(Some(Arc::new(join.with_shape(shape))))
    }
}
