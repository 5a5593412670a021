//! Value types of table columns, and the macro that declares a table.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeListArray, Float32Array, Float64Array, Int64Array, ListArray,
    PrimitiveArray, RecordBatch, StringArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, Schema};
use az::SaturatingAs;

use super::column::{Column, batch, vector_type};
use pairloom_base::error::Result;

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
                    $crate::values::describe_column::<$values>(
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
                $crate::values::batch_of_columns(vec![
                    $($crate::values::field_and_array(stringify!($column), self.$column)),+
                ])
            }
        }
    };
}

pub(crate) use table;
