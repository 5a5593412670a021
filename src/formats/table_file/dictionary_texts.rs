//! Texts of dictionaries, converted once for all batches that use them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::utf8::utf8;
use pairloom_base::error::{Error, Result};
use pairloom_tables as tables;

/// Most bytes of the texts of all dictionaries. Values of a view type may share theirs.
const MAX_BYTES: u64 = 1 << 30;

/// Texts of the dictionaries of the columns that were read last.
#[derive(Default)]
pub(super) struct DictionaryTexts {
    columns: HashMap<usize, ColumnDictionary>,
}

/// Dictionary of a column.
struct ColumnDictionary {
    /// Values in the file.
    values: ArrayRef,
    texts: ArrayRef,
    bytes: u64,
}

impl DictionaryTexts {
    /// Replaces dictionaries of large texts and of views by dictionaries of UTF-8 with offsets of 32 bits.
    ///
    /// # Errors
    /// The texts of all dictionaries come to more than 1 GiB, or one is not UTF-8.
    pub(super) fn convert(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        if !batch.schema_ref().fields().iter().any(|field| is_converted(field.data_type())) {
            return Ok(batch);
        }
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (place, (field, column)) in batch.schema_ref().fields().iter().zip(batch.columns()).enumerate() {
            if is_converted(field.data_type()) {
                let column = self.converted(place, field.name(), column)?;
                fields.push(Arc::new(Field::new(field.name(), column.data_type().clone(), true)));
                columns.push(column);
            } else {
                fields.push(Arc::clone(field));
                columns.push(ArrayRef::clone(column));
            }
        }
        let schema = SchemaRef::new(Schema::new(fields));
        tables::batch(&schema, columns)
    }

    fn converted(&mut self, place: usize, name: &str, column: &ArrayRef) -> Result<ArrayRef> {
        let dictionary = column.as_any_dictionary();
        let values = dictionary.values();
        if let Some(known) = self.columns.get(&place)
            && known.values.to_data().ptr_eq(&values.to_data())
        {
            return Ok(dictionary.with_values(ArrayRef::clone(&known.texts)));
        }
        // The texts before are dropped first.
        self.columns.remove(&place);
        let bytes = bytes(values);
        let sum = self.columns.values().fold(bytes, |sum, known| sum.saturating_add(known.bytes));
        if sum > MAX_BYTES {
            let message =
                format!("the texts of the dictionaries up to `{name}` come to {sum} bytes, wanted at most {MAX_BYTES}");
            return Err(Error::data(message).hint("write the file without dictionaries"));
        }
        let texts: ArrayRef = Arc::new(utf8(values).map_err(|error| error.context(format!("column `{name}`")))?);
        let known = ColumnDictionary { values: ArrayRef::clone(values), texts: ArrayRef::clone(&texts), bytes };
        self.columns.insert(place, known);
        Ok(dictionary.with_values(texts))
    }
}

fn is_converted(kind: &DataType) -> bool {
    let DataType::Dictionary(_, values) = kind else { return false };
    matches!(**values, DataType::LargeUtf8 | DataType::Utf8View | DataType::BinaryView)
}

/// Bytes of the texts of a dictionary.
fn bytes(values: &ArrayRef) -> u64 {
    match values.data_type() {
        DataType::Utf8View => values.as_string_view().lengths().map(u64::from).sum(),
        DataType::BinaryView => values.as_binary_view().lengths().map(u64::from).sum(),
        _ => values.as_string::<i64>().value_data().len() as u64,
    }
}
