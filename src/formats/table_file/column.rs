//! Conversion of columns of user files: integers, texts, vectors and encoded images of any Arrow type.

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Int64Array, LargeBinaryArray, RecordBatch, StringArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int64Type};
use az::SaturatingAs;

use crate::npy::not_finite;
use pairloom_base::error::{Error, Result};

/// Maximum length of a vector: many times the widest joint embedding space that we know of.
pub const MAX_WIDTH: usize = 1 << 16;

/// Kind of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Integers of any width, signed or unsigned.
    Integers,
    /// Texts, plain or dictionary-encoded.
    Texts,
    /// Texts or integers.
    TextsOrIntegers,
    /// Texts, or lists of texts with or without a fixed size.
    TextsOrLists,
    /// Encoded images: bytes, or the struct of Hugging Face with the fields `bytes` and `path`, a text.
    Pictures,
    /// Vectors: lists of f16, f32 or f64, with or without a fixed size.
    Vectors,
}

impl ColumnKind {
    /// Checks that a column type is of this kind.
    ///
    /// # Errors
    /// The type is of another kind, or is a list of fixed size that is empty or longer than [`MAX_WIDTH`].
    pub fn accepts(self, kind: &DataType) -> Result<(), String> {
        let expected = match self {
            ColumnKind::Integers if kind.is_integer() => return Ok(()),
            ColumnKind::Texts if is_text(kind) => return Ok(()),
            ColumnKind::TextsOrIntegers if kind.is_integer() || is_text(kind) => return Ok(()),
            ColumnKind::TextsOrLists if is_text(kind) || is_text_list(kind) => return Ok(()),
            ColumnKind::Pictures if is_picture(kind) => return Ok(()),
            ColumnKind::Vectors if is_vector(kind) => match kind {
                DataType::FixedSizeList(_, width)
                    if !usize::try_from(*width).is_ok_and(|width| (1..=MAX_WIDTH).contains(&width)) =>
                {
                    return Err(format!("has vectors of {width} values, expected 1 to {MAX_WIDTH}"));
                }
                _ => return Ok(()),
            },
            ColumnKind::Integers => "whole numbers",
            ColumnKind::Texts => "texts",
            ColumnKind::TextsOrIntegers => "texts or whole numbers",
            ColumnKind::TextsOrLists => "texts or lists of texts",
            ColumnKind::Pictures => "bytes, or a struct of `bytes` and `path`",
            ColumnKind::Vectors => "lists of Float16, Float32 or Float64",
        };
        Err(format!("is {kind}, expected {expected}"))
    }
}

fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values) && !matches!(**values, DataType::Dictionary(..)),
        _ => false,
    }
}

fn is_text_list(kind: &DataType) -> bool {
    match kind {
        DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => {
            matches!(item.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
        }
        _ => false,
    }
}

fn is_picture(kind: &DataType) -> bool {
    match kind {
        DataType::Struct(fields) => {
            fields.iter().any(|field| field.name() == "bytes" && is_binary(field.data_type()))
                && fields.iter().all(|field| field.name() != "path" || is_text(field.data_type()))
        }
        kind => is_binary(kind),
    }
}

fn is_binary(kind: &DataType) -> bool {
    matches!(kind, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

fn is_vector(kind: &DataType) -> bool {
    match kind {
        DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => {
            item.data_type().is_floating()
        }
        _ => false,
    }
}

/// Reads a column of integers as i64. Values above 2⁶³ - 1 become null.
///
/// # Errors
/// The column is missing or of another kind.
pub fn integers(batch: &RecordBatch, name: &str) -> Result<Int64Array> {
    let column = column(batch, name, ColumnKind::Integers)?;
    let options = CastOptions { safe: true, ..CastOptions::default() };
    Ok(cast_with_options(column, &DataType::Int64, &options)?.as_primitive::<Int64Type>().clone())
}

/// Texts of a column with nulls.
#[derive(Debug)]
pub struct NullableTexts(StringArray);

impl NullableTexts {
    /// Text of a row; `None` if it is null.
    ///
    /// # Panics
    /// `row` is out of range.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<&str> {
        self.0.is_valid(row).then(|| self.0.value(row))
    }
}

/// Reads a column of texts.
///
/// # Errors
/// The column is missing or of another kind.
pub fn texts(batch: &RecordBatch, name: &str) -> Result<NullableTexts> {
    Ok(NullableTexts(strings(column(batch, name, ColumnKind::Texts)?)?))
}

/// Vectors of a column with nulls.
#[derive(Debug)]
pub struct NullableVectors {
    values: Float32Array,
    /// Values in the file, of any type of numbers.
    originals: ArrayRef,
    /// Offsets of the rows, and the end of the last row.
    bounds: Vec<usize>,
    nulls: Option<NullBuffer>,
}

impl NullableVectors {
    /// Vector of a row.
    ///
    /// # Errors
    /// The vector or one of its values is null, or a value is not finite or too large for f32.
    ///
    /// # Panics
    /// `row` is out of range.
    pub fn get(&self, row: usize) -> Result<&[f32], String> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Err("the vector is missing".to_owned());
        }
        let range = self.bounds[row]..self.bounds[row + 1];
        if let Some(nulls) = self.values.nulls()
            && let Some(column) = range.clone().position(|place| nulls.is_null(place))
        {
            return Err(format!("the value of column {column} is missing"));
        }
        let vector = &self.values.values()[range.clone()];
        match vector.iter().position(|value| !value.is_finite()) {
            None => Ok(vector),
            Some(column) => {
                let original = self.originals.as_primitive_opt::<Float64Type>();
                let value = original.map_or(f64::from(vector[column]), |values| values.value(range.start + column));
                Err(format!("the value of column {column} is {}", not_finite(value)))
            }
        }
    }
}

