//! Sorts by a measure of vectors, as in `ORDER BY cosine_distance(embedding, …) LIMIT 10`: rows with equal measures have the
//! order in which they are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::UInt64Array;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::exec_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{ScalarFunction, Sort as SortExpr};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Sort, Volatility, col,
};
use datafusion::optimizer::AnalyzerRule;

use crate::vectors::is_vector_function;

/// Names of the columns of measures.
const COLUMN: &str = "__measure_";
/// Name of the column with the order in which rows were read.
const READ: &str = "__read";

/// Makes measures of a sort columns of its input, and of rows that are equal by all terms the first one that was read the
/// first.
///
/// DataFusion computes the terms of a sort with a limit twice, for the order and for its threshold, and carries the vectors
/// through the sort. A column is computed once, a batch at a time, and its vectors go no further. Its sort with a limit keeps
/// k rows, but of equal ones any.
#[derive(Debug)]
pub(super) struct SortMeasures;

impl AnalyzerRule for SortMeasures {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let rewritten = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Sort(sort) if sort.expr.iter().any(|term| is_measure(&term.expr, &sort.input)) => {
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

/// True for a term that computes a measure, or is a selected one.
fn is_measure(term: &Expr, input: &LogicalPlan) -> bool {
    let selected = match (term, input) {
        (Expr::Column(column), LogicalPlan::Projection(projection)) => {
            projection.schema.maybe_index_of_column(column).map(|place| &projection.expr[place])
        }
        _ => None,
    };
    has_measure(selected.unwrap_or(term))
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
    computed.push(ReadOrder::function().call(vec![]).alias(READ));
    terms.push(col(READ).sort(true, false));
    let input = LogicalPlanBuilder::from(sort.input).project(computed)?;
    input.sort_with_limit(terms, sort.fetch)?.project(columns)?.build()
}

/// Function without arguments whose value is larger in each row than in those that were read before.
///
/// It orders rows with equal measures as `topk` does. Queries cannot call it: it is not in the list of a session.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct ReadOrder {
    signature: Signature,
}

/// Number of the next row. One for all queries, since only the order counts.
static NEXT: AtomicU64 = AtomicU64::new(0);

impl ReadOrder {
    /// The function.
    #[must_use]
    pub fn function() -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::new_from_impl(Self { signature: Signature::nullary(Volatility::Volatile) }))
    }
}

impl ScalarUDFImpl for ReadOrder {
    fn name(&self) -> &'static str {
        "__read_order"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if !args.args.is_empty() {
            return exec_err!("`{}` has {} arguments, expected none", self.name(), args.args.len());
        }
        let rows = args.number_rows as u64;
        let first = NEXT.fetch_add(rows, Ordering::Relaxed);
        Ok(ColumnarValue::Array(Arc::new(UInt64Array::from_iter_values(first..first + rows))))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};

    use crate::testing::{features, put, run, text};
    use crate::{OutputFormat, Session, VECTOR_CACHE_BYTES};
    use pairloom_store::Store;
    use pairloom_tables as tables;

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
        for (sql, expected) in [
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
            assert_eq!(rows.split_once('\n').unwrap().1, expected, "{sql}");
        }
    }

    /// 5,000 vectors of five directions in three parts, whose ids are no order.
    #[test]
    fn of_equal_measures_the_first_row_is_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let ids: Vec<i64> = (0..5_000).map(|row| row * 7919 % 5_000).collect();
        let vector = |row: usize| [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 0.0], [2.0, 2.0]][row % 5];
        let part = |rows: std::ops::Range<usize>| {
            let columns: Vec<ArrayRef> = vec![
                Arc::new(Int64Array::from(ids[rows.clone()].to_vec())),
                Arc::new(StringArray::from(vec!["test"; rows.len()])),
                tables::vector_array(rows.flat_map(vector).collect(), 2).unwrap(),
            ];
            tables::batch(&tables::features::table().schema_with_width(2), columns).unwrap()
        };
        let parts = vec![part(0..2_000), part(2_000..2_003), part(2_003..5_000)];
        let key = put(&store, "extract", 7, &[("features", parts)]);
        run(&store, "20260101T000000", &[("cnn", "extract", &key)]);
        let ids_of =
            |rows: &mut dyn Iterator<Item = usize>| -> String { rows.map(|row| format!("{}\n", ids[row])).collect() };
        for caches in [false, true] {
            let mut session = Session::open(&store).unwrap();
            if caches {
                session = session.with_vector_cache(VECTOR_CACHE_BYTES);
            }
            // Twice, since the first one fills the cache.
            for _ in 0..2 {
                let got = |order: &str| {
                    let sql = format!("SELECT image_id FROM cnn.features ORDER BY {order}");
                    text(&session, &sql, OutputFormat::Csv).unwrap().split_once('\n').unwrap().1.to_owned()
                };
                // Rows 2 and 4 of each five have the direction of the query.
                let nearest =
                    |skip| ids_of(&mut (0..5_000).filter(|row| [2, 4].contains(&(row % 5))).skip(skip).take(1_500));
                assert_eq!(got("cosine_distance(feature, [3, 3]) LIMIT 1500"), nearest(0));
                assert_eq!(got("cosine_similarity(feature, [3, 3]) DESC LIMIT 1500 OFFSET 300"), nearest(300));
                let of_test = "inner_product(feature, [-1, 0]) DESC, split LIMIT 7";
                assert_eq!(got(of_test), ids_of(&mut (0..7).map(|i| 5 * i + 3)));
                // A measure that is selected.
                let selected = "SELECT cosine_distance(feature, [3, 3]) > 1 AS far, image_id, cosine_distance(feature, \
                     [3, 3]) AS d FROM cnn.features ORDER BY d LIMIT 1500";
                let csv = text(&session, selected, OutputFormat::Csv).unwrap();
                let found: Vec<&str> = csv.lines().skip(1).map(|line| line.split(',').nth(1).unwrap()).collect();
                assert_eq!(format!("{}\n", found.join("\n")), nearest(0));
                // Other terms come before the order of the rows.
                let mut best: Vec<i64> = (0..5_000).filter(|row| row % 5 == 3).map(|row| ids[row]).collect();
                best.sort_unstable();
                let best: String = best[..7].iter().map(|id| format!("{id}\n")).collect();
                assert_eq!(got("inner_product(feature, [-1, 0]) DESC, image_id LIMIT 7"), best);
            }
        }
    }

    #[test]
    fn the_columns_and_the_order_stay() {
        for (sql, expected) in [
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
            assert!(rows.starts_with(expected), "{sql}: {rows}");
        }
    }
}
