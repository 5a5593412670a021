//! `regions`: what a detector saw in the regions of an image.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, FixedSizeListArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Float32Type};

use super::{Column, Table, vector, vectors};
use crate::error::{Error, Result};

/// One row an image.
#[must_use]
pub fn table() -> Table {
    Table {
        name: "regions",
        about: "One row an image: a feature vector of each of its regions.",
        columns: vec![
            Column::new("image_id", DataType::Int64, "The image."),
            Column::new("split", DataType::Utf8, "The split of the image."),
            Column::new(
                "regions",
                data_type(0, 0),
                "Feature vectors of the regions, f32, one number of regions and one width for the whole table.",
            ),
        ],
    }
}

/// The type of `count` vectors of `width` f32 values; 0 stands for any number of either.
#[must_use]
pub fn data_type(count: usize, width: usize) -> DataType {
    let item = Arc::new(Field::new("item", vector(width), false));
    DataType::FixedSizeList(item, i32::try_from(count).unwrap_or(i32::MAX))
}

/// The column `regions` from its values: image by image, region by region.
///
/// # Errors
/// `values` is not a whole number of images.
pub fn column(values: Vec<f32>, count: usize, width: usize) -> Result<ArrayRef> {
    let DataType::FixedSizeList(item, size) = data_type(count, width) else {
        return Err(Error::internal("the type of regions is a fixed-size list"));
    };
    Ok(Arc::new(FixedSizeListArray::try_new(item, size, vectors(values, width)?, None)?))
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
    let size = |list: &FixedSizeListArray| usize::try_from(list.value_length()).unwrap_or(0);
    let (count, width) = (size(images), size(regions));
    // Either list may be a slice of a longer one.
    let start = (images.offset() * count + regions.offset()) * width;
    Ok((&values.values()[start..start + images.len() * count * width], count, width))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};

    use super::*;
    use crate::tables;

    #[test]
    fn values_come_back_from_the_whole_and_from_a_slice() {
        let numbers: Vec<f32> = (0..24u8).map(f32::from).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![1, 2, 3, 4])),
            Arc::new(StringArray::from(vec!["train"; 4])),
            column(numbers.clone(), 2, 3).unwrap(),
        ];
        let batch = tables::batch(&table().schema_of_shape(&[2, 3]), columns).unwrap();
        assert_eq!(values(&batch).unwrap(), (&numbers[..], 2, 3));
        assert_eq!(values(&batch.slice(1, 2)).unwrap(), (&numbers[6..18], 2, 3));
        assert_eq!(values(&batch.slice(4, 0)).unwrap(), (&numbers[24..], 2, 3));
        assert!(column(numbers, 5, 3).is_err());
        let other = tables::batch(
            &Arc::new(arrow::datatypes::Schema::new(vec![Field::new("regions", vector(3), false)])),
            vec![vectors(vec![0.0; 3], 3).unwrap()],
        );
        assert!(values(&other.unwrap()).unwrap_err().to_string().contains("column `regions` is FixedSizeList"));
    }
}
