//! Texts as UTF-8 with offsets of 32 bits.
//!
//! The library checks the text of each view when it decodes a file, and many views may share one long text. So the views of
//! Arrow files are decoded as those of bytes, and checked here in slices of a bounded size.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{BinaryViewType, DataType, Field, FieldRef};

use pairloom_base::error::{Error, Result};

/// Converts texts of any type.
///
/// # Errors
/// A text is not UTF-8.
pub(super) fn utf8(values: &ArrayRef) -> Result<StringArray> {
    match values.as_byte_view_opt::<BinaryViewType>() {
        Some(views) => {
            let texts = views.iter().map(|bytes| bytes.map(std::str::from_utf8).transpose());
            texts.collect::<Result<_, _>>().map_err(|error| Error::data(format!("a text is not UTF-8: {error}")))
        }
        None => Ok(cast(values, &DataType::Utf8)?.as_string::<i32>().clone()),
    }
}

/// Type with views of bytes in place of those of texts.
pub(super) fn byte_views(kind: &DataType) -> DataType {
    replaced(kind, &DataType::Utf8View, &DataType::BinaryView)
}

/// Type with views of texts in place of those of bytes.
pub(super) fn text_views(kind: &DataType) -> DataType {
    replaced(kind, &DataType::BinaryView, &DataType::Utf8View)
}

/// Replaces a type in the types that columns may have.
fn replaced(kind: &DataType, from: &DataType, to: &DataType) -> DataType {
    let field = |field: &FieldRef| -> FieldRef {
        Arc::new(Field::clone(field).with_data_type(replaced(field.data_type(), from, to)))
    };
    match kind {
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::FixedSizeList(item, width) => DataType::FixedSizeList(field(item), *width),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        DataType::Dictionary(key, values) => DataType::Dictionary(key.clone(), Box::new(replaced(values, from, to))),
        kind if kind == from => to.clone(),
        kind => kind.clone(),
    }
}
