//! Planner of operators that would mean something else than people of vector databases expect.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::ExprSchemable;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Planner that refuses `<=>` and `<->` between lists.
///
/// For pgvector they are cosine distance and Euclidean distance. SQL reads `<=>` as an equality that treats missing
/// values as equal, and would answer true or false in silence.
#[derive(Debug)]
pub(super) struct VectorOperators;

impl ExprPlanner for VectorOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let function = match &expr.op {
            BinaryOperator::Spaceship => "cosine_distance",
            BinaryOperator::LtDashGt => "array_distance",
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let is_list = |side: &datafusion::logical_expr::Expr| {
            matches!(
                side.get_type(schema),
                Ok(DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
            )
        };
        if is_list(&expr.left) || is_list(&expr.right) {
            return plan_err!("`{}` is no distance of vectors here, wanted `{function}(a, b)`", expr.op);
        }
        Ok(PlannerResult::Original(expr))
    }
}
