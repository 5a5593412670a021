//! `regions`: what a detector saw in the regions of an image.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Float32Type};
use az::SaturatingAs;

use super::values::table;
use super::{Values, Vectors, vector};
use crate::error::{Error, Result};

table! {
    /// One row an image: a feature vector of each of its regions.
    "regions" {
        /// The image.
        image_id: Int64Array,
        /// The split of the image.
        split: StringArray,
        /// Feature vectors of the regions, f32, one number of regions and one width for the whole table.
        regions: Regions,
    }
}

/// The type of `count` vectors of `width` f32 values; 0 stands for any number of either.
#[must_use]
pub fn data_type(count: usize, width: usize) -> DataType {
    let item = Arc::new(Field::new("item", vector(width), false));
    DataType::FixedSizeList(item, count.saturating_as::<i32>())
}

/// Vectors of the regions of each image.
#[derive(Debug)]
pub struct Regions(FixedSizeListArray);

impl Regions {
    /// Regions from their values: image by image, `count` regions of `width` values each. Does not copy.
    ///
    /// # Errors
    /// `values` is not a whole number of images.
    pub fn new(values: Vec<f32>, count: usize, width: usize) -> Result<Self> {
        let size = count.saturating_as::<i32>();
        let item = Arc::new(Field::new("item", vector(width), false));
        Ok(Self(FixedSizeListArray::try_new(item, size, Vectors::new(values, width)?.into_array(), None)?))
    }
}

impl Values for Regions {
    fn data_type() -> DataType {
        data_type(0, 0)
    }

    fn into_array(self) -> ArrayRef {
        Arc::new(self.0)
    }
}

/// The column `regions` as (values image by image, region by region; regions of an image; values of a region), without a
/// copy.
///
/// # Errors
/// No such column, one of another type, or a missing value.
pub fn values(batch: &RecordBatch) -> Result<(&[f32], usize, usize)> {
    let column = batch.column_by_name("regions").ok_or_else(|| Error::data("no column `regions`"))?;
    let wrong = || Error::data(format!("column `regions` is {}, wanted {}", column.data_type(), data_type(0, 0)));
    let images = column.as_fixed_size_list_opt().ok_or_else(wrong)?;
    let regions = images.values().as_fixed_size_list_opt().ok_or_else(wrong)?;
    let values = regions.values().as_primitive_opt::<Float32Type>().ok_or_else(wrong)?;
    if images.null_count() + regions.null_count() + values.null_count() > 0 {
        return Err(Error::data("column `regions` has missing values, wanted a vector for every region"));
    }
    let size = |list: &FixedSizeListArray| list.value_length().saturating_as::<usize>();
    let (count, width) = (size(images), size(regions));
    // Either list may be a slice of a longer one.
    let start = (images.offset() * count + regions.offset()) * width;
    Ok((&values.values()[start..start + images.len() * count * width], count, width))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{self, repeated, vectors};

    #[test]
    fn values_come_back_from_the_whole_and_from_a_slice() {
        let numbers: Vec<f32> = (0..24u8).map(f32::from).collect();
        let columns = Columns {
            image_id: vec![1, 2, 3, 4].into(),
            split: repeated("train", 4),
            regions: Regions::new(numbers.clone(), 2, 3).unwrap(),
        };
        let batch = columns.into_batch().unwrap();
        assert_eq!(batch.schema(), table().schema_of_shape(&[2, 3]));
        assert_eq!(values(&batch).unwrap(), (&numbers[..], 2, 3));
        assert_eq!(values(&batch.slice(1, 2)).unwrap(), (&numbers[6..18], 2, 3));
        assert_eq!(values(&batch.slice(4, 0)).unwrap(), (&numbers[24..], 2, 3));
        assert!(Regions::new(numbers, 5, 3).is_err());
        let other = tables::batch(
            &Arc::new(arrow::datatypes::Schema::new(vec![Field::new("regions", vector(3), false)])),
            vec![vectors(vec![0.0; 3], 3).unwrap()],
        );
        assert!(values(&other.unwrap()).unwrap_err().to_string().contains("column `regions` is FixedSizeList"));
    }
}
