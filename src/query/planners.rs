//! Planner of an operator of pgvector.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::vectors::{VectorMeasure, measure_function};

/// Planner of `<=>`, the cosine distance of two vectors.
///
/// SQL reads it as an equality that treats missing values as equal. Between other values it is refused, because it would
/// answer true or false in silence where a distance was meant. The parser does not know `<->` and `<#>`.
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
        match &expr.op {
            BinaryOperator::Spaceship if is_list(&expr.left) || is_list(&expr.right) => {
                let function = measure_function(VectorMeasure::CosineDistance);
                Ok(PlannerResult::Planned(function.call(vec![expr.left, expr.right])))
            }
            BinaryOperator::Spaceship => plan_err!(
                "`<=>` means several things, wanted `a IS NOT DISTINCT FROM b` (equal, or both missing) or \
                 `cosine_distance(a, b)` of vectors"
            ),
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}
