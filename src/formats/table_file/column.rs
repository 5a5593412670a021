//! Conversion of columns of user files: integers, texts, vectors and encoded images of any Arrow type. Texts of dictionaries
//! are converted once for all batches that use them.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Int64Array, LargeBinaryArray, RecordBatch, StringArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{
    BinaryViewType, DataType, Field, FieldRef, Float32Type, Float64Type, Int64Type, Schema, SchemaRef,
};
use az::SaturatingAs;

use super::batches::MAX_WIDTH;
use crate::npy::not_finite;
use pairloom_base::error::{Error, Result};
use pairloom_tables as tables;

/// Most fields of a struct of an image. Hugging Face has two.
const MAX_PICTURE_FIELDS: usize = 16;

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
    /// Encoded images: bytes, or the struct of Hugging Face with the fields `bytes` and `path`, a text. It may have other
    /// texts and numbers.
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
        let wanted = match self {
            ColumnKind::Integers if kind.is_integer() => return Ok(()),
            ColumnKind::Texts if is_text(kind) => return Ok(()),
            ColumnKind::TextsOrIntegers if kind.is_integer() || is_text(kind) => return Ok(()),
            ColumnKind::TextsOrLists if is_text(kind) || is_text_list(kind) => return Ok(()),
            ColumnKind::Pictures if is_picture(kind) => return Ok(()),
            ColumnKind::Vectors if is_vector(kind) => match kind {
                DataType::FixedSizeList(_, width)
                    if !usize::try_from(*width).is_ok_and(|width| (1..=MAX_WIDTH).contains(&width)) =>
                {
                    return Err(format!("has vectors of {width} values, wanted 1 to {MAX_WIDTH}"));
                }
                _ => return Ok(()),
            },
            ColumnKind::Integers => "whole numbers",
            ColumnKind::Texts => "texts",
            ColumnKind::TextsOrIntegers => "texts or whole numbers",
            ColumnKind::TextsOrLists => "texts or lists of texts",
            ColumnKind::Pictures => "bytes, or a struct of `bytes`, `path` and few other texts or numbers",
            ColumnKind::Vectors => "lists of Float16, Float32 or Float64",
        };
        Err(format!("is {kind}, wanted {wanted}"))
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
    let is_plain_text = |kind: &DataType| is_text(kind) && !matches!(kind, DataType::Dictionary(..));
    match kind {
        DataType::Struct(fields) => {
            fields.len() <= MAX_PICTURE_FIELDS
                && fields.iter().any(|field| field.name() == "bytes" && is_binary(field.data_type()))
                && fields.iter().all(|field| match field.name().as_str() {
                    // Views of texts are decoded as those of bytes.
                    "path" => is_plain_text(field.data_type()) || *field.data_type() == DataType::BinaryView,
                    _ => {
                        is_binary(field.data_type()) || is_plain_text(field.data_type()) || is_number(field.data_type())
                    }
                })
        }
        kind => is_binary(kind),
    }
}

fn is_number(kind: &DataType) -> bool {
    kind.is_primitive() || *kind == DataType::Boolean
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
pub struct NullableTexts {
    values: StringArray,
    /// Keys and nulls of a dictionary-encoded column. The texts stay in the dictionary, since expanding them could take
    /// much memory.
    keys: Option<(Vec<usize>, Option<NullBuffer>)>,
}

impl NullableTexts {
    /// Text of a row; `None` if it is null.
    ///
    /// # Panics
    /// `row` is out of range.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<&str> {
        let place = match &self.keys {
            None => row,
            Some((_, Some(nulls))) if nulls.is_null(row) => return None,
            Some((keys, _)) => keys[row],
        };
        self.values.is_valid(place).then(|| self.values.value(place))
    }
}

/// Reads a column of texts.
///
/// # Errors
/// The column is missing or of another kind.
pub fn texts(batch: &RecordBatch, name: &str) -> Result<NullableTexts> {
    let column = column(batch, name, ColumnKind::Texts)?;
    let plain = |values| utf8(values).map_err(|error| error.context(format!("column `{name}`")));
    match column.as_any_dictionary_opt() {
        None => Ok(NullableTexts { values: plain(column)?, keys: None }),
        // If all rows are null, the dictionary may be empty.
        Some(dictionary) if dictionary.values().is_empty() => {
            Ok(NullableTexts { values: StringArray::new_null(column.len()), keys: None })
        }
        Some(dictionary) => {
            let keys = (dictionary.normalized_keys(), dictionary.keys().nulls().cloned());
            Ok(NullableTexts { values: plain(dictionary.values())?, keys: Some(keys) })
        }
    }
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
    /// Texts of a row; `None` if the list or one of its texts is null.
    ///
    /// # Panics
    /// `row` is out of range.
    #[must_use]
    pub fn get(&self, row: usize) -> Option<Vec<&str>> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        let mut places = self.bounds[row]..self.bounds[row + 1];
        places
            .clone()
            .all(|place| self.values.is_valid(place))
            .then(|| places.by_ref().map(|place| self.values.value(place)).collect())
    }
}

