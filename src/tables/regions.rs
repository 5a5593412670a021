//! `regions`: feature vectors of the regions that a detector found in images.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Float32Type};
use az::SaturatingAs;

use super::column::table;
use super::{ColumnValues, VectorColumn, vector_type};
use pairloom_base::error::{Error, Result};

table! {
    /// One row per image: the feature vectors of its regions.
    "regions" {
        /// Identifier of the image.
        image_id: Int64Array,
        /// Split of the image.
        split: StringArray,
        /// Feature vectors of the regions, f32. All images of the table have the same number of regions and the same
        /// width.
        regions: RegionColumn,
    }
}

/// Returns the type of `count` vectors of `width` f32 values; 0 stands for any number of either.
#[must_use]
pub fn data_type(count: usize, width: usize) -> DataType {
    let item = Arc::new(Field::new("item", vector_type(width), false));
    DataType::FixedSizeList(item, count.saturating_as::<i32>())
}

/// Column of region features: a fixed number of vectors in each row.
#[derive(Debug)]
pub struct RegionColumn(FixedSizeListArray);

impl RegionColumn {
    /// Wraps values without a copy: image by image, `count` regions of `width` values each.
    ///
    /// # Errors
    /// `values` is not a whole number of images.
    pub fn new(values: Vec<f32>, count: usize, width: usize) -> Result<Self> {
        let size = count.saturating_as::<i32>();
        let item = Arc::new(Field::new("item", vector_type(width), false));
        Ok(Self(FixedSizeListArray::try_new(item, size, VectorColumn::new(values, width)?.into_array(), None)?))
    }
}

impl ColumnValues for RegionColumn {
    fn data_type() -> DataType {
        data_type(0, 0)
    }

    fn into_array(self) -> ArrayRef {
        Arc::new(self.0)
    }
}

/// Returns the column `regions` without a copy, as (values, number of regions of an image, width of a region). The
/// values are ordered by image, then by region.
pub fn values(batch: &RecordBatch) -> Result<(&[f32], usize, usize)> {
    vectors(batch, "regions")
}

/// Returns a column of vectors of regions without a copy, as [`values`].
pub(super) fn vectors<'b>(batch: &'b RecordBatch, name: &str) -> Result<(&'b [f32], usize, usize)> {
    let column = batch.column_by_name(name).ok_or_else(|| Error::data(format!("no column `{name}`")))?;
    let wrong = || Error::data(format!("column `{name}` is {}, expected {}", column.data_type(), data_type(0, 0)));
    let images = column.as_fixed_size_list_opt().ok_or_else(wrong)?;
    let regions = images.values().as_fixed_size_list_opt().ok_or_else(wrong)?;
    let values = regions.values().as_primitive_opt::<Float32Type>().ok_or_else(wrong)?;
    if images.null_count() + regions.null_count() + values.null_count() > 0 {
        return Err(Error::data(format!("column `{name}` has missing values, expected a vector for every region")));
    }
    let size = |list: &FixedSizeListArray| list.value_length().saturating_as::<usize>();
    let (count, width) = (size(images), size(regions));
    // Either list may be a slice of a longer array.
    let start = (images.offset() * count + regions.offset()) * width;
    Ok((&values.values()[start..start + images.len() * count * width], count, width))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{batch, repeated, vector_array};

    #[test]
    fn values_are_read_from_a_batch_and_from_a_slice() {
        let numbers: Vec<f32> = (0..24u8).map(f32::from).collect();
        let columns = TableColumns {
            image_id: vec![1, 2, 3, 4].into(),
            split: repeated("train", 4),
            regions: RegionColumn::new(numbers.clone(), 2, 3).unwrap(),
        };
        let rows = columns.into_batch().unwrap();
        assert_eq!(rows.schema(), table().schema_with_shape(&[2, 3]));
        assert_eq!(values(&rows).unwrap(), (&numbers[..], 2, 3));
        assert_eq!(values(&rows.slice(1, 2)).unwrap(), (&numbers[6..18], 2, 3));
        assert_eq!(values(&rows.slice(4, 0)).unwrap(), (&numbers[24..], 2, 3));
        assert!(RegionColumn::new(numbers, 5, 3).is_err());
        let other = batch(
            &Arc::new(arrow::datatypes::Schema::new(vec![Field::new("regions", vector_type(3), false)])),
            vec![vector_array(vec![0.0; 3], 3).unwrap()],
        );
        assert!(values(&other.unwrap()).unwrap_err().to_string().contains("column `regions` is FixedSizeList"));
    }
}
