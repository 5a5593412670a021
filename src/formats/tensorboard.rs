//! TensorBoard event files: curves of scalars, and the settings of trainings for the plugin `HParams`.
//!
//! A folder of event files is a session, that is one training. The experiment names the settings and metrics of all
//! sessions.
//!
//! Format: `TFRecord` records (length, masked CRC-32C of the length, content, masked CRC-32C of the content;
//! little-endian). Each content is an `Event` message of `tensorflow/core/util/event.proto`. The messages of the plugin
//! are those of `tensorboard/plugins/hparams/plugin_data.proto` and `api.proto`.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};

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

/// Value of a setting.
#[derive(Debug, Clone, PartialEq)]
pub enum HparamValue {
    /// Text.
    Text(String),
    /// Number.
    Number(f64),
    /// Boolean.
    Flag(bool),
}

/// Setting of the sessions of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Hparam {
    /// Name: `learning_rate`.
    pub name: String,
    /// Distinct values of all sessions, at least one.
    pub values: Vec<HparamValue>,
    /// True if the sessions differ in it. TensorBoard shows such settings first.
    pub differs: bool,
}

/// Metric of the sessions of an experiment.
#[derive(Debug, Clone, Copy)]
pub struct HparamMetric {
    /// Tag of its scalar.
    pub tag: &'static str,
    /// Name of its column.
    pub display_name: &'static str,
}

/// Encodes an event file with an `Experiment`: its settings and metrics.
#[must_use]
pub fn experiment_file(wall_time: f64, hparams: &[Hparam], metrics: &[HparamMetric]) -> Vec<u8> {
    let mut experiment = Vec::new();
    for hparam in hparams {
        experiment.extend(bytes_field(4, &hparam_info(hparam)));
    }
    for metric in metrics {
        // A `MetricInfo`: name (field 1, a `MetricName` with its tag in field 2), display name (field 3).
        let name = bytes_field(1, &bytes_field(2, metric.tag.as_bytes()));
        experiment.extend(bytes_field(5, &[name, bytes_field(3, metric.display_name.as_bytes())].concat()));
    }
    let mut file = new_file(wall_time);
    append_summary(&mut file, wall_time, 0, &[plugin_value("_hparams_/experiment", 2, &experiment)]);
    file
}

/// Encodes an event file with a `SessionStartInfo`: the settings of a training, sorted by name.
#[must_use]
pub fn session_start_file(wall_time: f64, hparams: &[(String, HparamValue)]) -> Vec<u8> {
    let mut start = Vec::new();
    for (name, value) in hparams {
        // Entry of a map: key (field 1), value (field 2).
        let entry = [bytes_field(1, name.as_bytes()), bytes_field(2, &encode_value(value))].concat();
        start.extend(bytes_field(1, &entry));
    }
    start.extend(double_field(5, wall_time));
    let mut file = new_file(wall_time);
    append_summary(&mut file, wall_time, 0, &[plugin_value("_hparams_/session_start_info", 3, &start)]);
    file
}

/// Encodes an event file with a `SessionEndInfo` of a training that succeeded, and its metrics: tags and values.
#[must_use]
pub fn session_end_file(wall_time: f64, step: i64, metrics: &[(&str, f64)]) -> Vec<u8> {
    /// `STATUS_SUCCESS`.
    const SUCCESS: u64 = 1;
    let end = [varint_field(1, SUCCESS), double_field(2, wall_time)].concat();
    let mut file = new_file(wall_time);
    append_summary(&mut file, wall_time, 0, &[plugin_value("_hparams_/session_end_info", 4, &end)]);
    let values: Vec<_> = metrics.iter().map(|(tag, value)| summary_value(tag, *value)).collect();
    if !values.is_empty() {
        append_summary(&mut file, wall_time, step, &values);
    }
    file
}

/// Encodes an `HParamInfo`: name (field 1), type (field 4), domain of texts and booleans (field 5), differs (field 7).
fn hparam_info(hparam: &Hparam) -> Vec<u8> {
    let all = |of_type: fn(&HparamValue) -> bool| hparam.values.iter().all(of_type);
    let (data_type, discrete) = if all(|value| matches!(value, HparamValue::Flag(_))) {
        (2, true)
    } else if all(|value| matches!(value, HparamValue::Number(_))) {
        (3, false)
    } else {
        (1, true)
    };
    let mut info = [bytes_field(1, hparam.name.as_bytes()), varint_field(4, data_type)].concat();
    if discrete {
        let values: Vec<u8> = hparam.values.iter().flat_map(|value| bytes_field(1, &encode_value(value))).collect();
        info.extend(bytes_field(5, &values));
    }
    if hparam.differs {
        info.extend(varint_field(7, 1));
    }
    info
}

/// Encodes a `google.protobuf.Value`.
fn encode_value(value: &HparamValue) -> Vec<u8> {
    match value {
        HparamValue::Number(number) => double_field(2, *number),
        HparamValue::Text(text) => bytes_field(3, text.as_bytes()),
        HparamValue::Flag(flag) => varint_field(4, u64::from(*flag)),
    }
}

