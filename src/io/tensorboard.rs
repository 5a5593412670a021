//! Encoding of scalars as a TensorBoard event file.
//!
//! Format: `TFRecord` records (length, masked CRC-32C of the length, content, masked CRC-32C of the content;
//! little-endian). Each content is an `Event` message of `tensorflow/core/util/event.proto` in the protobuf encoding
//! <https://protobuf.dev/programming-guides/encoding/>.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};

use crate::error::Result;
use crate::tables;

/// File version, in the first event of every file.
const VERSION: &str = "brain.Event:2";

/// Encodes an event file with one event for each row of `batch`, a part of `table`.
///
/// The column `step` gives the step. Every f64 column becomes a scalar with the tag `table/column`, or `table/name` if
/// rows have a `name`; nulls are skipped. Values are f32, the only precision that TensorBoard shows. All events have
/// the time `wall_time`, in seconds since 1970.
///
/// # Errors
/// There is no column `step` of Int64.
pub fn event_file(table: &str, batch: &RecordBatch, wall_time: f64) -> Result<Vec<u8>> {
    let steps = tables::int_column(batch, "step")?;
    let names = batch.column_by_name("name").map(|_| tables::text_column(batch, "name")).transpose()?;
    let schema = batch.schema();
    let columns: Vec<_> = (schema.fields().iter().zip(batch.columns()))
        .filter(|(field, _)| *field.data_type() == DataType::Float64)
        .map(|(field, column)| (format!("{table}/{}", field.name()), column.as_primitive::<Float64Type>()))
        .collect();
    let mut file = Vec::new();
    append_record(&mut file, &encode_event(wall_time, 0, &bytes_field(3, VERSION.as_bytes())));
    for row in 0..batch.num_rows() {
        let mut summary = Vec::new();
        for (tag, values) in columns.iter().filter(|(_, values)| values.is_valid(row)) {
            let named = names.map(|names| format!("{table}/{}", names.value(row)));
            summary.extend(bytes_field(1, &summary_value(named.as_ref().unwrap_or(tag), values.value(row))));
        }
        append_record(&mut file, &encode_event(wall_time, steps.value(row), &bytes_field(5, &summary)));
    }
    Ok(file)
}

/// Appends a `TFRecord` to `file`.
fn append_record(file: &mut Vec<u8>, content: &[u8]) {
    let length = (content.len() as u64).to_le_bytes();
    file.extend(length);
    file.extend(mask_crc(crc32c(&length)).to_le_bytes());
    file.extend(content);
    file.extend(mask_crc(crc32c(content)).to_le_bytes());
}

/// Encodes an `Event`: wall time (field 1), step (field 2) and the field `what`. Fields with value 0 are omitted, as in
/// protobuf.
fn encode_event(wall_time: f64, step: i64, what: &[u8]) -> Vec<u8> {
    let mut event = Vec::new();
    if wall_time != 0.0 {
        event.push(field_tag(1, 1));
        event.extend(wall_time.to_le_bytes());
    }
    if step != 0 {
        event.push(field_tag(2, 0));
        varint(&mut event, step.cast_unsigned());
    }
    event.extend(what);
    event
}

/// Encodes a `Summary.Value`: tag (field 1), simple value (field 2).
fn summary_value(tag: &str, value: f64) -> Vec<u8> {
    let mut scalar = bytes_field(1, tag.as_bytes());
    scalar.push(field_tag(2, 5));
    #[expect(clippy::cast_possible_truncation, reason = "TensorBoard shows f32")]
    scalar.extend((value as f32).to_le_bytes());
    scalar
}

/// Encodes a length-delimited field: bytes, text or a message.
fn bytes_field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut field = vec![field_tag(number, 2)];
    varint(&mut field, content.len() as u64);
    field.extend(content);
    field
}

/// Tag of a field: its number, below 16, and its wire type.
fn field_tag(number: u8, wire_type: u8) -> u8 {
    number << 3 | wire_type
}

/// Appends a varint: groups of seven bits, the lowest first; the eighth bit is set if more follow.
fn varint(to: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            to.push(low);
            return;
        }
        to.push(low | 0x80);
    }
}

/// CRC-32C (Castagnoli, RFC 3720 B.4), computed bit by bit, since event files are small.
fn crc32c(bytes: &[u8]) -> u32 {
    let shifted = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), shifted))
}

/// Masks a CRC, as `TFRecord` does. Without the mask, the CRC of data that contains CRCs would be weak.
fn mask_crc(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array};

    use super::*;

    /// Test vectors of RFC 3720, B.4, and the check value of the catalogue of CRCs.
    #[test]
    fn crc32c_agrees_with_the_rfc() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

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
        let file = event_file("history", &batch, 1_700_000_000.25).expect("a column `step`");
        let golden = include_bytes!("../../tests/golden/event_file.tfevents");
        assert!(file == golden, "{} bytes, wanted {}", file.len(), golden.len());
    }

    #[test]
    fn rows_need_a_step() {
        let batch = RecordBatch::try_from_iter([("loss", Arc::new(Float64Array::from(vec![1.0])) as ArrayRef)]);
        let error = event_file("history", &batch.expect("a column"), 0.0).expect_err("no step");
        assert!(error.to_string().contains("`step`"), "{error}");
    }
}
