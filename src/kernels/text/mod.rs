//! Text kernels: tokenisers, the vocabulary of token ids, and the caption similarities CIDEr and SPICE.

pub mod tokenizer;
pub mod treebank;
pub mod ptb;
pub mod python;
pub mod sentences;
pub mod vocabulary;
pub mod cider;
pub mod spice;

pub use tokenizer::Tokenizer;
pub use vocabulary::Vocabulary;
