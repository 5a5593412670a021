//! Tables of the files of several results, with the same columns beside all rows of a result.
//!
//! Conditions on the columns of a result select the files that are read. Small files are read several at a time.

mod file_schemas;
mod small_files;
mod table;

pub(super) use file_schemas::{file_schemas, first_files, merge_schemas};
pub(super) use table::{ResultFilesTable, setting_kinds};
