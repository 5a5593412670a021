//! Bytes to values and back, one file a format.

pub mod json;
pub mod npy;
pub mod text_lines;
mod mistakes;

pub use mistakes::Mistakes;
