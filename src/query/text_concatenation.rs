//! `a || b` of texts as a function, so that its values have a limit.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::PhysicalExpr as _;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};

/// Function of two texts with the meaning and the name of the operator `||`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct TextConcatenation {
    signature: Signature,
}

impl TextConcatenation {
    pub(super) const NAME: &str = "||";

    pub(super) fn new() -> Self {
        Self { signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for TextConcatenation {
    fn name(&self) -> &str {
        Self::NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else { return exec_err!("`||` has {} sides, wanted 2", types.len()) };
        BinaryTypeCoercer::new(left, &Operator::StringConcat, right).get_result_type()
    }

    // Missing only if a side may be, as for the operator.
    fn return_field_from_args(&self, arguments: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = arguments.arg_fields.iter().map(|side| side.data_type().clone()).collect();
        let is_nullable = arguments.arg_fields.iter().any(|side| side.is_nullable());
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, is_nullable)))
    }

    fn schema_name(&self, sides: &[Expr]) -> Result<String> {
        let names = sides.iter().map(|side| side.schema_name().to_string());
        Ok(names.collect::<Vec<_>>().join(" || "))
    }

    fn display_name(&self, sides: &[Expr]) -> Result<String> {
        Ok(sides.iter().map(ToString::to_string).collect::<Vec<_>>().join(" || "))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = arguments.args.iter().all(|side| matches!(side, ColumnarValue::Scalar(_)));
        let sides = ColumnarValue::values_to_arrays(&arguments.args)?;
        let names = ["left", "right"];
        let [left, right] = [0, 1].map(|place| Arc::new(Column::new(names[place], place)));
        let operator = BinaryExpr::new(left, Operator::StringConcat, right);
        let value = operator.evaluate(&RecordBatch::try_from_iter(names.into_iter().zip(sides))?)?;
        match value {
            ColumnarValue::Array(texts) if is_constant => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?))
            }
            value => Ok(value),
        }
    }
}
