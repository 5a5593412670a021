//! Columns of tables: their descriptions and those of tables, typed access to the columns of a batch, value types, list
//! columns, the macro that declares a table, and the builder of tables whose rows are structs.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, FixedSizeListArray, Float32Array, Float64Array, Int64Array,
    ListArray, PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, Float32Type, Float64Type, Int64Type, Schema, SchemaRef};
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
pub fn int_column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b Int64Array> {
    column(batch, name)?.as_primitive_opt::<Int64Type>().ok_or_else(|| wrong(batch, name, "Int64"))
}

/// Returns the text column `name`.
pub fn text_column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b StringArray> {
    column(batch, name)?.as_string_opt::<i32>().ok_or_else(|| wrong(batch, name, "Utf8"))
}

/// Returns the f64 column `name`.
pub fn float_column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b Float64Array> {
    column(batch, name)?.as_primitive_opt::<Float64Type>().ok_or_else(|| wrong(batch, name, "Float64"))
}

/// Returns the vectors of the column `name` as (row-major values, width).
pub fn vector_column<'b>(batch: &'b RecordBatch, name: &str) -> Result<(&'b [f32], usize)> {
    let list =
        column(batch, name)?.as_fixed_size_list_opt().ok_or_else(|| wrong(batch, name, "FixedSizeList<Float32>"))?;
    let values =
        list.values().as_primitive_opt::<Float32Type>().ok_or_else(|| wrong(batch, name, "FixedSizeList<Float32>"))?;
    if list.null_count() > 0 || values.null_count() > 0 {
        return Err(Error::data(format!("column `{name}` has missing values, expected a vector in every row")));
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

fn wrong(batch: &RecordBatch, name: &str, expected: &str) -> Error {
    let got = batch.schema_ref().field_with_name(name).map(|field| field.data_type().to_string()).unwrap_or_default();
    Error::data(format!("column `{name}` is {got}, expected {expected}"))
}

/// Values of a column, one per row.
pub trait ColumnValues {
    /// True if a value may be missing.
    const NULLABLE: bool = false;

    /// Type of the column. A fixed-size list of size 0 stands for any size.
    fn data_type() -> DataType;

    /// Converts the values to an Arrow array.
    fn into_array(self) -> ArrayRef;
}

macro_rules! impl_column_values {
    ($($array:ty: $data_type:expr),* $(,)?) => {$(
        impl ColumnValues for $array {
            fn data_type() -> DataType {
                $data_type
            }
            fn into_array(self) -> ArrayRef {
                Arc::new(self)
            }
        }
    )*};
}

impl_column_values! {
    Int64Array: DataType::Int64,
    Float64Array: DataType::Float64,
    BooleanArray: DataType::Boolean,
    StringArray: DataType::Utf8,
    BinaryArray: DataType::Binary,
}

/// Column whose values may be missing.
#[derive(Debug)]
pub struct Nullable<V>(pub V);

impl<V: ColumnValues> ColumnValues for Nullable<V> {
    const NULLABLE: bool = true;

    fn data_type() -> DataType {
        V::data_type()
    }

    fn into_array(self) -> ArrayRef {
        self.0.into_array()
    }
}

/// Column of f32 vectors, all of the same width.
#[derive(Debug)]
pub struct VectorColumn(FixedSizeListArray);

impl VectorColumn {
    /// Wraps row-major `values` as vectors of `width` values, without a copy.
    ///
    /// # Errors
    /// `values` is not a whole number of vectors.
    pub fn new(values: Vec<f32>, width: usize) -> Result<Self> {
        let size = width.saturating_as::<i32>();
        let item = Arc::new(Field::new("item", DataType::Float32, false));
        Ok(Self(FixedSizeListArray::try_new(item, size, Arc::new(Float32Array::from(values)), None)?))
    }
}

impl ColumnValues for VectorColumn {
    fn data_type() -> DataType {
        vector_type(0)
    }

    fn into_array(self) -> ArrayRef {
        Arc::new(self.0)
    }
}

/// Wraps row-major `values` as an array of vectors of `width` values.
///
/// # Errors
/// `values` is not a whole number of vectors.
pub fn vector_array(values: Vec<f32>, width: usize) -> Result<ArrayRef> {
    Ok(VectorColumn::new(values, width)?.into_array())
}

/// Column of lists of numbers.
#[derive(Debug)]
pub struct ListColumn<T: ArrowPrimitiveType>(ListArray, std::marker::PhantomData<T>);

impl<T: ArrowPrimitiveType> ListColumn<T> {
    /// Builds lists with these lengths from the concatenation of their values.
    ///
    /// # Errors
    /// The lengths do not add up to the values.
    pub fn new(lengths: impl IntoIterator<Item = usize>, values: impl IntoIterator<Item = T::Native>) -> Result<Self> {
        let values = Arc::new(PrimitiveArray::<T>::from_iter_values(values));
        Ok(Self(new_list_array(Field::new("item", T::DATA_TYPE, false), lengths, values)?, std::marker::PhantomData))
    }
}

impl<T: ArrowPrimitiveType> ColumnValues for ListColumn<T> {
    fn data_type() -> DataType {
        DataType::new_list(T::DATA_TYPE, false)
    }

    fn into_array(self) -> ArrayRef {
        Arc::new(self.0)
    }
}

/// Builds lists of `item`s with these lengths from the concatenation of their values.
pub(super) fn new_list_array(
    item: Field,
    lengths: impl IntoIterator<Item = usize>,
    values: ArrayRef,
) -> Result<ListArray> {
    Ok(ListArray::try_new(Arc::new(item), OffsetBuffer::from_lengths(lengths), values, None)?)
}

/// Returns `rows` copies of a text.
#[must_use]
pub fn repeated(text: &str, rows: usize) -> StringArray {
    StringArray::from_iter_values(std::iter::repeat_n(text, rows))
}

/// Describes the column `name` with values of type `V`.
pub(super) fn describe_column<V: ColumnValues>(
    name: impl Into<Cow<'static, str>>,
    description: impl Into<Cow<'static, str>>,
) -> Column {
    if V::NULLABLE {
        Column::nullable(name, V::data_type(), description)
    } else {
        Column::new(name, V::data_type(), description)
    }
}

/// Returns the Arrow field and the array of the column `name`.
pub(super) fn field_and_array<V: ColumnValues>(name: &'static str, values: V) -> (Field, ArrayRef) {
    let array = values.into_array();
    (Field::new(name, array.data_type().clone(), V::NULLABLE), array)
}

/// Builds a batch of these columns.
pub(super) fn batch_of_columns(columns: Vec<(Field, ArrayRef)>) -> Result<RecordBatch> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    batch(&Arc::new(Schema::new(fields)), arrays)
}

/// Declares a table: its description, its name, and the description, name and value type of every column.
///
/// Expands to `table()`, which describes the table, and to the struct `TableColumns`, which holds its rows column by
/// column.
macro_rules! table {
    (
        $(#[doc = $table_description:literal])+
        $table:literal {
            $($(#[doc = $column_description:literal])+ $column:ident: $values:ty),+ $(,)?
        }
    ) => {
        $(#[doc = $table_description])+
        #[must_use]
        pub fn table() -> $crate::Table {
            $crate::Table {
                name: $table,
                description: concat!($($table_description),+).trim(),
                columns: vec![$(
                    $crate::column::describe_column::<$values>(
                        stringify!($column),
                        concat!($($column_description),+).trim(),
                    )
                ),+],
            }
        }

        /// Rows of the table, column by column.
        #[derive(Debug)]
        pub struct TableColumns {
            $($(#[doc = $column_description])+ pub $column: $values),+
        }

        impl TableColumns {
            /// Builds a batch of the rows.
            ///
            /// # Errors
            /// Columns have different lengths, or a value is missing in a column that is not nullable.
            pub fn into_batch(self) -> pairloom_base::error::Result<arrow::array::RecordBatch> {
                $crate::column::batch_of_columns(vec![
                    $($crate::column::field_and_array(stringify!($column), self.$column)),+
                ])
            }
        }
    };
}

pub(crate) use table;

/// Builds the column `name` of `schema`: lists with these lengths from the concatenation of their values.
///
/// # Errors
/// The column is not a list of such values, or the lengths do not add up to the number of values.
pub fn list_array(
    schema: &SchemaRef,
    name: &str,
    lengths: impl IntoIterator<Item = usize>,
    values: ArrayRef,
) -> Result<ArrayRef> {
    let DataType::List(item) = schema.field_with_name(name)?.data_type() else {
        return Err(Error::internal(format!("column `{name}` is not a list")));
    };
    Ok(Arc::new(new_list_array(item.as_ref().clone(), lengths, values)?))
}

/// Reader of a column of lists of numbers without missing values.
#[derive(Debug)]
pub(super) struct ListReader<'b, T: ArrowPrimitiveType> {
    starts: &'b [i32],
    values: &'b [T::Native],
}

impl<'b, T: ArrowPrimitiveType> ListReader<'b, T> {
    /// Opens the column `name`.
    pub(super) fn new(batch: &'b RecordBatch, name: &str) -> Result<Self> {
        let column = batch.column_by_name(name).ok_or_else(|| Error::data(format!("no column `{name}`")))?;
        let wrong =
            || Error::data(format!("column `{name}` is {}, expected List<{}>", column.data_type(), T::DATA_TYPE));
        let lists = column.as_list_opt::<i32>().ok_or_else(wrong)?;
        let values: &PrimitiveArray<T> = lists.values().as_primitive_opt().ok_or_else(wrong)?;
        if lists.null_count() > 0 || values.null_count() > 0 {
            return Err(Error::data(format!("column `{name}` has missing values, expected none")));
        }
        Ok(Self { starts: lists.value_offsets(), values: values.values() })
    }

    /// Returns the list of a row.
    ///
    /// # Errors
    /// An offset of the list is negative.
    pub(super) fn row(&self, row: usize) -> Result<&'b [T::Native]> {
        let offset = |at: usize| usize::try_from(self.starts[at]);
        let range = offset(row).and_then(|start| Ok(start..offset(row + 1)?));
        Ok(&self.values[range.map_err(|_| Error::data("a list column has a negative offset"))?])
    }
}

/// Columns with their values, in order. Without rows, they describe the table. Each column is described next to the code
/// that reads its values from a row, so two columns cannot be swapped by mistake.
#[derive(Default)]
pub(super) struct TableBuilder(Vec<(Column, ArrayRef)>);

impl TableBuilder {
    /// Adds the column `name` with its description and values.
    #[must_use]
    pub(super) fn with<V: ColumnValues>(
        mut self,
        name: impl Into<Cow<'static, str>>,
        description: impl Into<Cow<'static, str>>,
        values: V,
    ) -> Self {
        self.0.push((describe_column::<V>(name, description), values.into_array()));
        self
    }

    /// Returns the description of the table.
    pub(super) fn table(self, name: &'static str, description: &'static str) -> Table {
        Table { name, description, columns: self.0.into_iter().map(|(column, _)| column).collect() }
    }

    /// Builds a batch of the rows.
    pub(super) fn batch(self) -> Result<RecordBatch> {
        batch_of_columns(self.0.into_iter().map(|(column, values)| (column.field(), values)).collect())
    }
}

pub(super) fn texts<'r, R>(rows: &'r [R], get: impl Fn(&'r R) -> &'r str) -> StringArray {
    StringArray::from_iter_values(rows.iter().map(get))
}

pub(super) fn optional_texts<'r, R>(rows: &'r [R], get: impl Fn(&'r R) -> Option<&'r str>) -> Nullable<StringArray> {
    Nullable(rows.iter().map(get).collect())
}

pub(super) fn counts<R>(rows: &[R], get: impl Fn(&R) -> usize) -> Int64Array {
    Int64Array::from_iter_values(rows.iter().map(|row| get(row).saturating_as::<i64>()))
}

pub(super) fn optional_counts<R>(rows: &[R], get: impl Fn(&R) -> Option<usize>) -> Nullable<Int64Array> {
    Nullable(rows.iter().map(|row| get(row).map(SaturatingAs::saturating_as)).collect())
}

pub(super) fn ids<R>(rows: &[R], get: impl Fn(&R) -> i64) -> Int64Array {
    Int64Array::from_iter_values(rows.iter().map(get))
}

pub(super) fn floats<R>(rows: &[R], get: impl Fn(&R) -> f64) -> Float64Array {
    Float64Array::from_iter_values(rows.iter().map(get))
}

pub(super) fn optional_floats<R>(rows: &[R], get: impl Fn(&R) -> Option<f64>) -> Nullable<Float64Array> {
    Nullable(rows.iter().map(get).collect())
}

pub(super) fn flags<R>(rows: &[R], get: impl Fn(&R) -> bool) -> BooleanArray {
    rows.iter().map(|row| Some(get(row))).collect()
}

pub(super) fn optional_flags<R>(rows: &[R], get: impl Fn(&R) -> Option<bool>) -> Nullable<BooleanArray> {
    Nullable(rows.iter().map(get).collect())
}

/// Default cut-offs of recall.
pub const DEFAULT_CUTOFFS: [usize; 3] = [1, 5, 10];

/// Returns the numbers that follow `prefix` in the names of columns, ascending.
pub(super) fn cutoffs(schema: &Schema, prefix: &str) -> Vec<usize> {
    let after = |name: &str| name.strip_prefix(prefix)?.parse().ok();
    let mut cutoffs: Vec<usize> = schema.fields().iter().filter_map(|field| after(field.name())).collect();
    cutoffs.sort_unstable();
    cutoffs
}