/// Reads a column of lists of texts; `None` if it is a column of texts.
///
/// # Errors
/// The column is missing or of another kind.
pub fn text_lists(batch: &RecordBatch, name: &str) -> Result<Option<NullableTextLists>> {
    let column = column(batch, name, ColumnKind::TextsOrLists)?;
    if is_text(&text_views(column.data_type())) {
        return Ok(None);
    }
    let (items, bounds) = list_items(column);
    let values = utf8(&items).map_err(|error| error.context(format!("column `{name}`")))?;
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

pub(super) fn column<'b>(batch: &'b RecordBatch, name: &str, kind: ColumnKind) -> Result<&'b ArrayRef> {
    let column = batch.column_by_name(name).ok_or_else(|| no_column(name))?;
    // Views of texts are decoded as those of bytes. The types in the file are checked by `TableFile::check_columns`.
    let data_type = match kind {
        ColumnKind::Pictures => column.data_type().clone(),
        _ => text_views(column.data_type()),
    };
    match kind.accepts(&data_type) {
        Ok(()) => Ok(column),
        Err(message) => Err(Error::data(format!("column `{name}` {message}"))),
    }
}

/// Most bytes of the texts of all dictionaries. Values of a view type may share theirs.
const MAX_BYTES: u64 = 1 << 30;

/// Texts of the dictionaries of the columns that were read last.
#[derive(Default)]
pub(super) struct DictionaryTexts {
    columns: HashMap<usize, ColumnDictionary>,
}

/// Dictionary of a column.
struct ColumnDictionary {
    /// Values in the file.
    values: ArrayRef,
    texts: ArrayRef,
    bytes: u64,
}

impl DictionaryTexts {
    /// Replaces dictionaries of large texts and of views by dictionaries of UTF-8 with offsets of 32 bits.
    ///
    /// # Errors
    /// The texts of all dictionaries come to more than 1 GiB, or one is not UTF-8.
    pub(super) fn convert(&mut self, batch: RecordBatch) -> Result<RecordBatch> {
        if !batch.schema_ref().fields().iter().any(|field| is_converted(field.data_type())) {
            return Ok(batch);
        }
        let (mut fields, mut columns) = (Vec::new(), Vec::new());
        for (place, (field, column)) in batch.schema_ref().fields().iter().zip(batch.columns()).enumerate() {
            if is_converted(field.data_type()) {
                let column = self.converted(place, field.name(), column)?;
                fields.push(Arc::new(Field::new(field.name(), column.data_type().clone(), true)));
                columns.push(column);
            } else {
                fields.push(Arc::clone(field));
                columns.push(ArrayRef::clone(column));
            }
        }
        let schema = SchemaRef::new(Schema::new(fields));
        tables::batch(&schema, columns)
    }

    fn converted(&mut self, place: usize, name: &str, column: &ArrayRef) -> Result<ArrayRef> {
        let dictionary = column.as_any_dictionary();
        let values = dictionary.values();
        if let Some(known) = self.columns.get(&place)
            && known.values.to_data().ptr_eq(&values.to_data())
        {
            return Ok(dictionary.with_values(ArrayRef::clone(&known.texts)));
        }
        // The texts before are dropped first.
        self.columns.remove(&place);
        let bytes = bytes(values);
        let sum = self.columns.values().fold(bytes, |sum, known| sum.saturating_add(known.bytes));
        if sum > MAX_BYTES {
            let message =
                format!("the texts of the dictionaries up to `{name}` come to {sum} bytes, wanted at most {MAX_BYTES}");
            return Err(Error::data(message).hint("write the file without dictionaries"));
        }
        let texts: ArrayRef = Arc::new(utf8(values).map_err(|error| error.context(format!("column `{name}`")))?);
        let known = ColumnDictionary { values: ArrayRef::clone(values), texts: ArrayRef::clone(&texts), bytes };
        self.columns.insert(place, known);
        Ok(dictionary.with_values(texts))
    }
}

fn is_converted(kind: &DataType) -> bool {
    let DataType::Dictionary(_, values) = kind else { return false };
    matches!(**values, DataType::LargeUtf8 | DataType::Utf8View | DataType::BinaryView)
}

/// Bytes of the texts of a dictionary.
fn bytes(values: &ArrayRef) -> u64 {
    match values.data_type() {
        DataType::Utf8View => values.as_string_view().lengths().map(u64::from).sum(),
        DataType::BinaryView => values.as_binary_view().lengths().map(u64::from).sum(),
        _ => values.as_string::<i64>().value_data().len() as u64,
    }
}

// The library checks the text of each view when it decodes a file, and many views may share one long text. So the views of
// Arrow files are decoded as those of bytes, and checked here in slices of a bounded size.
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
