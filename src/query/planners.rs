//! Planners of operators: `<=>`, and `+`, `-`, `*`, `/` and `%` of integers; and the names of aggregates.

use arrow::datatypes::DataType;
use datafusion::common::tree_node::TreeNode;
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawWindowExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, cast};
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
                "`<=>` means several things, expected `a IS NOT DISTINCT FROM b` (equal, or both missing) or \
                 `cosine_distance(a, b)` of vectors"
            ),
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}

/// Planner of `+`, `-`, `*`, `/` and `%` of integers: they are integers of 64 bits with a sign.
///
/// DataFusion 55 computes them in the type of the operands, where they wrap around
/// (<https://github.com/apache/datafusion/issues/17539>). `rank() OVER (…) - rank() OVER (…)` of 1 and 3 is
/// 18446744073709551614, since ranks have no sign. 70000 times itself is 605032704, where a file has 32 bits. And a number of
/// 64 bits without a sign, as `cardinality` has, is divided by one with a sign as decimals of four places. An operand beyond
/// 2^63 is an error here.
#[derive(Debug)]
pub(super) struct IntegerOperators;

impl ExprPlanner for IntegerOperators {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Divide, Minus, Modulo, Multiply, Plus};
        // The right side of a long sum is the short one.
        if matches!(expr.op, Plus | Minus | Multiply | Divide | Modulo)
            && is_integer(&expr.right, schema)
            && is_integer(&expr.left, schema)
        {
            expr.left = with_64_bits(expr.left, schema);
            expr.right = with_64_bits(expr.right, schema);
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// True for an integer, also of a dictionary. A parameter takes the type of the other side.
fn is_integer(side: &Expr, schema: &DFSchema) -> bool {
    match side.get_type(schema) {
        _ if matches!(side, Expr::Placeholder(_)) => true,
        Ok(DataType::Dictionary(_, values)) => values.is_integer(),
        Ok(data_type) => data_type.is_integer(),
        Err(_) => false,
    }
}

fn with_64_bits(side: Expr, schema: &DFSchema) -> Expr {
    match side {
        Expr::Placeholder(_) => side,
        side if matches!(side.get_type(schema), Ok(DataType::Int64)) => side,
        side => cast(side, DataType::Int64),
    }
}

/// Planner of aggregates and windows, which names their arguments by all that they have.
///
/// DataFusion 55 names a cast as what it casts, and refuses `avg(1/rank::int)` beside `avg(1/rank)` as two columns of one name
/// (<https://github.com/apache/datafusion/issues/18975>).
#[derive(Debug)]
pub(super) struct NamedArguments;

impl NamedArguments {
    fn named(arguments: Vec<Expr>) -> Result<Vec<Expr>> {
        let named = arguments.into_iter().map(|argument| {
            let is_cast = argument.exists(|part| Ok(matches!(part, Expr::Cast(_) | Expr::TryCast(_))))?;
            let name = argument.to_string();
            Ok(if is_cast { argument.alias(name) } else { argument })
        });
        named.collect()
    }
}

impl ExprPlanner for NamedArguments {
    fn plan_aggregate(&self, mut expr: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        expr.args = Self::named(expr.args)?;
        Ok(PlannerResult::Original(expr))
    }

    fn plan_window(&self, mut expr: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        expr.args = Self::named(expr.args)?;
        Ok(PlannerResult::Original(expr))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::DataType;
    use tokio::runtime::Runtime;

    use crate::Session;

    #[test]
    fn a_parameter_beside_an_integer_is_one_of_64_bits() {
        let session = Arc::new(Session::of_empty_tables([]).unwrap());
        // A client sends a value of the type that the query implies.
        for sql in ["SELECT rank() OVER (ORDER BY k) - $1 FROM (VALUES (1)) a(k)", "SELECT $1 * length('a')"] {
            let prepared = Runtime::new().unwrap().block_on(session.prepare(sql)).unwrap();
            assert_eq!(prepared.parameters[0].data_type(), &DataType::Int64, "{sql}");
        }
    }
}
