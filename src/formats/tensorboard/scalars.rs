//! Scalars of a table as an event file.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};

use super::encoding::{append_summary, new_file, summary_value};
use pairloom_base::error::Result;
use pairloom_tables as tables;

/// Encodes an event file with one event for each row of `batch`.
///
/// The column `step` gives the step. Every f64 column becomes a scalar with the tag that `tag` gives for its name, or
/// for the `name` of the row if rows have one; nulls are skipped. Values are f32, the only precision that TensorBoard
/// shows. All events have the time `wall_time`, in seconds since 1970.
///
/// # Errors
/// There is no column `step` of Int64.
pub fn event_file(batch: &RecordBatch, wall_time: f64, tag: impl Fn(&str) -> String) -> Result<Vec<u8>> {
    let steps = tables::int_column(batch, "step")?;
    let names = batch.column_by_name("name").map(|_| tables::text_column(batch, "name")).transpose()?;
    let schema = batch.schema();
    let columns: Vec<_> = (schema.fields().iter().zip(batch.columns()))
        .filter(|(field, _)| *field.data_type() == DataType::Float64)
        .map(|(field, column)| (tag(field.name()), column.as_primitive::<Float64Type>()))
        .collect();
    let mut file = new_file(wall_time);
    for row in 0..batch.num_rows() {
        let valid = columns.iter().filter(|(_, values)| values.is_valid(row));
        let values = valid.map(|(column, values)| match names {
            Some(names) => summary_value(&tag(names.value(row)), values.value(row)),
            None => summary_value(column, values.value(row)),
        });
        append_summary(&mut file, wall_time, steps.value(row), &values.collect::<Vec<_>>());
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array};

    use super::*;

    /// The golden file was written from the same rows by TensorBoard's own writer (`tests/golden/event_file.py`).
    #[test]
    fn event_files_equal_those_of_tensorboard() {
        let rows: Vec<(&str, ArrayRef)> = vec![
            ("step", Arc::new(Int64Array::from(vec![0, 1, 127, 128, 300_000, i64::MAX]))),
            ("epoch", Arc::new(Int64Array::from(vec![0; 6]))),
            ("loss", Arc::new(Float64Array::from(vec![0.0, 0.1, -2.5, 1e-30, 1e30, 51.2]))),
            ("rsum", Arc::new(Float64Array::from(vec![Some(1.0), None, Some(3.0), None, None, Some(200.0 / 3.0)]))),
            ("best", Arc::new(BooleanArray::from(vec![true; 6]))),
        ];
        let batch =
            RecordBatch::try_from_iter_with_nullable(rows.into_iter().map(|(name, column)| (name, column, true)))
                .expect("columns of one length");
        let file = event_file(&batch, 1_700_000_000.25, |name| format!("history/{name}")).expect("a column `step`");
        let golden = include_bytes!("../../../tests/golden/event_file.tfevents");
        assert!(file == golden, "{} bytes, wanted {}", file.len(), golden.len());
    }

    #[test]
    fn rows_need_a_step() {
        let batch = RecordBatch::try_from_iter([("loss", Arc::new(Float64Array::from(vec![1.0])) as ArrayRef)]);
        let error = event_file(&batch.expect("a column"), 0.0, str::to_owned).expect_err("no step");
        assert!(error.to_string().contains("`step`"), "{error}");
    }
}
