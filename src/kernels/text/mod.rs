//! Captions as words, and words as numbers.

pub mod tokens;
pub mod treebank;
pub mod ptb;
pub mod python;
pub mod sentences;
pub mod vocabulary;
pub mod cider;
pub mod spice;

pub use tokens::Tokenizer;
pub use vocabulary::Vocabulary;
