//! `images`: the pictures of a data set.

use arrow::datatypes::DataType;

use super::{Column, Table};

/// One row an image, in the order of the data set.
#[must_use]
pub fn table() -> Table {
    Table {
        name: "images",
        about: "One row an image, in the order of the data set.",
        columns: vec![
            Column::new("image_id", DataType::Int64, "Identifier, unique in the data set."),
            Column::new("split", DataType::Utf8, "`train`, `restval`, `val` or `test`."),
            Column::new("file_name", DataType::Utf8, "Name that people know the image by."),
            Column::optional(
                "path",
                DataType::Utf8,
                "Where the file lies, relative to the image folder of the data set.",
            ),
            Column::optional("bytes", DataType::Binary, "The encoded picture itself, when it is in no file."),
        ],
    }
}
