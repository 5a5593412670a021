//! From the logical to the physical plan of a session.

use std::sync::Arc;

use arrow::compute::SortOptions;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};

use super::exec::TopKJoinExec;
use super::method::join_method;
use super::named_tables::TOPK_JOIN;
use super::node::TopKJoin;
use crate::null_safe_joins::with_null_safe_keys;

/// Planner of queries that knows the top-k join, and joins by `IS NOT DISTINCT FROM`.
#[derive(Debug)]
pub(crate) struct SessionPlanner;

#[async_trait]
impl QueryPlanner for SessionPlanner {
    async fn create_physical_plan(&self, plan: &LogicalPlan, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(TopKJoinPlanner)]);
        planner.create_physical_plan(&with_null_safe_keys(plan.clone())?, session).await
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
