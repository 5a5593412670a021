//! Bytes to batches and back: pictures, files, formats.

pub mod image;
