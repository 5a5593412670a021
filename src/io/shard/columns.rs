//! Typed columns of a shard: a row is a slice of the map, checked when it is read.
//!
//! Offsets and texts come from a disk, so each is looked at before it is used: a file whose digests are right and whose
//! content is not gives an error, never a place outside of the file.

use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, Field};

use super::file::Shard;
use super::layout::Start;
use crate::error::{Error, Result};

/// A column of vectors, or of regions with a vector each: rows of f32 values of one shape.
#[derive(Debug, Clone)]
pub struct Vectors {
    values: Values<f32>,
    rows: usize,
    width: usize,
    shape: Vec<usize>,
}

/// A column of i64.
#[derive(Debug, Clone)]
pub struct Ids {
    values: Values<i64>,
}

/// A column of texts.
#[derive(Debug, Clone)]
pub struct Texts {
    offsets: Offsets,
    bytes: Values<u8>,
}

/// A column of lists of i32.
#[derive(Debug, Clone)]
pub struct Numbers {
    offsets: Offsets,
    values: Values<i32>,
}

impl Vectors {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Sizes of a row: `[width]` of vectors, `[regions, width]` of regions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Values of a row: the product of its sizes.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Row `row`, in row-major order. Nothing is copied.
    ///
    /// # Errors
    /// The file is damaged there, or there is no such row.
    #[inline]
    pub fn row(&self, row: usize) -> Result<&[f32]> {
        if row >= self.rows {
            return Err(no_such(row, self.rows));
        }
        self.values.get(row * self.width..(row + 1) * self.width)
    }
}

impl Ids {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.values.values.len()
    }

    /// The value of row `row`.
    ///
    /// # Errors
    /// The file is damaged there, or there is no such row.
    #[inline]
    pub fn value(&self, row: usize) -> Result<i64> {
        if row >= self.rows() {
            return Err(no_such(row, self.rows()));
        }
        Ok(self.values.get(row..row + 1)?[0])
    }
}

impl Texts {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.offsets.rows
    }

    /// The text of row `row`.
    ///
    /// # Errors
    /// The file is damaged there or holds no UTF-8 there, or there is no such row.
    pub fn value(&self, row: usize) -> Result<&str> {
        let range = self.offsets.get(row, self.bytes.values.len())?;
        std::str::from_utf8(self.bytes.get(range)?).map_err(|error| {
            self.bytes.shard.wrong(Error::data(format!("row {row} of a column of texts is not UTF-8: {error}")))
        })
    }
}

impl Numbers {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.offsets.rows
    }

    /// The numbers of row `row`.
    ///
    /// # Errors
    /// The file is damaged there, or there is no such row.
    pub fn row(&self, row: usize) -> Result<&[i32]> {
        self.values.get(self.offsets.get(row, self.values.values.len())?)
    }
}

impl Shard {
    /// A column of vectors (`FixedSizeList<Float32>`) or of regions (a `FixedSizeList` of those).
    ///
    /// # Errors
    /// There is no such column, it is of another type, or has nulls.
    pub fn vectors(self: &Arc<Self>, column: &str) -> Result<Vectors> {
        let (field, mut at) = self.column(column)?;
        let (mut shape, mut kind) = (Vec::new(), field.data_type());
        let mut values = self.rows();
        while let DataType::FixedSizeList(item, size) = kind {
            self.whole(column, at.node, values)?;
            let size = usize::try_from(*size).map_err(|_| self.mistyped(field, "vectors"))?;
            values = values.checked_mul(size).ok_or_else(|| self.mistyped(field, "vectors"))?;
            shape.push(size);
            kind = item.data_type();
            at = Start { node: at.node + 1, buffer: at.buffer + 1 };
        }
        if *kind != DataType::Float32 || !matches!(shape.len(), 1 | 2) {
            return Err(self.mistyped(field, "a FixedSizeList of Float32, or one of such lists"));
        }
        self.whole(column, at.node, values)?;
        let values = self.values(column, at.buffer + 1, values)?;
        Ok(Vectors { values, rows: self.rows(), width: shape.iter().product(), shape })
    }

    /// A column of `Int64`.
    ///
    /// # Errors
    /// There is no such column, it is of another type, or has nulls.
    pub fn ids(self: &Arc<Self>, column: &str) -> Result<Ids> {
        let (field, at) = self.column(column)?;
        if *field.data_type() != DataType::Int64 {
            return Err(self.mistyped(field, "Int64"));
        }
        self.whole(column, at.node, self.rows())?;
        Ok(Ids { values: self.values(column, at.buffer + 1, self.rows())? })
    }

    /// A column of `Utf8`.
    ///
    /// # Errors
    /// There is no such column, it is of another type, or has nulls.
    pub fn texts(self: &Arc<Self>, column: &str) -> Result<Texts> {
        let (field, at) = self.column(column)?;
        if *field.data_type() != DataType::Utf8 {
            return Err(self.mistyped(field, "Utf8"));
        }
        self.whole(column, at.node, self.rows())?;
        let bytes = self.layout.buffers[at.buffer + 2].len();
        Ok(Texts { offsets: self.offsets(column, at.buffer + 1)?, bytes: self.values(column, at.buffer + 2, bytes)? })
    }

