//! SQL functions of two vectors.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, new_null_array};
use arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::column::{ListVectors, float_vectors, number_type};
use super::measure::VectorMeasure;
use pairloom_kernels::distance::{VectorValues, l2_norm};

/// Function of two vectors, for example `cosine_distance(a, b)`. The result is f64.
///
/// It is missing if a vector is missing or has a missing value. Vectors of different widths are an error.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct MeasureFunction {
    measure: VectorMeasure,
    signature: Signature,
    aliases: Vec<String>,
    documentation: Documentation,
}

impl MeasureFunction {
    pub(super) fn new(measure: VectorMeasure) -> Self {
        let syntax = format!("{}(vector, vector)", measure.name());
        Self {
            measure,
            signature: Signature::user_defined(Volatility::Immutable),
            aliases: measure.names()[1..].iter().map(|&name| name.to_owned()).collect(),
            documentation: super::documentation::documentation(measure.description(), &syntax),
        }
    }
}

/// SQL function of a measure.
pub(crate) fn measure_function(measure: VectorMeasure) -> ScalarUDF {
    ScalarUDF::new_from_impl(MeasureFunction::new(measure))
}

impl ScalarUDFImpl for MeasureFunction {
    fn name(&self) -> &str {
        self.measure.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let name = self.name();
        let [a, b] = types else {
            return plan_err!("`{name}` has {} arguments, wanted two vectors", types.len());
        };
        Ok(vector_arguments(name, [a, b])?.to_vec())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let [a, b] = args.args.as_slice() else {
            return exec_err!("`{}` of {} arguments", self.name(), args.args.len());
        };
        let is_constant = matches!((a, b), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
        let [a, b] = [a, b].map(Argument::new);
        // All measures are symmetric, so the constant vector, if there is one, is the first.
        let is_second = matches!(b, Ok(Argument::Constant(_))) && !is_constant;
        let [a, b] = if is_second { [b?, a?] } else { [a?, b?] };
        let rows = if is_constant { 1 } else { rows };
        let values = self.measures(&a, &b, rows)?;
        Ok(if is_constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)
        } else {
            ColumnarValue::Array(values)
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

impl MeasureFunction {
    fn measures(&self, a: &Argument, b: &Argument, rows: usize) -> Result<ArrayRef> {
        let (Some(a_column), Some(b_column)) = (a.vectors(), b.vectors()) else {
            return Ok(new_null_array(&DataType::Float64, rows));
        };
        // In f64 once, not in each row; the values are the same.
        let wide: Option<Vec<f64>> = match a {
            Argument::Constant(_) => a_column.get(0).map(VectorValues::to_doubles),
            _ => None,
        };
        let constant = match a {
            Argument::Constant(_) => Some(wide.as_deref().map(|values| {
                let vector = VectorValues::F64(values);
                (vector, l2_norm(vector))
            })),
            _ => None,
        };
        let mut values = Float64Array::builder(rows);
        for row in 0..rows {
            let (a, norm) = match constant {
                Some(Some((vector, norm))) => (Some(vector), Some(norm)),
                Some(None) => (None, None),
                None => (a_column.get(row), None),
            };
            let b = b_column.get(if matches!(b, Argument::Constant(_)) { 0 } else { row });
            let (Some(a), Some(b)) = (a, b) else {
                values.append_null();
                continue;
            };
            if a.len() != b.len() {
                let name = self.name();
                return exec_err!(
                    "`{name}` of vectors of {} and of {} values, wanted vectors of one width",
                    a.len(),
                    b.len()
                );
            }
            values.append_option(self.measure.of(a, norm, b));
        }
        Ok(Arc::new(values.finish()))
    }
}

/// Argument of a function of vectors.
enum Argument {
    /// Missing in every row.
    Missing,
    /// One vector for all rows.
    Constant(ListVectors),
    Rows(ListVectors),
}

impl Argument {
    fn new(value: &ColumnarValue) -> Result<Self> {
        match value {
            ColumnarValue::Scalar(scalar) if scalar.data_type() == DataType::Null => Ok(Self::Missing),
            ColumnarValue::Scalar(scalar) => Ok(Self::Constant(ListVectors::new(&scalar.to_array()?)?)),
            ColumnarValue::Array(array) if *array.data_type() == DataType::Null => Ok(Self::Missing),
            ColumnarValue::Array(array) => Ok(Self::Rows(ListVectors::new(array)?)),
        }
    }

    fn vectors(&self) -> Option<&ListVectors> {
        match self {
            Self::Missing => None,
            Self::Constant(vectors) | Self::Rows(vectors) => Some(vectors),
        }
    }
}

/// Types that two vectors of the function `name` are cast to.
pub(super) fn vector_arguments(name: &str, types: [&DataType; 2]) -> Result<[DataType; 2]> {
    if let [DataType::FixedSizeList(_, a), DataType::FixedSizeList(_, b)] = types
        && a != b
    {
        return plan_err!("`{name}` of vectors of {a} and of {b} values, wanted vectors of one width");
    }
    Ok([vector_argument(name, types[0])?, vector_argument(name, types[1])?])
}

/// Type that an argument of the function `name` is cast to: it stays as it is, if it is a vector.
pub(super) fn vector_argument(name: &str, of: &DataType) -> Result<DataType> {
    match (of, number_type(of)) {
        (DataType::Null, _) | (_, Some(DataType::Float16 | DataType::Float32 | DataType::Float64)) => Ok(of.clone()),
        (_, Some(_)) => Ok(float_vectors(of)),
        (DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8, _) => {
            plan_err!("`{name}` of a text, wanted a vector, for example [0.5, 1.0] without quotes")
        }
        _ => plan_err!("`{name}` of {of}, wanted a vector: a list of numbers"),
    }
}
