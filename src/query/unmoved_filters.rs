//! Filters that stay where the query has them.
//!
//! DataFusion 55 moves a condition without columns below an aggregate without `GROUP BY`, which has a row even of no input:
//! `SELECT count(*) FROM t HAVING false` had a count of 0 (<https://github.com/apache/datafusion/pull/11897>). And it moves
//! `random() < 0.1` below joins, aggregates and windows, where it chooses among other rows than the query says
//! (<https://github.com/apache/datafusion/issues/7876>).
//!
//! Its physical rules look a column up by its name. Of two columns with one name they take another one: after a join, a
//! condition on a column of one table filtered the other (<https://github.com/apache/datafusion/pull/25259>). And the second
//! input of a join is filtered by the bits of the keys of the first. -0.0 and 0.0 have other bits, and are equal in the join
//! (since <https://github.com/apache/datafusion/pull/22835>).

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;

/// Rules in which DataFusion's rule that moves filters leaves some of them.
pub(super) fn with_unmoved_filters(
    rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let moves = PushDownFilter::new();
    let name = moves.name().to_owned();
    let unmoved: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(UnmovedFilters { moves });
    rules.into_iter().map(|rule| if rule.name() == name { Arc::clone(&unmoved) } else { rule }).collect()
}

/// Optimizer rule that moves filters, but for those that have to stay.
#[derive(Debug)]
struct UnmovedFilters {
    moves: PushDownFilter,
}

impl OptimizerRule for UnmovedFilters {
    fn name(&self) -> &'static str {
        "push_down_filter"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else { return self.moves.rewrite(plan, config) };
        // Filters over one another are one: otherwise DataFusion's rule joins them, and moves the result.
        let mut conditions = split_conjunction_owned(filter.predicate);
        let mut input = filter.input;
        while let LogicalPlan::Filter(below) = input.as_ref() {
            let mut first = split_conjunction_owned(below.predicate.clone());
            first.append(&mut conditions);
            conditions = first;
            input = Arc::clone(&below.input);
        }
        let (staying, others): (Vec<_>, Vec<_>) = conditions.into_iter().partition(Expr::is_volatile);
        let rest = with_filter(others, input);
        let rest = match rest {
            LogicalPlan::Filter(ref filter) if !has_row_of_no_input(&filter.input) => {
                self.moves.rewrite(rest, config)?
            }
            _ => Transformed::no(rest),
        };
        Ok(rest.update_data(|rest| with_filter(staying, Arc::new(rest))))
    }
}

fn with_filter(conditions: Vec<Expr>, input: Arc<LogicalPlan>) -> LogicalPlan {
    match conjunction(conditions) {
        Some(condition) => LogicalPlan::Filter(Filter::new(condition, input)),
        None => Arc::unwrap_or_clone(input),
    }
}

/// True for an aggregate that has a row even if its input has none.
fn has_row_of_no_input(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            aggregate.group_expr.is_empty() || matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_), ..])
        }
        _ => false,
    }
}

/// Start of the names of DataFusion's physical rules that move filters.
const MOVES_FILTERS: &str = "FilterPushdown";

/// DataFusion's physical optimizer rules. Those that move filters see the parts of a plan in which they are right.
pub(super) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let in_parts = |rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>| {
        let moves = rule.name().starts_with(MOVES_FILTERS);
        if moves { Arc::new(FiltersOfParts { rule }) as _ } else { rule }
    };
    PhysicalOptimizer::new().rules.into_iter().map(in_parts).collect()
}

/// Rule that applies a rule to the largest parts of a plan without an operator at which it would be wrong.
#[derive(Debug)]
struct FiltersOfParts {
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
}

impl PhysicalOptimizerRule for FiltersOfParts {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_down(|node| {
            if node.exists(stops_filters)? {
                return Ok(Transformed::no(node));
            }
            Ok(Transformed::new(self.rule.optimize(node, config)?, true, TreeNodeRecursion::Jump))
        })
        .data()
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

/// True for an operator with two columns of one name, and for a join by a floating-point number. Lists and records of them
/// are compared by their bits.
fn stops_filters(node: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let mut names = BTreeSet::new();
    let schema = node.schema();
    if !schema.fields().iter().all(|field| names.insert(field.name())) {
        return Ok(true);
    }
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(false) };
    let schema = join.left().schema();
    let mut is_float = false;
    for (key, _) in join.on() {
        is_float |= key.data_type(&schema)?.is_floating();
    }
    Ok(is_float)
}