/// Reads a column of vectors as f32.
///
/// # Errors
/// The column is missing or of another kind.
pub fn vectors(batch: &RecordBatch, name: &str) -> Result<NullableVectors> {
    let column = column(batch, name, ColumnKind::Vectors)?;
    let (items, bounds) = list_items(column);
    let values = cast(&items, &DataType::Float32)?.as_primitive::<Float32Type>().clone();
    Ok(NullableVectors { values, originals: items, bounds, nulls: column.nulls().cloned() })
}

/// Items of a column of lists; offsets of its rows in the items, and the end of the last row.
fn list_items(column: &ArrayRef) -> (ArrayRef, Vec<usize>) {
    let (items, bounds) = match column.data_type() {
        DataType::List(_) => {
            let list = column.as_list::<i32>();
            let offsets = list.value_offsets().iter().map(|&offset| offset.saturating_as::<usize>());
            (list.values(), offsets.collect::<Vec<_>>())
        }
        DataType::LargeList(_) => {
            let list = column.as_list::<i64>();
            let offsets = list.value_offsets().iter().map(|&offset| offset.saturating_as::<usize>());
            (list.values(), offsets.collect())
        }
        _ => {
            let list = column.as_fixed_size_list();
            let width = list.value_length().saturating_as::<usize>();
            (list.values(), (0..=list.len()).map(|row| row * width).collect())
        }
    };
    // A sliced list array has the items of the whole array.
    let (first, last) = (bounds.first().copied().unwrap_or(0), bounds.last().copied().unwrap_or(0));
    (items.slice(first, last - first), bounds.into_iter().map(|bound| bound - first).collect())
}

/// Lists of texts of a column with nulls.
#[derive(Debug)]
pub struct NullableTextLists {
    values: StringArray,
    bounds: Vec<usize>,
    nulls: Option<NullBuffer>,
}

impl NullableTextLists {
    /// Texts of a row, `None` for a null among them; `None` if the list is null.
    ///
    /// # Panics
    /// `row` is out of range.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<Vec<Option<&str>>> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let places = self.bounds[row]..self.bounds[row + 1];
        Some(places.map(|place| self.values.is_valid(place).then(|| self.values.value(place))).collect())
    }
}

/// Reads a column of lists of texts; `None` if it is a column of texts.
///
/// # Errors
/// The column is missing or of another kind.
pub fn text_lists(batch: &RecordBatch, name: &str) -> Result<Option<NullableTextLists>> {
    let column = column(batch, name, ColumnKind::TextsOrLists)?;
    if is_text(column.data_type()) {
        return Ok(None);
    }
    let (items, bounds) = list_items(column);
    let values = strings(&items)?;
    Ok(Some(NullableTextLists { values, bounds, nulls: column.nulls().cloned() }))
}

/// Returns true if the column `name` has integers.
///
/// # Errors
/// The column is missing, or has neither texts nor integers.
pub fn has_integers(batch: &RecordBatch, name: &str) -> Result<bool> {
    Ok(column(batch, name, ColumnKind::TextsOrIntegers)?.data_type().is_integer())
}

pub(super) fn no_column(name: &str) -> Error {
    Error::data(format!("no column `{name}`"))
}

fn column<'b>(batch: &'b RecordBatch, name: &str, kind: ColumnKind) -> Result<&'b ArrayRef> {
    let column = batch.column_by_name(name).ok_or_else(|| no_column(name))?;
    match kind.accepts(column.data_type()) {
        Ok(()) => Ok(column),
        Err(message) => Err(Error::data(format!("column `{name}` {message}"))),
    }
}

fn strings(texts: &ArrayRef) -> Result<StringArray> {
    Ok(cast(texts, &DataType::Utf8)?.as_string::<i32>().clone())
}

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
    let paths = paths.map(strings).transpose()?;
    let bytes = cast(bytes, &DataType::LargeBinary)?.as_binary::<i64>().clone();
    Ok(NullablePictures { bytes, paths, nulls: column.nulls().cloned() })
}
