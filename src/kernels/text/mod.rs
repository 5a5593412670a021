//! Captions as words, and words as numbers.

pub mod tokens;
pub mod treebank;
pub mod sentences;
pub mod vocabulary;

pub use tokens::{treebank, whitespace};
pub use vocabulary::Vocabulary;
