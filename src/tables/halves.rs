//! Numbers of vectors: storage in half precision (f16), which readers get as f32, and the limit by which products of
//! vectors of images stay finite.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float16Type, Schema, SchemaRef};

use pairloom_base::error::{Error, Result};

/// Returns the schema of a table whose f32 vectors are stored in half precision.
#[must_use]
pub fn half_schema(schema: &SchemaRef) -> SchemaRef {
    with_numbers(schema, &DataType::Float32, &DataType::Float16)
}

/// Rounds all f32 vectors of a batch to half precision: to 11 significant bits, and below 6.1e-5 to multiples of 6.0e-8.
///
/// # Errors
/// A value is larger than the largest of half precision, 65,504.
pub fn to_halves(batch: &RecordBatch) -> Result<RecordBatch> {
    let halves = convert(batch, &DataType::Float32, &DataType::Float16)?;
    for (field, column) in halves.schema().fields().iter().zip(halves.columns()) {
        if numbers(column).is_some_and(|values| values.values().iter().any(|value| value.is_infinite())) {
            let message = format!("a value of `{}` is too large for half precision (65,504)", field.name());
            return Err(Error::stage(message).hint("set `storage = \"f32\"`"));
        }
    }
    Ok(halves)
}

/// Returns a batch whose vectors of half precision are f32. Others stay.
///
/// # Errors
/// The batch is inconsistent.
pub fn from_halves(batch: RecordBatch) -> Result<RecordBatch> {
    let schema = with_numbers(&batch.schema(), &DataType::Float16, &DataType::Float32);
    if schema == batch.schema() { Ok(batch) } else { convert(&batch, &DataType::Float16, &DataType::Float32) }
}

/// Numbers of a column of vectors of half precision.
fn numbers(column: &ArrayRef) -> Option<&arrow::array::PrimitiveArray<Float16Type>> {
    match column.as_fixed_size_list_opt() {
        Some(list) => numbers(list.values()),
        None => column.as_primitive_opt(),
    }
}

fn convert(batch: &RecordBatch, from: &DataType, to: &DataType) -> Result<RecordBatch> {
    let columns = batch.columns().iter().map(|column| match column.data_type() {
        DataType::FixedSizeList(..) => converted(column, from, to),
        _ => Ok(Arc::clone(column)),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    super::batch(&with_numbers(&batch.schema(), from, to), columns)
}

fn converted(array: &ArrayRef, from: &DataType, to: &DataType) -> Result<ArrayRef> {
    let Some(list) = array.as_fixed_size_list_opt() else {
        return Ok(if array.data_type() == from { cast(array, to)? } else { Arc::clone(array) });
    };
    let DataType::FixedSizeList(item, size) = list.data_type() else { return Ok(Arc::clone(array)) };
    let values = converted(list.values(), from, to)?;
    let item = Arc::new(item.as_ref().clone().with_data_type(values.data_type().clone()));
    Ok(Arc::new(FixedSizeListArray::try_new(item, *size, values, list.nulls().cloned())?))
}

/// Schema whose vectors of the numbers `from` have the numbers `to`.
fn with_numbers(schema: &SchemaRef, from: &DataType, to: &DataType) -> SchemaRef {
    fn of(data_type: &DataType, from: &DataType, to: &DataType) -> DataType {
        match data_type {
            DataType::FixedSizeList(item, size) => {
                let inner = if item.data_type() == from { to.clone() } else { of(item.data_type(), from, to) };
                DataType::FixedSizeList(Arc::new(item.as_ref().clone().with_data_type(inner)), *size)
            }
            other => other.clone(),
        }
    }
    let field = |field: &Arc<Field>| field.as_ref().clone().with_data_type(of(field.data_type(), from, to));
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// Largest number in a vector of an image. The squared norms of such vectors after a linear layer are far below the
/// largest f32.
pub const LARGEST: f32 = 1e12;

/// First finite number whose absolute value is above [`LARGEST`].
#[must_use]
pub fn too_large(vector: &[f32]) -> Option<f32> {
    vector.iter().copied().find(|value| value.is_finite() && value.abs() > LARGEST)
}

/// Checks the vector or the regions of an image.
///
/// # Errors
/// A number is not finite, or is too large.
pub fn check_image_vector(image: i64, vector: &[f32]) -> Result<()> {
    if vector.iter().any(|value| !value.is_finite()) {
        return Err(Error::data(format!("the feature of image {image} holds a value that is not finite")));
    }
    match too_large(vector) {
        Some(value) => {
            let message =
                format!("the feature of image {image} holds {value:e}, expected numbers of at most {LARGEST:e}");
            Err(Error::data(message).hint("products of such numbers are not finite"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::regions::{self, RegionColumn};
    use crate::{VectorColumn, features, repeated};

    #[test]
    fn vectors_are_rounded_once_and_come_back_as_f32() {
        // 1 + 2⁻¹¹ is halfway between two halves, of which the even one is 1; 2⁻²⁵ is halfway to the smallest one.
        let values = vec![1.0, 0.1, 1.0 + 2.0f32.powi(-11), -65_504.0, 2.0f32.powi(-24), 2.0f32.powi(-25)];
        let expected = [1.0, 0.099_975_586, 1.0, -65_504.0, 2.0f32.powi(-24), 0.0];
        let columns = regions::TableColumns {
            image_id: vec![1].into(),
            split: repeated("train", 1),
            regions: RegionColumn::new(values, 2, 3).unwrap(),
        };
        let batch = columns.into_batch().unwrap();
        let halves = to_halves(&batch).unwrap();
        assert_eq!(halves.schema(), half_schema(&batch.schema()));
        assert_ne!(halves.schema(), batch.schema());
        let back = from_halves(halves.clone()).unwrap();
        assert_eq!(back.schema(), batch.schema());
        assert_eq!(regions::values(&back).unwrap(), (&expected[..], 2, 3));
        assert_eq!(to_halves(&back).unwrap(), halves);
        assert_eq!(from_halves(back.clone()).unwrap(), back);
        let large = features::TableColumns {
            image_id: vec![1].into(),
            split: repeated("train", 1),
            feature: VectorColumn::new(vec![65_520.0], 1).unwrap(),
        };
        let error = to_halves(&large.into_batch().unwrap()).unwrap_err();
        assert!(error.to_string().contains("`feature` is too large"), "{error}");
    }

    #[test]
    fn the_first_number_that_is_too_large_is_found() {
        assert_eq!(too_large(&[1.0, -LARGEST, f32::NAN, f32::INFINITY]), None);
        assert_eq!(too_large(&[1.0, -2e12, 3e38]), Some(-2e12));
        let text = |vector: &[f32]| check_image_vector(7, vector).map_err(|error| error.to_string());
        assert_eq!(text(&[1.0, 1e11]), Ok(()));
        let large = "the feature of image 7 holds 3e38, expected numbers of at most 1e12".to_owned();
        assert_eq!(text(&[1.0, 3e38]), Err(large));
        assert_eq!(text(&[f32::NAN]), Err("the feature of image 7 holds a value that is not finite".to_owned()));
    }
}
