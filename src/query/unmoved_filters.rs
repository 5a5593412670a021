//! Filters that stay where the query has them.
//!
//! DataFusion 55 moves a condition without columns below an aggregate without `GROUP BY`, which has a row even of no input:
//! `SELECT count(*) FROM t HAVING false` had a count of 0. And it moves `random() < 0.1` below joins, aggregates and windows,
//! where it chooses among other rows than the query says. A condition with a subquery it moves below projections, whose columns
//! the subquery may name.
//!
//! It looks up the column of a filter by its name when it moves the filter below a projection. Of two columns with one name it
//! takes the last: after a join with a computed key, a condition on a column of the left table filtered the right one. An
//! operator that takes no filters stands above such a projection while they are moved.
//!
//! The same operator stands above the second input of a join by floating-point numbers: DataFusion 55 would filter it by the
//! bits of the numbers of the first. -0.0 and 0.0 have other bits, and are equal in the join.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};

use crate::pass_through::{PassThroughExec, ReadInput};

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
        let (staying, others): (Vec<_>, Vec<_>) =
            conditions.into_iter().partition(|condition| condition.is_volatile() || has_subquery(condition));
        let rest = with_filter(others, input);
        let rest = match rest {
            LogicalPlan::Filter(ref filter) if has_row_of_no_input(&filter.input) => Transformed::no(rest),
            LogicalPlan::Filter(_) => self.moves.rewrite(rest, config)?,
            // All conditions stay.
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

/// True for a condition with a subquery that may depend on the row. It becomes a join of the rows that the filter reads.
fn has_subquery(condition: &Expr) -> bool {
    let found = condition.exists(|part| {
        Ok(match part {
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => true,
            Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
            _ => false,
        })
    });
    found.unwrap_or(true)
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

/// Start of the names of DataFusion's rules that move filters.
const MOVES_FILTERS: &str = "FilterPushdown";

/// Operator that takes no filters.
type FilterBarrierExec = PassThroughExec<FilterBarrier>;

/// DataFusion's physical optimizer rules, which leave filters above projections with two columns of one name.
pub(super) fn physical_rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> = Vec::new();
    for rule in PhysicalOptimizer::new().rules {
        if rule.name().starts_with(MOVES_FILTERS) {
            rules.push(Arc::new(AddBarriers));
            rules.push(rule);
            rules.push(Arc::new(RemoveBarriers));
        } else {
            rules.push(rule);
        }
    }
    rules
}

/// Way in which the operator reads: as its input.
#[derive(Debug)]
struct FilterBarrier;

impl ReadInput for FilterBarrier {
    const NAME: &'static str = "FilterBarrierExec";

    fn of_other(&self, _: &Arc<dyn ExecutionPlan>) -> Self {
        Self
    }

    fn read(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        input.execute(partition, context)
    }
}

fn with_barrier(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(FilterBarrierExec::new(input, FilterBarrier))
}

/// Returns true if a key of the join is a floating-point number. Lists and records of them are compared by their bits.
fn has_float_key(join: &HashJoinExec) -> Result<bool> {
    let schema = join.left().schema();
    for (key, _) in join.on() {
        if key.data_type(&schema)?.is_floating() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Rule that puts the operator above projections, and above the second inputs of joins.
#[derive(Debug)]
struct AddBarriers;

impl PhysicalOptimizerRule for AddBarriers {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let has_equal_names = node.downcast_ref::<ProjectionExec>().is_some_and(|projection| {
                let mut names = BTreeSet::new();
                projection.expr().iter().any(|column| !names.insert(column.alias.as_str()))
            });
            if has_equal_names {
                return Ok(Transformed::yes(with_barrier(node)));
            }
            match node.downcast_ref::<HashJoinExec>() {
                Some(join) if has_float_key(join)? => {
                    let children = vec![Arc::clone(join.left()), with_barrier(Arc::clone(join.right()))];
                    Ok(Transformed::yes(replace_children_if_necessary(node, children)?))
                }
                _ => Ok(Transformed::no(node)),
            }
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "add_filter_barriers"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Rule that removes the operator, which other rules do not know.
#[derive(Debug)]
struct RemoveBarriers;

impl PhysicalOptimizerRule for RemoveBarriers {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            Ok(match node.downcast_ref::<FilterBarrierExec>() {
                Some(_) => Transformed::yes(Arc::clone(node.children()[0])),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "remove_filter_barriers"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::Session;
    use crate::testing::rows;

    /// Rows by hand.
    #[test]
    fn conditions_without_columns_stay_above_aggregates() {
        let session = Session::of_empty_tables([]).unwrap();
        let t = "(VALUES (1), (2)) t(x)";
        let value = |value: i32| format!("(SELECT max(value) FROM range({value}, {}))", value + 1);
        let (two, three) = (value(2), value(3));
        for (sql, wanted) in [
            (format!("SELECT count(*) FROM {t} HAVING {two} = 2"), &["2"][..]),
            (format!("SELECT count(*) FROM {t} HAVING {three} = 2"), &[]),
            (format!("SELECT n FROM (SELECT 'a' a, count(*) n FROM {t}) WHERE a = 'z'"), &[]),
            (format!("SELECT n FROM (SELECT 'a' a, count(*) n FROM {t}) WHERE a = 'a'"), &["2"]),
            (format!("SELECT n FROM (SELECT n FROM (SELECT count(*) n FROM {t}) WHERE n = 2) WHERE {three} = 2"), &[]),
            (format!("SELECT n FROM (SELECT count(*) n FROM {t} GROUP BY ROLLUP (x)) WHERE {three} = 2"), &[]),
            (format!("SELECT n FROM (SELECT x, count(*) n FROM {t} GROUP BY x) WHERE {three} = 2"), &[]),
            (format!("SELECT n FROM (SELECT x, count(*) n FROM {t} GROUP BY x) WHERE x = 1 AND {two} = 2"), &["1"]),
        ] {
            assert_eq!(rows(&session, &sql), wanted, "{sql}");
        }
    }

    /// Pairs of 2,000 rows: some lose half, unless they are chosen as a whole, but with a probability of 2⁻¹⁰⁰⁰.
    #[test]
    fn random_conditions_choose_among_the_rows_that_the_query_says() {
        let session = Session::of_empty_tables([]).unwrap();
        let pairs = "(SELECT value / 2 x FROM range(0, 2000)) t";
        // Groups are kept whole.
        let groups = format!("SELECT n FROM (SELECT x, count(*) n FROM {pairs} GROUP BY x) WHERE random() < 0.5");
        let sizes = rows(&session, &format!("SELECT DISTINCT n FROM ({groups})"));
        assert_eq!(sizes, ["2"]);
        let repeats = format!(
            "SELECT x, r FROM (SELECT x, row_number() OVER (PARTITION BY x) r FROM {pairs}) WHERE random() < 0.5"
        );
        let without_first =
            format!("SELECT count(*) > 0 FROM (SELECT min(r) m FROM ({repeats}) GROUP BY x) WHERE m = 2");
        assert_eq!(rows(&session, &without_first), ["true"]);
        // Pairs of a join are chosen one by one.
        let joined = "SELECT x FROM (SELECT value x FROM range(0, 1000)) a CROSS JOIN (VALUES (1), (2)) t(y)";
        let kept = format!("SELECT x FROM ({joined} WHERE random() < 0.5) GROUP BY x HAVING count(*) = 1");
        let halves = format!("SELECT count(*) > 0 FROM ({kept})");
        assert_eq!(rows(&session, &halves), ["true"]);
    }
}
