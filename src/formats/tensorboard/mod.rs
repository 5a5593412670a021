//! TensorBoard event files: curves of scalars, and the settings of trainings for the plugin `HParams`.
//!
//! Format: `TFRecord` records (length, masked CRC-32C of the length, content, masked CRC-32C of the content;
//! little-endian). Each content is an `Event` message of `tensorflow/core/util/event.proto`. The messages of the plugin
//! are those of `tensorboard/plugins/hparams/plugin_data.proto` and `api.proto`.

mod encoding;
mod hparams;
mod scalars;

pub use hparams::{Hparam, HparamMetric, HparamValue, experiment_file, session_end_file, session_start_file};
pub use scalars::event_file;
