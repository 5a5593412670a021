//! `vector_norm(v)` and `array_normalize(v)`.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeListArray, Float32Array, Float64Array, GenericListArray, OffsetSizeTrait};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::column::{ListVectors, float_vectors};
use super::documentation;
use super::measure::vector_argument;
use pairloom_kernels::distance::{VectorValues, l2_norm};

/// Function of one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum NormFunction {
    /// Euclidean norm.
    Norm,
    /// The vector divided by its norm.
    Normalize,
}

/// SQL function of one vector.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct VectorFunction {
    function: NormFunction,
    signature: Signature,
    aliases: Vec<String>,
    documentation: Documentation,
}

impl VectorFunction {
    pub(super) fn new(function: NormFunction) -> Self {
        let (aliases, description): (&[&str], &str) = match function {
            NormFunction::Norm => (&["l2_norm", "array_norm", "list_norm"], "Euclidean norm of a vector."),
            NormFunction::Normalize => {
                (&["list_normalize", "l2_normalize"], "Vector divided by its Euclidean norm. Missing if it is 0.")
            }
        };
        Self {
            function,
            signature: Signature::user_defined(Volatility::Immutable),
            aliases: aliases.iter().map(|&name| name.to_owned()).collect(),
            documentation: documentation(description, &format!("{}(vector)", function.name())),
        }
    }
}

impl NormFunction {
    fn name(self) -> &'static str {
        match self {
            Self::Norm => "vector_norm",
            Self::Normalize => "array_normalize",
        }
    }
}

impl ScalarUDFImpl for VectorFunction {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match (self.function, types) {
            (NormFunction::Normalize, [of]) => float_vectors(of),
            _ => DataType::Float64,
        })
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [of] => Ok(vec![vector_argument(self.name(), of)?]),
            _ => plan_err!("`{}` has {} arguments, expected one vector", self.name(), types.len()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [argument] = args.args.as_slice() else {
            return exec_err!("`{}` of {} arguments, expected one", self.name(), args.args.len());
        };
        if argument.data_type() == DataType::Null {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_type())?));
        }
        let is_constant = matches!(argument, ColumnarValue::Scalar(_));
        let rows = argument.to_array(if is_constant { 1 } else { args.number_rows })?;
        let vectors = ListVectors::new(&rows)?;
        let result = match self.function {
            NormFunction::Norm => {
                let norms = (0..vectors.len()).map(|row| vectors.get(row).map(l2_norm));
                Arc::new(Float64Array::from_iter(norms)) as ArrayRef
            }
            NormFunction::Normalize => normalized(&vectors, args.return_type())?,
        };
        Ok(if is_constant {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?)
        } else {
            ColumnarValue::Array(result)
        })
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

/// Vectors divided by their norms, as a column of the type `of`.
fn normalized(vectors: &ListVectors, of: &DataType) -> Result<ArrayRef> {
    let (mut singles, mut doubles) = (Vec::new(), Vec::new());
    let (mut lengths, mut present) = (Vec::with_capacity(vectors.len()), Vec::with_capacity(vectors.len()));
    let width = if let DataType::FixedSizeList(_, width) = of { usize::try_from(*width).unwrap_or(0) } else { 0 };
    for row in 0..vectors.len() {
        let vector = vectors.get(row).map(|vector| (vector, l2_norm(vector))).filter(|(_, norm)| *norm != 0.0);
        present.push(vector.is_some());
        lengths.push(vector.map_or(width, |(vector, _)| vector.len()));
        match vector {
            #[expect(clippy::cast_possible_truncation, reason = "vectors of f32 stay vectors of f32")]
            Some((VectorValues::F32(values), norm)) => {
                singles.extend(values.iter().map(|&value| (f64::from(value) / norm) as f32));
            }
            Some((VectorValues::F64(values), norm)) => doubles.extend(values.iter().map(|value| value / norm)),
            // A missing vector of fixed width has values, which nobody reads. Only one of the two is used.
            None => {
                singles.extend(std::iter::repeat_n(0.0, width));
                doubles.extend(std::iter::repeat_n(0.0, width));
            }
        }
    }
    let values = |item: &FieldRef| -> ArrayRef {
        match item.data_type() {
            DataType::Float32 => Arc::new(Float32Array::from(singles)),
            _ => Arc::new(Float64Array::from(doubles)),
        }
    };
    let nulls = Some(NullBuffer::from(present));
    Ok(match of {
        DataType::FixedSizeList(item, width) => {
            Arc::new(FixedSizeListArray::try_new(Arc::clone(item), *width, values(item), nulls)?)
        }
        DataType::List(item) => list::<i32>(item, lengths, values(item), nulls)?,
        DataType::LargeList(item) => list::<i64>(item, lengths, values(item), nulls)?,
        other => return exec_err!("`array_normalize` into {other}"),
    })
}

fn list<O: OffsetSizeTrait>(
    item: &FieldRef,
    lengths: Vec<usize>,
    values: ArrayRef,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(item), offsets, values, nulls)?))
}
