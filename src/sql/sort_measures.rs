//! Analyzer rule for sorts by a measure of vectors, as in `ORDER BY cosine_distance(embedding, …) LIMIT 10`.

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::logical_expr::expr::{ScalarFunction, Sort as SortExpr};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Sort, col};
use datafusion::optimizer::AnalyzerRule;

use crate::sql::vectors::is_vector_function;

/// Names of the columns of measures.
const COLUMN: &str = "__measure_";

/// Makes measures of a sort columns of its input.
///
/// DataFusion computes the terms of a sort with a limit twice, for the order and for its threshold, and carries the vectors
/// through the sort. A column is computed once, and its vectors go no further.
#[derive(Debug)]
pub(super) struct SortMeasures;

impl AnalyzerRule for SortMeasures {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Sort(sort) if sort.expr.iter().any(|term| has_measure(&term.expr)) => {
                with_columns(sort).map(Transformed::yes)
            }
            plan => Ok(Transformed::no(plan)),
        });
        rewritten.data()
    }

    fn name(&self) -> &'static str {
        "sort_measures"
    }
}

/// True for a term that computes a measure of vectors of the sorted rows.
fn has_measure(term: &Expr) -> bool {
    let is_measure =
        |expr: &Expr| matches!(expr, Expr::ScalarFunction(ScalarFunction { func, .. }) if is_vector_function(func));
    term.exists(|expr| Ok(is_measure(expr))).unwrap_or(false) && !term.contains_outer()
}

fn with_columns(sort: Sort) -> Result<LogicalPlan> {
    let columns: Vec<Expr> = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
    let mut computed = columns.clone();
    let mut terms = Vec::new();
    for (place, term) in sort.expr.into_iter().enumerate() {
        let SortExpr { expr, asc, nulls_first } = term;
        let expr = if has_measure(&expr) {
            let name = format!("{COLUMN}{place}");
            computed.push(expr.alias(&name));
            col(name)
        } else {
            expr
        };
        terms.push(SortExpr { expr, asc, nulls_first });
    }
    let input = LogicalPlanBuilder::from(sort.input).project(computed)?;
    input.sort_with_limit(terms, sort.fetch)?.project(columns)?.build()
}

#[cfg(test)]
mod tests {
    use crate::sql::testing::{features, put, run, text};
    use crate::sql::{OutputFormat, Session, VECTOR_CACHE_BYTES};
    use crate::store::Store;

    /// Plan and rows of a query over the vectors (0, 0.25) and so on of four images, whose order by id is that of the
    /// distance from the last.
    fn plan_and_rows(sql: &str) -> (String, String) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let rows = [(1, "train"), (2, "test"), (3, "test"), (4, "val")];
        let key = put(&store, "extract", 7, &[("features", vec![features(&rows, 2)])]);
        run(&store, "20260101T000000", &[("cnn", "extract", &key)]);
        let session = Session::open(&store).unwrap().with_vector_cache(VECTOR_CACHE_BYTES);
        let csv = |sql: &str| text(&session, sql, OutputFormat::Csv).unwrap();
        (csv(&format!("EXPLAIN {sql}")), csv(sql))
    }

    #[test]
    fn a_measure_is_computed_once_and_its_vectors_are_cached() {
        for (sql, wanted) in [
            ("SELECT image_id FROM cnn.features ORDER BY array_distance(feature, [0.0, 0.25]) DESC LIMIT 2", "4\n3\n"),
            (
                "SELECT image_id, array_distance(feature, [0.0, 0.25]) AS d FROM cnn.features ORDER BY d LIMIT 1",
                "1,0.0\n",
            ),
            (
                "SELECT image_id FROM cnn.features ORDER BY split, -inner_product(feature, (SELECT feature FROM \
                 cnn.features WHERE image_id = 1)), image_id LIMIT 3",
                "3\n2\n1\n",
            ),
        ] {
            let (plan, rows) = plan_and_rows(sql);
            let (_, physical) = plan.split_once("physical_plan").unwrap();
            let sorts: Vec<&str> = physical.lines().filter(|line| line.contains("SortExec: TopK")).collect();
            assert_eq!(sorts.len(), 1, "{physical}");
            assert!(!sorts[0].contains("array_distance(") && !sorts[0].contains("inner_product("), "{physical}");
            assert!(physical.contains("CachedScanExec"), "{physical}");
            assert_eq!(rows.split_once('\n').unwrap().1, wanted, "{sql}");
        }
    }

    #[test]
    fn the_columns_and_the_order_stay() {
        for (sql, wanted) in [
            ("SELECT * FROM cnn.features ORDER BY l1_distance(feature, [9, 9]) LIMIT 1", "image_id,split,feature\n"),
            (
                "SELECT f.image_id FROM cnn.features f JOIN cnn.features g USING (image_id) ORDER BY \
                 cosine_distance(f.feature, g.feature), f.image_id DESC",
                "image_id\n",
            ),
            (
                "SELECT split, count(*) AS n FROM cnn.features GROUP BY split ORDER BY max(array_distance(feature, [0, 0])) DESC",
                "split,n\n",
            ),
            (
                "SELECT image_id FROM cnn.features ORDER BY array_distance(feature, NULL), image_id LIMIT 2",
                "image_id\n1\n2\n",
            ),
        ] {
            let (_, rows) = plan_and_rows(sql);
            assert!(rows.starts_with(wanted), "{sql}: {rows}");
        }
    }
}
