//! Settings of trainings, as the plugin `HParams` of TensorBoard reads them.
//!
//! A folder of event files is a session, that is one training. The experiment names the settings and metrics of all
//! sessions.

use super::encoding::{append_summary, bytes_field, double_field, new_file, summary_value, varint_field};

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

#[cfg(test)]
mod tests {
    use super::*;

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
            ("experiment", experiment, &include_bytes!("../../../tests/golden/hparams_experiment.tfevents")[..]),
            ("start", start, &include_bytes!("../../../tests/golden/hparams_start.tfevents")[..]),
            ("end", end, &include_bytes!("../../../tests/golden/hparams_end.tfevents")[..]),
        ] {
            assert!(file == golden, "{name}: {} bytes, wanted {}", file.len(), golden.len());
        }
    }
}
