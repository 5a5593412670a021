//! Texts of dictionaries, converted once for all batches that use them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, StringViewType};

use crate::error::{Error, Result};
use crate::tables;

/// Most bytes of the texts of a dictionary. Values of a view type may share theirs.
const MAX_BYTES: u64 = 1 << 30;

/// Texts of the dictionaries of the columns that were read last.
#[derive(Default)]
pub(super) struct DictionaryTexts {
    /// Dictionary of a column in the file, and as UTF-8 with offsets of 32 bits.
    columns: HashMap<usize, (ArrayRef, ArrayRef)>,
}

impl DictionaryTexts {
    /// Replaces dictionaries of large texts and of views by dictionaries of UTF-8 with offsets of 32 bits.
    ///
    /// # Errors
    /// The texts of a dictionary come to more than 1 GiB.
    pub(super) fn convert(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        let is_converted = |kind: &DataType| matches!(kind, DataType::Dictionary(_, values) if matches!(**values, DataType::LargeUtf8 | DataType::Utf8View));
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
        let known = self.columns.get(&place).filter(|(from, _)| from.to_data().ptr_eq(&values.to_data()));
        let texts = match known {
            Some((_, texts)) => ArrayRef::clone(texts),
            None => {
                let bytes = bytes(values);
                if bytes > MAX_BYTES {
                    let message = format!(
                        "the texts of the dictionary of `{name}` come to {bytes} bytes, wanted at most {MAX_BYTES}"
                    );
                    return Err(Error::data(message).hint("write the file without dictionaries"));
                }
                let texts = cast(values, &DataType::Utf8)?;
                self.columns.insert(place, (ArrayRef::clone(values), ArrayRef::clone(&texts)));
                texts
            }
        };
        Ok(dictionary.with_values(texts))
    }
}

/// Bytes of the texts of a dictionary.
fn bytes(values: &ArrayRef) -> u64 {
    match values.as_byte_view_opt::<StringViewType>() {
        // The lower four bytes of a view are its length.
        Some(texts) => texts.views().iter().map(|view| u64::try_from(view & u128::from(u32::MAX)).unwrap_or(0)).sum(),
        None => values.as_string::<i64>().value_data().len() as u64,
    }
}
