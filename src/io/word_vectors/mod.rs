//! Pretrained word vectors in the forms in which they are published, read for the words of a vocabulary.
//!
//! | form | content |
//! |---|---|
//! | `GloVe` | text; every line a word and its values. <https://nlp.stanford.edu/projects/glove/> |
//! | word2vec, text | as above after a line `count width`. fastText's `.vec` too |
//! | word2vec, binary | that line; then a word, a space, the values as little-endian f32, and perhaps a line feed. <https://code.google.com/archive/p/word2vec/> |
//!
//! Which one a file is follows from its content; a name that ends with `.gz` says that it is compressed with gzip.
//! Files have gigabytes, so they are read once from start to end; memory grows with the vocabulary alone.

mod read;
mod source;
mod keep;
mod text;
mod binary;
#[cfg(test)]
mod tests;

pub use keep::WordVectors;
pub use read::read;
