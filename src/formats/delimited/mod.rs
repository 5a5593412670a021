//! CSV and TSV files with a header line, optionally compressed with gzip.

mod record;
mod record_reader;
mod quotes;
mod file;
#[cfg(test)]
mod tests;

pub use file::DelimitedFile;