/// Encodes a `Summary.Value` of the plugin: tag (field 1), an empty tensor of f32 (field 8), and the message as content
/// of the plugin (field 9), where it is the field `number` of an `HParamsPluginData`.
fn plugin_value(tag: &str, number: u8, message: &[u8]) -> Vec<u8> {
    /// `TensorProto` of type f32 (field 1) and a shape (field 2) with one dimension of size 0.
    const EMPTY_TENSOR: [u8; 6] = [0x08, 1, 0x12, 2, 0x12, 0];
    let plugin = [bytes_field(1, b"hparams"), bytes_field(2, &bytes_field(number, message))].concat();
    let tensor = bytes_field(8, &EMPTY_TENSOR);
    [bytes_field(1, tag.as_bytes()), tensor, bytes_field(9, &bytes_field(1, &plugin))].concat()
}

/// File version, in the first event of every file.
const VERSION: &str = "brain.Event:2";

/// Starts an event file.
pub(super) fn new_file(wall_time: f64) -> Vec<u8> {
    let mut file = Vec::new();
    append_event(&mut file, wall_time, 0, &bytes_field(3, VERSION.as_bytes()));
    file
}

/// Appends an event of a step. `values` are encoded by [`summary_value`].
pub(super) fn append_summary(file: &mut Vec<u8>, wall_time: f64, step: i64, values: &[Vec<u8>]) {
    let summary: Vec<u8> = values.iter().flat_map(|value| bytes_field(1, value)).collect();
    append_event(file, wall_time, step, &bytes_field(5, &summary));
}

/// Encodes a `Summary.Value` with a scalar: tag (field 1), simple value (field 2).
pub(super) fn summary_value(tag: &str, value: f64) -> Vec<u8> {
    let mut scalar = bytes_field(1, tag.as_bytes());
    scalar.push(field_tag(2, 5));
    #[expect(clippy::cast_possible_truncation, reason = "TensorBoard shows f32")]
    scalar.extend((value as f32).to_le_bytes());
    scalar
}

/// Encodes a field of a double.
pub(super) fn double_field(number: u8, value: f64) -> Vec<u8> {
    let mut field = vec![field_tag(number, 1)];
    field.extend(value.to_le_bytes());
    field
}

/// Encodes a field of an integer, a boolean or an enum.
pub(super) fn varint_field(number: u8, value: u64) -> Vec<u8> {
    let mut field = vec![field_tag(number, 0)];
    varint(&mut field, value);
    field
}

/// Appends the record of an `Event`: wall time (field 1), step (field 2) and the field `what`. Fields with value 0 are
/// omitted, as in protobuf.
fn append_event(file: &mut Vec<u8>, wall_time: f64, step: i64, what: &[u8]) {
    let mut event = Vec::new();
    if wall_time != 0.0 {
        event.extend(double_field(1, wall_time));
    }
    if step != 0 {
        event.extend(varint_field(2, step.cast_unsigned()));
    }
    event.extend(what);
    append_record(file, &event);
}

/// Appends a `TFRecord` to `file`.
fn append_record(file: &mut Vec<u8>, content: &[u8]) {
    let length = (content.len() as u64).to_le_bytes();
    file.extend(length);
    file.extend(mask_crc(crc32c(&length)).to_le_bytes());
    file.extend(content);
    file.extend(mask_crc(crc32c(content)).to_le_bytes());
}

/// Encodes a length-delimited field: bytes, text or a message.
pub(super) fn bytes_field(number: u8, content: &[u8]) -> Vec<u8> {
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
        let golden = include_bytes!("../../tests/golden/event_file.tfevents");
        assert!(file == golden, "{} bytes, expected {}", file.len(), golden.len());
    }

    #[test]
    fn rows_need_a_step() {
        let batch = RecordBatch::try_from_iter([("loss", Arc::new(Float64Array::from(vec![1.0])) as ArrayRef)]);
        let error = event_file(&batch.expect("a column"), 0.0, str::to_owned).expect_err("no step");
        assert!(error.to_string().contains("`step`"), "{error}");
    }

    /// The golden files were written with the messages of TensorBoard, whose plugin read them
    /// (`tests/golden/hparams.py`).
    #[test]
    fn hparams_equal_those_of_tensorboard() {
        let text = |text: &str| HparamValue::Text(text.to_owned());
        let hparam = |name: &str, values: Vec<HparamValue>, differs| Hparam { name: name.to_owned(), values, differs };
        let hparams = [
            hparam("bidirectional", vec![HparamValue::Flag(false)], false),
            hparam("learning_rate", vec![HparamValue::Number(0.001), HparamValue::Number(0.0)], true),
            hparam("loss", vec![text("sum"), text("max")], true),
        ];
        let metrics = [HparamMetric { tag: "kept/rsum", display_name: "rsum" }];
        let experiment = experiment_file(1_700_000_000.25, &hparams, &metrics);
        let session = hparams.map(|hparam| (hparam.name, hparam.values[hparam.values.len() - 1].clone()));
        let start = session_start_file(1_700_000_000.25, &session);
        let end = session_end_file(1_700_000_100.5, 300, &[("kept/rsum", 200.0 / 3.0)]);
        for (name, file, golden) in [
            ("experiment", experiment, &include_bytes!("../../tests/golden/hparams_experiment.tfevents")[..]),
            ("start", start, &include_bytes!("../../tests/golden/hparams_start.tfevents")[..]),
            ("end", end, &include_bytes!("../../tests/golden/hparams_end.tfevents")[..]),
        ] {
            assert!(file == golden, "{name}: {} bytes, expected {}", file.len(), golden.len());
        }
    }

    /// Test vectors of RFC 3720, B.4, and the check value of the catalogue of CRCs.
    #[test]
    fn crc32c_agrees_with_the_rfc() {
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(&(0..32).collect::<Vec<u8>>()), 0x46dd_794e);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }
}
