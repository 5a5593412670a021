//! Column of encoded images.

use arrow::array::{Array, AsArray, LargeBinaryArray, RecordBatch, StringArray};
use arrow::buffer::NullBuffer;
use arrow::compute::cast;
use arrow::datatypes::DataType;

use super::column::{ColumnKind, column};
use super::utf8::utf8;
use pairloom_base::error::Result;

/// Encoded images of a column with nulls.
#[derive(Debug)]
pub struct NullablePictures {
    bytes: LargeBinaryArray,
    /// Paths of the images where they were collected.
    paths: Option<StringArray>,
    nulls: Option<NullBuffer>,
}

impl NullablePictures {
    /// Bytes of the image of a row; `None` if it is null, as for an image that is only named.
    ///
    /// # Panics
    /// `row` is out of range.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<&[u8]> {
        let is_null = self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) || self.bytes.is_null(row);
        (!is_null).then(|| self.bytes.value(row))
    }

    /// Path of the image of a row, if the file has one.
    ///
    /// # Panics
    /// `row` is out of range.
    #[must_use]
    pub fn path(&self, row: usize) -> Option<&str> {
        let paths = self.paths.as_ref().filter(|paths| paths.is_valid(row))?;
        Some(paths.value(row)).filter(|path| !path.is_empty())
    }
}

/// Reads a column of encoded images.
///
/// # Errors
/// The column is missing or of another kind.
pub fn pictures(batch: &RecordBatch, name: &str) -> Result<NullablePictures> {
    let column = column(batch, name, ColumnKind::Pictures)?;
    let (bytes, paths) = match column.as_struct_opt() {
        Some(fields) => (fields.column_by_name("bytes").unwrap_or(column), fields.column_by_name("path")),
        None => (column, None),
    };
    let paths = paths.map(utf8).transpose()?;
    let bytes = cast(bytes, &DataType::LargeBinary)?.as_binary::<i64>().clone();
    Ok(NullablePictures { bytes, paths, nulls: column.nulls().cloned() })
}
