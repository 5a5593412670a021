//! Tables of people in Parquet files, Arrow files and Arrow streams, read in bounded pieces with names and types of columns
//! that are theirs.
//!
//! What a file says of itself is taken at its word only where it fits the file: a damaged or forged one is an error.
//! Files are memory-mapped and must not change while they are open.

mod batches;
mod file;
mod arrow_file;
mod parquet_file;
mod column;
#[cfg(test)]
mod tests;

pub use batches::MAX_WIDTH;
pub use column::{Kind, Texts, Vectors, texts, vectors, whole_numbers};
pub use file::TableFile;
