//! Tokeniser of CLIP: cleaning of a caption, and byte-pair encoding with the merges of a file.

mod byte_pairs;
mod cleaning;
mod html_entities;
#[cfg(test)]
mod golden_tests;

pub use byte_pairs::{ClipTokenizer, END, START};
pub use cleaning::clean;
