//! Measures of two vectors, distances and similarities, and their SQL functions.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, new_null_array};
use arrow::datatypes::DataType;
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::column::{ListVectors, float_vectors, number_type};
use pairloom_kernels::distance::{VectorValues, cosine_similarity, inner_product, l1_distance, l2_distance, l2_norm};

/// Measure of two vectors. The kernels of [`pairloom_kernels::distance`] have its formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum VectorMeasure {
    CosineDistance,
    CosineSimilarity,
    InnerProduct,
    NegativeInnerProduct,
    L2Distance,
    L1Distance,
}

impl VectorMeasure {
    /// All measures.
    pub(crate) const ALL: [Self; 6] = [
        Self::CosineDistance,
        Self::CosineSimilarity,
        Self::InnerProduct,
        Self::NegativeInnerProduct,
        Self::L2Distance,
        Self::L1Distance,
    ];

    /// Names of its function: the first is that of DataFusion or pgvector, the others are those of `DuckDB`, Doris and
    /// pgvector.
    pub(super) fn names(self) -> &'static [&'static str] {
        match self {
            Self::CosineDistance => &["cosine_distance", "array_cosine_distance", "list_cosine_distance"],
            Self::CosineSimilarity => &["cosine_similarity", "array_cosine_similarity", "list_cosine_similarity"],
            Self::InnerProduct => &[
                "inner_product",
                "array_inner_product",
                "list_inner_product",
                "dot_product",
                "array_dot_product",
                "list_dot_product",
            ],
            Self::NegativeInnerProduct => {
                &["negative_inner_product", "array_negative_inner_product", "list_negative_inner_product"]
            }
            Self::L2Distance => &["array_distance", "list_distance", "l2_distance"],
            Self::L1Distance => &["l1_distance", "array_l1_distance", "list_l1_distance"],
        }
    }

    /// Name of its function.
    pub(crate) fn name(self) -> &'static str {
        self.names()[0]
    }

    /// Measure whose function has this name or alias.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.names().contains(&name))
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Self::CosineDistance => {
                "Cosine distance 1 - cosine: 0 for equal directions, 2 for opposite ones. Missing if a vector is 0 or not finite."
            }
            Self::CosineSimilarity => {
                "Cosine of the angle between two vectors. Missing if a vector is 0 or not finite."
            }
            Self::InnerProduct => "Sum of the products of the values of two vectors.",
            Self::NegativeInnerProduct => "Inner product times -1, so that the nearest vector has the least.",
            Self::L2Distance => "Euclidean distance: the root of the sum of squared differences.",
            Self::L1Distance => "Sum of the absolute differences of the values of two vectors.",
        }
    }

    /// True if nearer vectors have larger values.
    pub(crate) fn is_similarity(self) -> bool {
        matches!(self, Self::CosineSimilarity | Self::InnerProduct)
    }

    /// True for a function of the angle between two vectors.
    pub(crate) fn is_cosine(self) -> bool {
        matches!(self, Self::CosineDistance | Self::CosineSimilarity)
    }

    /// Measure of `a` and `b`, where `norm_of_a` is the norm of `a` if it is known; `None` if there is none. A result that is
    /// not a number would sort before or after all numbers, so there is none, as for a cosine of zeros.
    pub(crate) fn of(self, a: VectorValues<'_>, norm_of_a: Option<f64>, b: VectorValues<'_>) -> Option<f64> {
        let cosine = || cosine_similarity(a, norm_of_a.unwrap_or_else(|| l2_norm(a)), b);
        let measure = match self {
            Self::CosineDistance => 1.0 - cosine()?,
            Self::CosineSimilarity => cosine()?,
            Self::InnerProduct => inner_product(a, b),
            Self::NegativeInnerProduct => -inner_product(a, b),
            Self::L2Distance => l2_distance(a, b),
            Self::L1Distance => l1_distance(a, b),
        };
        (!measure.is_nan()).then_some(measure)
    }
}

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
            documentation: super::documentation(measure.description(), &syntax),
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
            return plan_err!("`{name}` has {} arguments, expected two vectors", types.len());
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
                    "`{name}` of vectors of {} and of {} values, expected vectors of one width",
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
        return plan_err!("`{name}` of vectors of {a} and of {b} values, expected vectors of one width");
    }
    Ok([vector_argument(name, types[0])?, vector_argument(name, types[1])?])
}

/// Type that an argument of the function `name` is cast to: it stays as it is, if it is a vector.
pub(super) fn vector_argument(name: &str, of: &DataType) -> Result<DataType> {
    match (of, number_type(of)) {
        (DataType::Null, _) | (_, Some(DataType::Float16 | DataType::Float32 | DataType::Float64)) => Ok(of.clone()),
        (_, Some(_)) => Ok(float_vectors(of)),
        (DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8, _) => {
            plan_err!("`{name}` of a text, expected a vector, for example [0.5, 1.0] without quotes")
        }
        _ => plan_err!("`{name}` of {of}, expected a vector: a list of numbers"),
    }
}