    /// A column of lists of `Int32`.
    ///
    /// # Errors
    /// There is no such column, it is of another type, or has nulls.
    pub fn numbers(self: &Arc<Self>, column: &str) -> Result<Numbers> {
        let (field, at) = self.column(column)?;
        if !matches!(field.data_type(), DataType::List(item) if *item.data_type() == DataType::Int32) {
            return Err(self.mistyped(field, "a List of Int32"));
        }
        self.whole(column, at.node, self.rows())?;
        let values = self.layout.nodes[at.node + 1].length;
        self.whole(column, at.node + 1, values)?;
        Ok(Numbers {
            offsets: self.offsets(column, at.buffer + 1)?,
            values: self.values(column, at.buffer + 3, values)?,
        })
    }

    fn column(&self, name: &str) -> Result<(&Field, Start)> {
        let fields = self.schema().fields();
        match fields.find(name) {
            Some((at, field)) => Ok((field, self.layout.starts[at])),
            None => {
                let names: Vec<_> = fields.iter().map(|field| format!("`{}`", field.name())).collect();
                Err(Error::data(format!("no column `{name}` in `{}`", self.place().display()))
                    .hint(format!("its columns are {}", names.join(", "))))
            }
        }
    }

    fn mistyped(&self, field: &Field, wanted: &str) -> Error {
        let (name, found) = (field.name(), field.data_type());
        Error::data(format!("column `{name}` is {found}, wanted {wanted}, in `{}`", self.place().display()))
    }

    /// That an array of `column` has `length` values and no nulls.
    fn whole(&self, column: &str, node: usize, length: usize) -> Result<()> {
        let node = self.layout.nodes[node];
        let place = self.place().display();
        if node.nulls != 0 {
            return Err(Error::data(format!("column `{column}` has {} nulls, wanted none, in `{place}`", node.nulls)));
        }
        if node.length != length {
            let found = node.length;
            return Err(Error::data(format!("column `{column}` has {found} values, wanted {length}, in `{place}`")));
        }
        Ok(())
    }

    /// The first `length` values of a buffer.
    fn values<T: ArrowNativeType>(self: &Arc<Self>, column: &str, buffer: usize, length: usize) -> Result<Values<T>> {
        let place = self.layout.buffers[buffer].clone();
        let size = size_of::<T>();
        if length.checked_mul(size).is_none_or(|bytes| bytes > place.len()) {
            return Err(self.wrong(Error::data(format!(
                "column `{column}` has {} bytes, wanted {length} values of {size}",
                place.len()
            ))));
        }
        if length == 0 {
            return Ok(Values { shard: self.clone(), start: 0, values: ScalarBuffer::default() });
        }
        // Buffers start at multiples of 8 bytes of the file, which itself starts at a page of memory or a cache line.
        let values = ScalarBuffer::new(self.bytes.clone(), place.start / size, length);
        Ok(Values { shard: self.clone(), start: place.start, values })
    }

    fn offsets(self: &Arc<Self>, column: &str, buffer: usize) -> Result<Offsets> {
        // A column without rows may have no offsets, not even the first.
        let length = if self.rows() == 0 { 0 } else { self.rows() + 1 };
        Ok(Offsets { values: self.values(column, buffer, length)?, rows: self.rows() })
    }
}

/// A buffer of the file.
#[derive(Debug, Clone)]
struct Values<T: ArrowNativeType> {
    shard: Arc<Shard>,
    /// Where it starts in the file.
    start: usize,
    values: ScalarBuffer<T>,
}

impl<T: ArrowNativeType> Values<T> {
    /// Values that are there, checked.
    #[inline]
    fn get(&self, range: Range<usize>) -> Result<&[T]> {
        let size = size_of::<T>();
        self.shard.check(self.start + range.start * size..self.start + range.end * size)?;
        Ok(&self.values[range])
    }
}

/// Where the rows of a column of texts or lists end.
#[derive(Debug, Clone)]
struct Offsets {
    values: Values<i32>,
    rows: usize,
}

impl Offsets {
    /// The place of row `row` among `length` values.
    #[inline]
    fn get(&self, row: usize, length: usize) -> Result<Range<usize>> {
        if row >= self.rows {
            return Err(no_such(row, self.rows));
        }
        let &[start, end] = self.values.get(row..row + 2)? else { return Err(no_such(row, self.rows)) };
        match (usize::try_from(start), usize::try_from(end)) {
            (Ok(first), Ok(last)) if first <= last && last <= length => Ok(first..last),
            _ => Err(self.values.shard.wrong(Error::data(format!(
                "row {row} is values {start} to {end} of {length}, wanted a range of them"
            )))),
        }
    }
}

#[cold]
fn no_such(row: usize, rows: usize) -> Error {
    Error::internal(format!("row {row} of {rows} was asked for"))
}
