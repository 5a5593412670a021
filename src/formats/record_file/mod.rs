//! Tables of records in user files, read one record after the other: CSV, TSV, JSON Lines, Parquet and Arrow.
//!
//! Errors name the line of a record, or in Parquet and Arrow files its row, and list all mistakes of the file.

mod field_value;
mod record_place;
mod file;
mod json_lines;
mod table_records;
#[cfg(test)]
mod tests;

pub use field_value::FieldValue;
pub use file::RecordFile;
pub use record_place::RecordPlace;
