//! Tables in user files (Parquet files, Arrow files, Arrow streams) with arbitrary columns, read in batches of bounded
//! size.
//!
//! Metadata is validated against the file: damaged and forged files are errors, and so are files that are cut while they
//! are read.

mod batches;
mod file;
mod slices;
mod arrow_file;
mod parquet_file;
mod utf8;
mod dictionary_texts;
mod column;
mod pictures;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod hostile_arrow_tests;

pub use batches::MAX_WIDTH;
pub use column::{
    ColumnKind, NullableTextLists, NullableTexts, NullableVectors, has_integers, integers, text_lists, texts, vectors,
};
pub use file::TableFile;
pub use pictures::{NullablePictures, pictures};
