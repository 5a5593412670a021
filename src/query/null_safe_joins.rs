//! Keys of joins by `IS NOT DISTINCT FROM`, for which missing values are equal.
//!
//! DataFusion 55 makes such a condition the key of a join with a setting for all its keys: missing values are equal. Later rules
//! join the keys of several joins and conditions in one, with the setting of one of them. Then missing values were equal for `=`
//! too, or different for `IS NOT DISTINCT FROM`. Here the condition becomes a key when these rules are done.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerContext, OptimizerRule};

/// Rules in which DataFusion's rule that finds keys of joins leaves conditions with `IS NOT DISTINCT FROM`.
pub(super) fn without_null_safe_keys(
    rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let finds = ExtractEquijoinPredicate::new();
    let name = finds.name().to_owned();
    let equal: Arc<dyn OptimizerRule + Send + Sync> = Arc::new(EqualKeys { finds });
    rules.into_iter().map(|rule| if rule.name() == name { Arc::clone(&equal) } else { rule }).collect()
}

/// Optimized plan whose joins without keys have those of their conditions with `IS NOT DISTINCT FROM`.
///
/// # Errors
/// The type of a key is unknown.
pub(super) fn with_null_safe_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    let (finds, config) = (ExtractEquijoinPredicate::new(), OptimizerContext::new());
    let found = plan.transform_up_with_subqueries(|node| match &node {
        LogicalPlan::Join(join) if join.on.is_empty() && join.filter.is_some() => finds.rewrite(node, &config),
        _ => Ok(Transformed::no(node)),
    })?;
    Ok(found.data)
}

/// Optimizer rule that makes equalities of two tables the keys of a join.
#[derive(Debug)]
struct EqualKeys {
    finds: ExtractEquijoinPredicate,
}

impl OptimizerRule for EqualKeys {
    fn name(&self) -> &'static str {
        "extract_equijoin_predicate"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !matches!(&plan, LogicalPlan::Join(join) if join.filter.is_some() && !is_null_safe(&plan)) {
            return Ok(Transformed::no(plan));
        }
        let found = self.finds.rewrite(plan.clone(), config)?;
        Ok(if is_null_safe(&found.data) { Transformed::no(plan) } else { found })
    }
}

/// True for a join for whose keys missing values are equal.
fn is_null_safe(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Join(join) if join.null_equality == NullEquality::NullEqualsNull)
}

#[cfg(test)]
mod tests {
    use crate::Session;
    use crate::testing::rows;

    /// Numbers of rows of `DuckDB` 2.0, the first four counted by hand too.
    #[test]
    fn missing_values_are_equal_for_their_own_condition_alone() {
        let session = Session::of_empty_tables([]).unwrap();
        let with = "WITH n(k, u) AS (VALUES (1, 1), (NULL, 1), (1, NULL), (NULL, NULL), (2, 1))";
        for (from, wanted) in [
            ("n a JOIN n b ON a.k IS NOT DISTINCT FROM b.k", "9"),
            ("n a JOIN n b ON a.k = b.k JOIN n c ON c.u IS NOT DISTINCT FROM b.u", "13"),
            ("n a JOIN n b ON a.k IS NOT DISTINCT FROM b.k JOIN n c ON a.u = c.u", "15"),
            ("n a JOIN n b ON a.k IS NOT DISTINCT FROM b.k WHERE a.u = b.u", "3"),
            ("n a JOIN n b ON (a.k IS NOT DISTINCT FROM b.u) AND a.k IS NOT DISTINCT FROM b.k WHERE b.u = a.k", "2"),
            (
                "n a LEFT JOIN n b ON a.k IS NOT DISTINCT FROM b.k RIGHT JOIN n c ON b.u IS NOT DISTINCT FROM c.u \
                 WHERE b.k = c.k",
                "5",
            ),
            ("n a JOIN n b ON a.u = b.k CROSS JOIN n c JOIN n d ON a.u IS NOT DISTINCT FROM d.k WHERE a.k = c.u", "12"),
            ("n a LEFT JOIN n b ON (a.k IS NOT DISTINCT FROM b.k) AND a.u = b.u", "5"),
            ("n a FULL JOIN n b ON a.k IS NOT DISTINCT FROM b.u", "11"),
            (
                "n a JOIN n b ON a.k = b.k WHERE EXISTS (SELECT 1 FROM n c WHERE (c.u IS NOT DISTINCT FROM b.u) AND c.k = a.u)",
                "3",
            ),
            ("(SELECT k FROM n INTERSECT SELECT u FROM n) a JOIN n b ON a.k = b.k", "2"),
            ("n a, n b, n c WHERE (a.k IS NOT DISTINCT FROM b.k) AND b.u = c.u AND a.k = c.k", "3"),
        ] {
            let sql = format!("{with} SELECT count(*) FROM {from}");
            assert_eq!(rows(&session, &sql), [wanted], "{from}");
        }
        // A join by these keys alone is not one of all pairs, in a subquery neither.
        let join = "SELECT count(*) FROM n a JOIN n b ON a.k IS NOT DISTINCT FROM b.k";
        for sql in [format!("{with} {join}"), format!("{with} SELECT k FROM n WHERE k = ({join}) OR u > ({join})")] {
            let plan = rows(&session, &format!("EXPLAIN {sql}")).join("\n");
            assert!(plan.contains("HashJoinExec") && !plan.contains("NestedLoopJoinExec"), "{plan}");
        }
    }
}
