//! Bytes to batches and back: the only place that opens files.

pub mod objects;
pub mod parquet;
pub mod files;
pub mod text_lines;
pub mod json;
pub mod npy;
mod mistakes;

pub use mistakes::Mistakes;
pub mod bounded;
pub mod image;
