//! Pretrained word vectors in the published formats, read for the words of a vocabulary.
//!
//! | format | content |
//! |---|---|
//! | `GloVe` | text: on every line a word and its values. <https://nlp.stanford.edu/projects/glove/> |
//! | word2vec, text | a line `count width`, then as `GloVe`; also fastText's `.vec` |
//! | word2vec, binary | a line `count width`; then for each word the word, a space, the values as little-endian f32, an optional line feed. <https://code.google.com/archive/p/word2vec/> |
//!
//! The format is detected from the content; the extension `.gz` means compression with gzip. Files have gigabytes, so
//! they are streamed: memory grows with the vocabulary only.

mod read;
mod reader;
mod collector;
mod text;
mod binary;
#[cfg(test)]
mod tests;

pub use collector::PretrainedWordVectors;
pub use read::read;
