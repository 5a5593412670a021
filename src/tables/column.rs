//! What a table is made of, and typed access to the columns of a batch.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int64Type, Schema, SchemaRef};
use az::SaturatingAs;

use crate::error::{Error, Result};

/// A table that flows between stages.
#[derive(Debug, Clone)]
pub struct Table {
    /// Its name in pipeline files, in the store and in SQL.
    pub name: &'static str,
    /// What one row is.
    pub about: &'static str,
    /// Its columns, in order.
    pub columns: Vec<Column>,
}

/// A column of a table.
#[derive(Debug, Clone)]
pub struct Column {
    /// Name.
    pub name: Cow<'static, str>,
    /// Type. A list of width 0 stands for any one width.
    pub data_type: DataType,
    /// Whether a value may be missing.
    pub nullable: bool,
    /// What it means, with its unit.
    pub about: Cow<'static, str>,
}

impl Column {
    /// A column that always has a value.
    #[must_use]
    pub fn new(name: impl Into<Cow<'static, str>>, data_type: DataType, about: impl Into<Cow<'static, str>>) -> Self {
        Self { name: name.into(), data_type, nullable: false, about: about.into() }
    }

    /// A column whose value may be missing.
    #[must_use]
    pub fn optional(
        name: impl Into<Cow<'static, str>>,
        data_type: DataType,
        about: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { name: name.into(), data_type, nullable: true, about: about.into() }
    }

    /// The column as Arrow knows it.
    pub(super) fn field(&self) -> Field {
        Field::new(self.name.as_ref(), self.data_type.clone(), self.nullable)
    }
}

impl Table {
    /// Columns as Arrow knows them.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema_of_width(0)
    }

    /// Columns as Arrow knows them, with lists of any width fixed to `width`.
    #[must_use]
    pub fn schema_of_width(&self, width: usize) -> SchemaRef {
        self.schema_of_shape(&[width])
    }

    /// Columns as Arrow knows them, with lists of any width fixed to those of `shape`, an outer list before what it holds.
    #[must_use]
    pub fn schema_of_shape(&self, shape: &[usize]) -> SchemaRef {
        let fields = self.columns.iter();
        let fields = fields.map(|column| column.field().with_data_type(of_shape(&column.data_type, shape)));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

fn of_shape(data_type: &DataType, shape: &[usize]) -> DataType {
    match (data_type, shape) {
        (DataType::FixedSizeList(item, 0), [width, inner @ ..]) => {
            let item = item.as_ref().clone().with_data_type(of_shape(item.data_type(), inner));
            DataType::FixedSizeList(Arc::new(item), (*width).saturating_as::<i32>())
        }
        _ => data_type.clone(),
    }
}

/// The type of a vector of `width` f32 values; width 0 stands for any width.
#[must_use]
pub fn vector(width: usize) -> DataType {
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    DataType::FixedSizeList(item, width.saturating_as::<i32>())
}

/// A batch of `schema`, also when it has no rows.
///
/// # Errors
/// Columns that do not fit the schema.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that makes batches, with the row count of an empty one kept"
)]
pub fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let rows = columns.first().map_or(0, Array::len);
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// The i64 column `name`.
///
/// # Errors
/// No such column, or one of another type.
pub fn ids<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b Int64Array> {
    column(batch, name)?.as_primitive_opt::<Int64Type>().ok_or_else(|| wrong(batch, name, "Int64"))
}

/// The text column `name`.
///
/// # Errors
/// No such column, or one of another type.
pub fn texts<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b StringArray> {
    column(batch, name)?.as_string_opt::<i32>().ok_or_else(|| wrong(batch, name, "Utf8"))
}

/// The f64 column `name`.
///
/// # Errors
/// No such column, or one of another type.
pub fn numbers<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b Float64Array> {
    column(batch, name)?.as_primitive_opt::<Float64Type>().ok_or_else(|| wrong(batch, name, "Float64"))
}

/// The vectors of column `name` as (row-major values of the rows of `batch`, width).
///
/// # Errors
/// No such column, one of another type, or a missing value.
pub fn floats<'b>(batch: &'b RecordBatch, name: &str) -> Result<(&'b [f32], usize)> {
    let list =
        column(batch, name)?.as_fixed_size_list_opt().ok_or_else(|| wrong(batch, name, "FixedSizeList<Float32>"))?;
    let values =
        list.values().as_primitive_opt::<Float32Type>().ok_or_else(|| wrong(batch, name, "FixedSizeList<Float32>"))?;
    if list.null_count() > 0 || values.null_count() > 0 {
        return Err(Error::data(format!("column `{name}` has missing values, wanted a vector in every row")));
    }
    let width = list.value_length().saturating_as::<usize>();
    let start = list.offset() * width;
    Ok((&values.values()[start..start + list.len() * width], width))
}

fn column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| {
        let names = batch.schema_ref().fields().iter().map(|field| format!("`{}`", field.name()));
        Error::data(format!("no column `{name}`; there are {}", names.collect::<Vec<_>>().join(", ")))
    })
}

fn wrong(batch: &RecordBatch, name: &str, wanted: &str) -> Error {
    let got = batch.schema_ref().field_with_name(name).map(|field| field.data_type().to_string()).unwrap_or_default();
    Error::data(format!("column `{name}` is {got}, wanted {wanted}"))
}
