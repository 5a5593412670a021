//! `vector_avg(v)`: mean of the vectors of a group.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{ScalarValue, exec_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDFImpl, Documentation, Signature, Volatility};

use super::column::{ListVectors, float_vectors};
use super::documentation;
use super::measure::vector_argument;
use pairloom_kernels::distance::VectorValues;

/// Name of the function.
const NAME: &str = "vector_avg";

/// Aggregate function that averages vectors, value by value, in f64. Missing vectors do not count.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct VectorAverage {
    signature: Signature,
    documentation: Documentation,
}

impl VectorAverage {
    pub(super) fn new() -> Self {
        let about = "Mean of the vectors of a group, value by value. Missing vectors do not count.";
        Self {
            signature: Signature::user_defined(Volatility::Immutable),
            documentation: documentation(about, "vector_avg(vector)"),
        }
    }
}

/// Type of the sums in the state.
fn sums_type() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Float64, true)))
}

impl AggregateUDFImpl for VectorAverage {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [of] => Ok(float_vectors(of)),
            _ => plan_err!("`{NAME}` has {} arguments, expected one vector", types.len()),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [of] => Ok(vec![vector_argument(NAME, of)?]),
            _ => plan_err!("`{NAME}` has {} arguments, expected one vector", types.len()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        let field = |part: &str, of: DataType| Arc::new(Field::new(format!("{}[{part}]", args.name), of, true));
        Ok(vec![field("sums", sums_type()), field("count", DataType::UInt64)])
    }

    fn accumulator(&self, args: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            return plan_err!("`{NAME}(DISTINCT …)` is not known, expected `{NAME}(vector)`");
        }
        Ok(Box::new(VectorMean { sums: Vec::new(), count: 0, of: args.return_type().clone() }))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&self.documentation)
    }
}

/// Sums of the vectors of a group.
#[derive(Debug)]
struct VectorMean {
    sums: Vec<f64>,
    count: u64,
    /// Type of the result.
    of: DataType,
}

impl VectorMean {
    fn add(&mut self, vector: VectorValues<'_>, count: u64) -> Result<()> {
        if self.count == 0 {
            self.sums = vec![0.0; vector.len()];
        }
        if vector.len() != self.sums.len() {
            return exec_err!(
                "`{NAME}` of vectors of {} and of {} values, expected vectors of one width",
                self.sums.len(),
                vector.len()
            );
        }
        match vector {
            VectorValues::F32(values) => {
                self.sums.iter_mut().zip(values).for_each(|(sum, &value)| *sum += f64::from(value));
            }
            VectorValues::F64(values) => self.sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value),
        }
        self.count += count;
        Ok(())
    }

    /// `values` as a list; missing if there were no vectors.
    fn list(&self, values: Vec<f64>) -> Result<ScalarValue> {
        if self.count == 0 {
            return ScalarValue::try_from(sums_type());
        }
        let item = Arc::new(Field::new_list_field(DataType::Float64, true));
        let offsets = OffsetBuffer::from_lengths([values.len()]);
        let list = ListArray::try_new(item, offsets, Arc::new(Float64Array::from(values)), None)?;
        ScalarValue::try_from_array(&list, 0)
    }
}

impl Accumulator for VectorMean {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if *values[0].data_type() == DataType::Null {
            return Ok(());
        }
        let vectors = ListVectors::new(&values[0])?;
        (0..vectors.len()).filter_map(|row| vectors.get(row)).try_for_each(|vector| self.add(vector, 1))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (sums, counts) = (states[0].as_list::<i32>(), states[1].as_primitive::<UInt64Type>());
        for row in 0..sums.len() {
            if counts.value(row) > 0 {
                let of_state = sums.value(row);
                self.add(VectorValues::F64(of_state.as_primitive::<Float64Type>().values()), counts.value(row))?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.list(self.sums.clone())?, ScalarValue::UInt64(Some(self.count))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        #[expect(clippy::cast_precision_loss, reason = "counts are below 2⁵³")]
        let mean = self.sums.iter().map(|sum| sum / self.count as f64).collect();
        let mean = cast(&self.list(mean)?.to_array()?, &self.of)?;
        ScalarValue::try_from_array(&mean, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + size_of_val(self.sums.as_slice())
    }
}
