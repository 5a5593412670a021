//! Planners of operators: those of pgvector, and sums, differences and products of small integers.

use arrow::datatypes::DataType;
use datafusion::common::{DFSchema, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
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
                "`<=>` means several things, wanted `a IS NOT DISTINCT FROM b` (equal, or both missing) or \
                 `cosine_distance(a, b)` of vectors"
            ),
            _ => Ok(PlannerResult::Original(expr)),
        }
    }
}

/// Planner of differences of two integers without a sign, and of `+`, `-` and `*` of two integers of at most 32 bits: they are
/// integers of 64 bits with a sign.
///
/// DataFusion 55 computes them in the type of the operands, where they wrap around. `rank() OVER (…) -
/// rank() OVER (…)` of 1 and 3 is 18446744073709551614, since ranks have no sign. 70000 times itself is 605032704, where a
/// file has 32 bits. An operand of a difference beyond 2^63 is an error here.
#[derive(Debug)]
pub(super) struct IntegerOperators;

impl ExprPlanner for IntegerOperators {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Minus, Multiply, Plus};
        if !matches!(expr.op, Plus | Minus | Multiply) {
            return Ok(PlannerResult::Original(expr));
        }
        // The right side of a long sum is the short one.
        let right = IntegerOperand::of(&expr.right, schema);
        if right == IntegerOperand::default() {
            return Ok(PlannerResult::Original(expr));
        }
        let left = IntegerOperand::of(&expr.left, schema);
        let may_be_negative = expr.op == Minus && left.is_unsigned && right.is_unsigned;
        if may_be_negative || (left.is_small && right.is_small) {
            expr.left = with_64_bits(expr.left);
            expr.right = with_64_bits(expr.right);
        }
        Ok(PlannerResult::Original(expr))
    }
}

/// Kind of an operand. Both are false for other types than integers.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct IntegerOperand {
    /// It has at most 32 bits.
    is_small: bool,
    is_unsigned: bool,
}

impl IntegerOperand {
    fn of(side: &Expr, schema: &DFSchema) -> Self {
        // A parameter takes the type of the other side.
        if matches!(side, Expr::Placeholder(_)) {
            return Self { is_small: true, is_unsigned: true };
        }
        let data_type = match side.get_type(schema) {
            Ok(DataType::Dictionary(_, values)) => *values,
            Ok(data_type) => data_type,
            Err(_) => return Self::default(),
        };
        let is_small = data_type.is_integer() && data_type.primitive_width() < Some(size_of::<i64>());
        Self { is_small, is_unsigned: data_type.is_unsigned_integer() }
    }
}

fn with_64_bits(side: Expr) -> Expr {
    if matches!(side, Expr::Placeholder(_)) { side } else { cast(side, DataType::Int64) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::DataType;
    use tokio::runtime::Runtime;

    use crate::testing::{rows, text};
    use crate::{OutputFormat, Session};
    use pairloom_base::error::ErrorCategory;

    /// Rows by hand.
    #[test]
    fn integers_have_a_sign_and_64_bits() {
        let session = Session::of_empty_tables([]).unwrap();
        let of_type = |k: &str, of_type: &str| format!("arrow_cast({k}, '{of_type}')");
        let (first, last) = ("rank() OVER (ORDER BY k)", "row_number() OVER (ORDER BY k DESC)");
        for (expression, wanted) in [
            (format!("{first} - {last}"), "-2 0 2"),
            (format!("abs({first} - {last}) + abs({last} - {first})"), "4 0 4"),
            (format!("power({first} - {last}, 2)::bigint"), "4 0 4"),
            (format!("{first} - {last} - {last}"), "-5 -2 1"),
            (format!("({first} + {last}) / {last} - {last}"), "-2 0 3"),
            ("cardinality([k]) - cardinality([k, k])".to_owned(), "-1 -1 -1"),
            (
                format!("{} * {}", of_type("k * 70000", "UInt32"), of_type("k * 70000", "Int32")),
                "4900000000 19600000000 44100000000",
            ),
            (format!("{} + {}", of_type("k + 124", "Int8"), of_type("k + 124", "Int8")), "250 252 254"),
            (format!("{} - {}", of_type("k", "UInt64"), of_type("k * 2", "UInt16")), "-1 -2 -3"),
            (
                format!("(SELECT max({}) FROM range(1)) - {}", of_type("value", "UInt64"), of_type("k", "UInt64")),
                "-1 -2 -3",
            ),
        ] {
            let sql = format!("SELECT {expression} AS x FROM (VALUES (1), (2), (3)) a(k) ORDER BY k");
            assert_eq!(rows(&session, &sql).join(" "), wanted, "{sql}");
        }
        // Of a dictionary, as PyArrow and pandas write.
        let of_dictionary = "SELECT a - b FROM (SELECT arrow_cast(1, 'Dictionary(Int32, UInt8)') a, \
                             arrow_cast(3, 'Dictionary(Int8, UInt8)') b)";
        assert_eq!(rows(&session, of_dictionary), ["-2"]);
        // In groups and conditions too, and by the name that it has.
        let of_groups = "SELECT s, count(*) FROM (SELECT rank() OVER (ORDER BY k % 2) r, rank() OVER (ORDER BY k) s \
                         FROM (VALUES (1), (2), (3), (4)) a(k)) WHERE r - s < 0 GROUP BY s HAVING max(r) - max(s) = -3";
        assert_eq!(rows(&session, of_groups), ["4,1"]);
        let grouped = "SELECT r - s, count(*) FROM (SELECT rank() OVER (ORDER BY k) r, row_number() OVER (ORDER BY k DESC) s \
                       FROM (VALUES (1), (2)) a(k)) GROUP BY r - s ORDER BY r - s";
        assert_eq!(text(&session, grouped, OutputFormat::Csv).unwrap(), "r - s,count(*)\n-1,1\n1,1\n");
        // A parameter too: a client sends a value of the type that the query implies.
        let session = Arc::new(session);
        for sql in ["SELECT rank() OVER (ORDER BY k) - $1 FROM (VALUES (1)) a(k)", "SELECT $1 * length('a')"] {
            let prepared = Runtime::new().unwrap().block_on(session.prepare(sql)).unwrap();
            assert_eq!(prepared.parameters[0].data_type(), &DataType::Int64, "{sql}");
        }
        let error =
            text(&session, "SELECT 18446744073709551615 - 18446744073709551614", OutputFormat::Csv).unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Usage);
        assert!(error.to_string().contains("18446744073709551615"), "{error}");
    }
}
