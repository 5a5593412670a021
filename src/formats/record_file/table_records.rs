//! Records of Parquet and Arrow files.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, RecordBatch};

use super::{FieldValue, RecordPlace};
use crate::table_file::{
    ColumnKind, NullableTextLists, NullableTexts, TableFile, has_integers, integers, text_lists, texts,
};
use pairloom_base::error::{Error, Result, ValidationErrors};
use pairloom_storage::bounded::expanded_limit;

/// Bytes that a row takes beside its texts, for the limit of what a file expands to: a dictionary has each text once.
const ROW_BYTES: u64 = 32;

/// Column of a batch.
enum FieldColumn {
    /// Integers, and the column itself: values above 2⁶³ - 1 are null in the former.
    Integers(Int64Array, ArrayRef),
    Texts(NullableTexts),
    Lists(NullableTextLists),
}

/// Calls `visit` for every row, with the values of `columns`.
///
/// # Errors
/// As [`RecordFile::for_each`](super::RecordFile::for_each).
pub(super) fn for_each(
    file: &TableFile,
    columns: &[(&str, ColumnKind)],
    hint: &str,
    check: impl Fn() -> Result<()>,
    mut visit: impl FnMut(RecordPlace, &[FieldValue<'_>]) -> Result<(), String>,
) -> Result<()> {
    file.check_columns(columns, hint)?;
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let mut mistakes = ValidationErrors::in_file(file.path());
    let mut place = 0;
    let file_bytes = file.path().metadata().map_err(|error| Error::io("read", file.path(), &error))?.len();
    let (mut expanded, limit) = (0, expanded_limit(file_bytes));
    for batch in file.batches(&names, &check)? {
        let batch = batch?;
        let fields: Vec<_> =
            columns.iter().map(|(name, kind)| FieldColumn::of(&batch, name, *kind)).collect::<Result<_>>()?;
        for row in 0..batch.num_rows() {
            check()?;
            let values: Vec<_> = fields.iter().map(|field| field.get(row)).collect();
            expanded += ROW_BYTES + values.iter().map(FieldValue::text_bytes).sum::<u64>();
            if expanded > limit {
                let message =
                    format!("`{}`: its rows up to {place} expand to more than {limit} bytes", file.path().display());
                return Err(Error::data(message).hint("the file is made to fill the memory; if not, write it as CSV"));
            }
            if let Err(problem) = visit(RecordPlace::Row(place), &values) {
                mistakes.add(RecordPlace::Row(place), problem);
            }
            place += 1;
        }
    }
    mistakes.into_result()
}

impl FieldColumn {
    fn of(batch: &RecordBatch, name: &str, kind: ColumnKind) -> Result<Self> {
        if kind == ColumnKind::Integers || (kind == ColumnKind::TextsOrIntegers && has_integers(batch, name)?) {
            let numbers = integers(batch, name)?;
            let originals = batch.column_by_name(name).cloned();
            return Ok(Self::Integers(numbers.clone(), originals.unwrap_or_else(|| Arc::new(numbers))));
        }
        if kind == ColumnKind::TextsOrLists
            && let Some(lists) = text_lists(batch, name)?
        {
            return Ok(Self::Lists(lists));
        }
        Ok(Self::Texts(texts(batch, name)?))
    }

    fn get(&self, row: usize) -> FieldValue<'_> {
        match self {
            Self::Integers(numbers, _) if numbers.is_valid(row) => FieldValue::Integer(numbers.value(row)),
            Self::Integers(_, originals) if originals.is_valid(row) => {
                FieldValue::Other(format!("is above {}", i64::MAX))
            }
            Self::Integers(..) => FieldValue::Missing,
            Self::Texts(texts) => texts.get(row).map_or(FieldValue::Missing, FieldValue::Text),
            Self::Lists(lists) => lists.get(row).map_or(FieldValue::Missing, FieldValue::Texts),
        }
    }
}
