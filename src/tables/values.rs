//! Values of a column: the types that columns of tables are made of.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BinaryArray, BooleanArray, FixedSizeListArray, Float32Array, Float64Array, Int64Array, ListArray,
    PrimitiveArray, RecordBatch, StringArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{ArrowPrimitiveType, DataType, Field, Schema};
use az::SaturatingAs;

use super::column::{Column, batch, vector};
use crate::error::Result;

/// Values of a column, in the order of rows.
pub trait Values {
    /// True if a value may be missing.
    const OPTIONAL: bool = false;

    /// Type of the column. A list of width 0 stands for any one width.
    fn data_type() -> DataType;

    /// The values as Arrow has them.
    fn into_array(self) -> ArrayRef;
}

macro_rules! plain {
    ($($array:ty: $data_type:expr),* $(,)?) => {$(
        impl Values for $array {
            fn data_type() -> DataType {
                $data_type
            }
            fn into_array(self) -> ArrayRef {
                Arc::new(self)
            }
        }
    )*};
}

plain! {
    Int64Array: DataType::Int64,
    Float64Array: DataType::Float64,
    BooleanArray: DataType::Boolean,
    StringArray: DataType::Utf8,
    BinaryArray: DataType::Binary,
}

/// Values of which some may be missing.
#[derive(Debug)]
pub struct Optional<V>(pub V);

impl<V: Values> Values for Optional<V> {
    const OPTIONAL: bool = true;

    fn data_type() -> DataType {
        V::data_type()
    }

    fn into_array(self) -> ArrayRef {
        self.0.into_array()
    }
}

/// A vector of f32 values in each row, all of one width.
#[derive(Debug)]
pub struct Vectors(FixedSizeListArray);

impl Vectors {
    /// Vectors of `width` values from their concatenation, row-major. Does not copy.
    ///
    /// # Errors
    /// `values` is not a whole number of vectors.
    pub fn new(values: Vec<f32>, width: usize) -> Result<Self> {
        let size = width.saturating_as::<i32>();
        let item = Arc::new(Field::new("item", DataType::Float32, false));
        Ok(Self(FixedSizeListArray::try_new(item, size, Arc::new(Float32Array::from(values)), None)?))
    }
}

impl Values for Vectors {
    fn data_type() -> DataType {
        vector(0)
    }

    fn into_array(self) -> ArrayRef {
        Arc::new(self.0)
    }
}

/// An array of vectors of `width` values from their concatenation, row-major.
///
/// # Errors
/// `values` is not a whole number of vectors.
pub fn vectors(values: Vec<f32>, width: usize) -> Result<ArrayRef> {
    Ok(Vectors::new(values, width)?.into_array())
}

/// A list of numbers in each row.
#[derive(Debug)]
pub struct Lists<T: ArrowPrimitiveType>(ListArray, std::marker::PhantomData<T>);

impl<T: ArrowPrimitiveType> Lists<T> {
    /// Lists of these lengths, from the values of all of them.
    ///
    /// # Errors
    /// The lengths do not add up to the values.
    pub fn new(lengths: impl IntoIterator<Item = usize>, values: impl IntoIterator<Item = T::Native>) -> Result<Self> {
        let values = Arc::new(PrimitiveArray::<T>::from_iter_values(values));
        Ok(Self(list(Field::new("item", T::DATA_TYPE, false), lengths, values)?, std::marker::PhantomData))
    }
}

impl<T: ArrowPrimitiveType> Values for Lists<T> {
    fn data_type() -> DataType {
        DataType::new_list(T::DATA_TYPE, false)
    }

    fn into_array(self) -> ArrayRef {
        Arc::new(self.0)
    }
}

/// Lists of `item`s of these lengths, from the values of all of them.
pub(super) fn list(item: Field, lengths: impl IntoIterator<Item = usize>, values: ArrayRef) -> Result<ListArray> {
    Ok(ListArray::try_new(Arc::new(item), OffsetBuffer::from_lengths(lengths), values, None)?)
}

/// The same text in `rows` rows.
#[must_use]
pub fn repeated(text: &str, rows: usize) -> StringArray {
    StringArray::from_iter_values(std::iter::repeat_n(text, rows))
}

/// The column `name` of a table, which means `about`.
pub(super) fn described<V: Values>(name: impl Into<Cow<'static, str>>, about: impl Into<Cow<'static, str>>) -> Column {
    if V::OPTIONAL { Column::optional(name, V::data_type(), about) } else { Column::new(name, V::data_type(), about) }
}

/// The column `name` with its values.
pub(super) fn column<V: Values>(name: &'static str, values: V) -> (Field, ArrayRef) {
    let array = values.into_array();
    (Field::new(name, array.data_type().clone(), V::OPTIONAL), array)
}

/// A batch of these columns.
pub(super) fn of_columns(columns: Vec<(Field, ArrayRef)>) -> Result<RecordBatch> {
    let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = columns.into_iter().unzip();
    batch(&Arc::new(Schema::new(fields)), arrays)
}

/// Declares a table once: its name, what a row is, and of each column the name, the type of its values and its meaning
/// with unit. From that come `table()`, which describes it, and `Columns`, which makes its rows by name.
macro_rules! table {
    (
        $(#[doc = $about:literal])+
        $table:literal {
            $($(#[doc = $meaning:literal])+ $column:ident: $values:ty),+ $(,)?
        }
    ) => {
        $(#[doc = $about])+
        #[must_use]
        pub fn table() -> $crate::tables::Table {
            $crate::tables::Table {
                name: $table,
                about: concat!($($about),+).trim(),
                columns: vec![$(
                    $crate::tables::values::described::<$values>(stringify!($column), concat!($($meaning),+).trim())
                ),+],
            }
        }

        /// Rows of the table, column by column.
        #[derive(Debug)]
        pub struct Columns {
            $($(#[doc = $meaning])+ pub $column: $values),+
        }

        impl Columns {
            /// The rows as a batch.
            ///
            /// # Errors
            /// Columns of different lengths; a missing value in a column that always has one.
            pub fn into_batch(self) -> $crate::error::Result<arrow::array::RecordBatch> {
                $crate::tables::values::of_columns(vec![
                    $($crate::tables::values::column(stringify!($column), self.$column)),+
                ])
            }
        }
    };
}

pub(super) use table;
