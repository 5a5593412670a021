//! Columns of results as clients see them.
//!
//! A client compares the columns that were announced with those that it gets. Whether a value can be missing is known
//! only to the optimiser, so all can be missing here; dictionaries are sent as their values.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;

/// Columns as they are announced and sent.
pub(super) fn sent_columns(columns: &Schema) -> SchemaRef {
    Arc::new(Schema::new(columns.fields().iter().map(sent_field).collect::<Vec<_>>()))
}

fn sent_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), sent_type(field.data_type()), true))
}

fn sent_type(of: &DataType) -> DataType {
    match of {
        DataType::Dictionary(_, values) => sent_type(values),
        DataType::LargeList(item) => DataType::LargeList(sent_field(item)),
        // The width 0 stands for one that is not known before the vectors are read.
        DataType::List(item) | DataType::FixedSizeList(item, 0) => DataType::List(sent_field(item)),
        DataType::FixedSizeList(item, width) => DataType::FixedSizeList(sent_field(item), *width),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(sent_field).collect()),
        other => other.clone(),
    }
}

/// Rows with these columns.
///
/// # Errors
/// A column cannot have the wanted type.
#[expect(clippy::disallowed_methods, reason = "a result may have no column")]
pub(super) fn with_columns(rows: &RecordBatch, columns: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let values = rows.columns().iter().zip(columns.fields()).map(|(values, field)| {
        if values.data_type() == field.data_type() { Ok(Arc::clone(values)) } else { cast(values, field.data_type()) }
    });
    let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(columns), values.collect::<Result<_, _>>()?, &options)
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, AsArray, DictionaryArray, FixedSizeListArray, Int64Array};
    use arrow::datatypes::{Float32Type, Int32Type};

    use super::*;

    #[test]
    fn rows_have_the_announced_columns() {
        let item = Arc::new(Field::new("item", DataType::Float32, false));
        let values = Arc::new(arrow::array::Float32Array::from(vec![1.0, 2.0, 3.0, 4.0]));
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("id", Arc::new(Int64Array::from(vec![1, 2]))),
            ("split", Arc::new(DictionaryArray::<Int32Type>::from_iter(["train", "test"]))),
            ("vector", Arc::new(FixedSizeListArray::new(item, 2, values, None))),
        ];
        let rows = RecordBatch::try_from_iter(columns).unwrap();
        let announced = sent_columns(&rows.schema());
        let sent = with_columns(&rows, &announced).unwrap();
        assert_eq!(sent.schema(), announced);
        assert!(announced.fields().iter().all(|field| field.is_nullable()));
        assert_eq!(announced.field(1).data_type(), &DataType::Utf8);
        assert_eq!(sent.column(1).as_string::<i32>().value(1), "test");
        let vectors = sent.column(2).as_fixed_size_list();
        assert_eq!(vectors.values().as_primitive::<Float32Type>().values(), &[1.0, 2.0, 3.0, 4.0]);
        assert!(matches!(announced.field(2).data_type(), DataType::FixedSizeList(item, 2) if item.is_nullable()));
    }
}
