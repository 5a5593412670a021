//! Descriptions of tables and columns, and typed access to the columns of a batch.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, Int64Type, Schema, SchemaRef};
use az::SaturatingAs;

use pairloom_base::error::{Error, Result};

/// Description of a table that stages exchange.
#[derive(Debug, Clone)]
pub struct Table {
    /// Name in pipeline files, in the store and in SQL.
    pub name: &'static str,
    /// Description of a row.
    pub description: &'static str,
    /// Columns, in order.
    pub columns: Vec<Column>,
}

/// Description of a column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Name.
    pub name: Cow<'static, str>,
    /// Type. A fixed-size list of size 0 stands for any size.
    pub data_type: DataType,
    /// True if a value may be missing.
    pub nullable: bool,
    /// Meaning of the values, with the unit.
    pub description: Cow<'static, str>,
}

impl Column {
    /// Describes a column without missing values.
    #[must_use]
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        data_type: DataType,
        description: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { name: name.into(), data_type, nullable: false, description: description.into() }
    }

    /// Describes a column whose values may be missing.
    #[must_use]
    pub fn nullable(
        name: impl Into<Cow<'static, str>>,
        data_type: DataType,
        description: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { name: name.into(), data_type, nullable: true, description: description.into() }
    }

    /// Arrow field of the column.
    pub(super) fn field(&self) -> Field {
        Field::new(self.name.as_ref(), self.data_type.clone(), self.nullable)
    }
}

impl Table {
    /// Arrow schema of the table.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        self.schema_with_width(0)
    }

    /// Arrow schema of the table, with lists of any size fixed to `width`.
    #[must_use]
    pub fn schema_with_width(&self, width: usize) -> SchemaRef {
        self.schema_with_shape(&[width])
    }

    /// Arrow schema of the table, with nested lists of any size fixed to the sizes of `shape`, outermost first.
    #[must_use]
    pub fn schema_with_shape(&self, shape: &[usize]) -> SchemaRef {
        let fields = self.columns.iter();
        let fields = fields.map(|column| column.field().with_data_type(with_shape(&column.data_type, shape)));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

fn with_shape(data_type: &DataType, shape: &[usize]) -> DataType {
    match (data_type, shape) {
        (DataType::FixedSizeList(item, 0), [width, inner @ ..]) => {
            let item = item.as_ref().clone().with_data_type(with_shape(item.data_type(), inner));
            DataType::FixedSizeList(Arc::new(item), (*width).saturating_as::<i32>())
        }
        _ => data_type.clone(),
    }
}

/// Returns the type of a vector of `width` f32 values; width 0 stands for any width.
#[must_use]
pub fn vector_type(width: usize) -> DataType {
    let item = Arc::new(Field::new("item", DataType::Float32, false));
    DataType::FixedSizeList(item, width.saturating_as::<i32>())
}

/// Name of a column type for readers: `[Float32; 512]` for a list.
#[must_use]
pub fn column_type(data_type: &DataType) -> String {
    match data_type {
        DataType::FixedSizeList(item, 0) => format!("[{}; any width]", column_type(item.data_type())),
        DataType::FixedSizeList(item, width) => format!("[{}; {width}]", column_type(item.data_type())),
        DataType::List(item) => format!("[{}]", column_type(item.data_type())),
        other => other.to_string(),
    }
}

/// Builds a batch of `schema`, also without rows.
///
/// # Errors
/// The columns do not fit the schema.
pub fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> Result<RecordBatch> {
    let rows = columns.first().map_or(0, Array::len);
    batch_of_rows(schema, columns, rows)
}

/// Builds a batch of `schema` with `rows` rows, also without columns.
///
/// # Errors
/// The columns do not fit the schema or the number of rows.
#[expect(
    clippy::disallowed_methods,
    reason = "the only place that builds batches; it sets the row count, which a batch without columns needs"
)]
pub fn batch_of_rows(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
}

/// Returns the i64 column `name`.
///
/// # Errors
/// The column is missing or has another type.
pub fn int_column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b Int64Array> {
    column(batch, name)?.as_primitive_opt::<Int64Type>().ok_or_else(|| wrong(batch, name, "Int64"))
}

/// Returns the text column `name`.
///
/// # Errors
/// The column is missing or has another type.
pub fn text_column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b StringArray> {
    column(batch, name)?.as_string_opt::<i32>().ok_or_else(|| wrong(batch, name, "Utf8"))
}

/// Returns the f64 column `name`.
///
/// # Errors
/// The column is missing or has another type.
pub fn float_column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b Float64Array> {
    column(batch, name)?.as_primitive_opt::<Float64Type>().ok_or_else(|| wrong(batch, name, "Float64"))
}

/// Returns the vectors of the column `name` as (row-major values, width).
///
/// # Errors
/// The column is missing or has another type, or a value is missing.
pub fn vector_column<'b>(batch: &'b RecordBatch, name: &str) -> Result<(&'b [f32], usize)> {
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
