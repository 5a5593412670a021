//! Planner of operators that would mean something else than people of vector databases expect.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Planner that refuses `<=>`, and `<->` between lists.
///
/// For pgvector they are cosine distance and Euclidean distance. SQL reads `<=>` as an equality that treats missing
/// values as equal, and would answer true or false in silence.
#[derive(Debug)]
pub(super) struct VectorOperators;

impl ExprPlanner for VectorOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_list = |side: &Expr| {
            matches!(
                side.get_type(schema),
                Ok(DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
            )
        };
        let has_list = is_list(&expr.left) || is_list(&expr.right);
        match &expr.op {
            BinaryOperator::Spaceship if has_list => {
                plan_err!("`<=>` is no distance of vectors here, wanted `cosine_distance(a, b)`")
            }
            BinaryOperator::Spaceship => plan_err!(
                "`<=>` means several things, wanted `a IS NOT DISTINCT FROM b` (equal, or both missing) or \
                 `cosine_distance(a, b)` of vectors"
            ),
            BinaryOperator::LtDashGt if has_list => {
                plan_err!("`<->` is no distance of vectors here, wanted `array_distance(a, b)`")
            }
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}
