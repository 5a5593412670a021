//! Bytes to batches and back: the only place that opens files.

pub mod objects;
pub mod parquet;
pub mod thumbnail;
