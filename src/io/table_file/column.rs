//! Columns of people as what they mean: whole numbers, texts, vectors, in any of the types that Arrow has for them.

use arrow::array::{Array, ArrayRef, AsArray, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast, cast_with_options};
use arrow::datatypes::{DataType, Float32Type, Int64Type};
use az::SaturatingAs;

use super::batches::MAX_WIDTH;
use crate::error::{Error, Result};

/// What a column is wanted for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers: integers of any width, with or without sign.
    WholeNumbers,
    /// Texts, plain or as a dictionary.
    Texts,
    /// Vectors: lists of f16, f32 or f64, of a fixed size or not.
    Vectors,
}

impl Kind {
    /// Whether a column of this type is one, or what is wrong with it.
    ///
    /// # Errors
    /// It is not.
    pub fn accepts(self, kind: &DataType) -> Result<(), String> {
        let wanted = match self {
            Kind::WholeNumbers if kind.is_integer() => return Ok(()),
            Kind::Texts if is_text(kind) => return Ok(()),
            Kind::Vectors if is_vector(kind) => match kind {
                DataType::FixedSizeList(_, width)
                    if !usize::try_from(*width).is_ok_and(|width| (1..=MAX_WIDTH).contains(&width)) =>
                {
                    return Err(format!("has vectors of {width} values, wanted 1 to {MAX_WIDTH}"));
                }
                _ => return Ok(()),
            },
            Kind::WholeNumbers => "whole numbers",
            Kind::Texts => "texts",
            Kind::Vectors => "lists of Float16, Float32 or Float64",
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

fn is_vector(kind: &DataType) -> bool {
    match kind {
        DataType::FixedSizeList(item, _) | DataType::List(item) | DataType::LargeList(item) => {
            item.data_type().is_floating()
        }
        _ => false,
    }
}

/// The whole numbers of a column: missing where they are, and where one passes 2⁶³ - 1.
///
/// # Errors
/// No such column, or one of another kind.
pub fn whole_numbers(batch: &RecordBatch, name: &str) -> Result<Int64Array> {
    let column = column(batch, name, Kind::WholeNumbers)?;
    let options = CastOptions { safe: true, ..CastOptions::default() };
    Ok(cast_with_options(column, &DataType::Int64, &options)?.as_primitive::<Int64Type>().clone())
}

/// The texts of a column.
#[derive(Debug)]
pub struct Texts {
    values: StringArray,
    /// Of a dictionary: where each row's text is, and which rows have one. The texts are not copied to the rows: there may be
    /// many rows, and a text may be long.
    keys: Option<(Vec<usize>, Option<NullBuffer>)>,
}

impl Texts {
    /// The text of this row, if it has one.
    ///
    /// # Panics
    /// There is no such row.
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

/// The texts of a column.
///
/// # Errors
/// No such column, or one of another kind.
pub fn texts(batch: &RecordBatch, name: &str) -> Result<Texts> {
    let column = column(batch, name, Kind::Texts)?;
    let plain =
        |values: &ArrayRef| -> Result<StringArray> { Ok(cast(values, &DataType::Utf8)?.as_string::<i32>().clone()) };
    match column.as_any_dictionary_opt() {
        None => Ok(Texts { values: plain(column)?, keys: None }),
        // Rows that are all missing need no text, and then there may be none.
        Some(dictionary) if dictionary.values().is_empty() => {
            Ok(Texts { values: StringArray::new_null(column.len()), keys: None })
        }
        Some(dictionary) => {
            let keys = (dictionary.normalized_keys(), dictionary.keys().nulls().cloned());
            Ok(Texts { values: plain(dictionary.values())?, keys: Some(keys) })
        }
    }
}

/// The vectors of a column.
#[derive(Debug)]
pub struct Vectors {
    values: Float32Array,
    /// Where the vector of each row begins, and at the end where the last one ends.
    bounds: Vec<usize>,
    nulls: Option<NullBuffer>,
}

impl Vectors {
    /// The vector of this row, or what is missing. A value of f64 that is too large for f32 is infinite.
    ///
    /// # Errors
    /// The vector or one of its values is missing.
    ///
    /// # Panics
    /// There is no such row.
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
        Ok(&self.values.values()[range])
    }
}

/// The vectors of a column as f32.
///
/// # Errors
/// No such column, or one of another kind.
pub fn vectors(batch: &RecordBatch, name: &str) -> Result<Vectors> {
    let column = column(batch, name, Kind::Vectors)?;
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
    // A slice of a list has the items of the whole list.
    let (first, last) = (bounds.first().copied().unwrap_or(0), bounds.last().copied().unwrap_or(0));
    let values = cast(&items.slice(first, last - first), &DataType::Float32)?.as_primitive::<Float32Type>().clone();
    let bounds = bounds.into_iter().map(|bound| bound - first).collect();
    Ok(Vectors { values, bounds, nulls: column.nulls().cloned() })
}

fn column<'b>(batch: &'b RecordBatch, name: &str, kind: Kind) -> Result<&'b ArrayRef> {
    let column = batch.column_by_name(name).ok_or_else(|| Error::data(format!("no column `{name}`")))?;
    match kind.accepts(column.data_type()) {
        Ok(()) => Ok(column),
        Err(message) => Err(Error::data(format!("column `{name}` {message}"))),
    }
}
