//! Typed columns of a shard. A row is a slice of the memory map, verified when it is read.
//!
//! Offsets and texts are validated before use, so a file with valid digests and invalid content gives an error, never
//! an access outside of the file.

use std::ops::Range;
use std::sync::Arc;

use arrow::buffer::ScalarBuffer;
use arrow::datatypes::{ArrowNativeType, DataType, Field};

use super::Shard;
use super::layout::ColumnStart;
use pairloom_base::error::{Error, Result};

/// Column of vectors, or of sets of vectors (regions): rows of f32 values of one shape.
#[derive(Debug, Clone)]
pub struct ShardVectors {
    values: CheckedBuffer<f32>,
    rows: usize,
    width: usize,
    shape: Vec<usize>,
}

/// Column of i64.
#[derive(Debug, Clone)]
pub struct ShardIds {
    values: CheckedBuffer<i64>,
}

/// Column of texts.
#[derive(Debug, Clone)]
pub struct ShardTexts {
    offsets: RowOffsets,
    bytes: CheckedBuffer<u8>,
}

/// Column of lists of i32.
#[derive(Debug, Clone)]
pub struct ShardIntLists {
    offsets: RowOffsets,
    values: CheckedBuffer<i32>,
}

impl ShardVectors {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Shape of a row: `[width]` for vectors, `[regions, width]` for regions.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of values of a row: the product of its shape.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Values of row `row`, in row-major order, without copying.
    ///
    /// # Errors
    /// The file is damaged there, or `row` is out of range.
    #[inline]
    pub fn row(&self, row: usize) -> Result<&[f32]> {
        if row >= self.rows {
            return Err(no_such_row(row, self.rows));
        }
        self.values.get(row * self.width..(row + 1) * self.width)
    }
}

impl ShardIds {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.values.values.len()
    }

    /// Value of row `row`.
    ///
    /// # Errors
    /// The file is damaged there, or `row` is out of range.
    #[inline]
    pub fn value(&self, row: usize) -> Result<i64> {
        if row >= self.rows() {
            return Err(no_such_row(row, self.rows()));
        }
        Ok(self.values.get(row..row + 1)?[0])
    }
}

impl ShardTexts {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.offsets.rows
    }

    /// Text of row `row`.
    ///
    /// # Errors
    /// The file is damaged there, the text is not UTF-8, or `row` is out of range.
    pub fn value(&self, row: usize) -> Result<&str> {
        let range = self.offsets.get(row, self.bytes.values.len())?;
        std::str::from_utf8(self.bytes.get(range)?).map_err(|error| {
            self.bytes.shard.with_path(Error::data(format!("row {row} of a column of texts is not UTF-8: {error}")))
        })
    }
}

impl ShardIntLists {
    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.offsets.rows
    }

    /// Numbers of row `row`.
    ///
    /// # Errors
    /// The file is damaged there, or `row` is out of range.
    pub fn row(&self, row: usize) -> Result<&[i32]> {
        self.values.get(self.offsets.get(row, self.values.values.len())?)
    }
}

impl Shard {
    /// Opens a column of vectors (`FixedSizeList<Float32>`) or of regions (a `FixedSizeList` of those).
    ///
    /// # Errors
    /// There is no such column, it is of another type, or has nulls.
    pub fn vectors(self: &Arc<Self>, column: &str) -> Result<ShardVectors> {
        let (field, mut at) = self.column(column)?;
        let (mut shape, mut kind) = (Vec::new(), field.data_type());
        let mut values = self.rows();
        while let DataType::FixedSizeList(item, size) = kind {
            self.check_array(column, at.node, values)?;
            let size = usize::try_from(*size).map_err(|_| self.type_error(field, "vectors"))?;
            values = values.checked_mul(size).ok_or_else(|| self.type_error(field, "vectors"))?;
            shape.push(size);
            kind = item.data_type();
            at = ColumnStart { node: at.node + 1, buffer: at.buffer + 1 };
        }
        if *kind != DataType::Float32 || !matches!(shape.len(), 1 | 2) {
            return Err(self.type_error(field, "a FixedSizeList of Float32, or one of such lists"));
        }
        self.check_array(column, at.node, values)?;
        let values = self.values(column, at.buffer + 1, values)?;
        Ok(ShardVectors { values, rows: self.rows(), width: shape.iter().product(), shape })
    }

    /// Opens a column of `Int64`.
    ///
    /// # Errors
    /// There is no such column, it is of another type, or has nulls.
    pub fn ids(self: &Arc<Self>, column: &str) -> Result<ShardIds> {
        let (field, at) = self.column(column)?;
        if *field.data_type() != DataType::Int64 {
            return Err(self.type_error(field, "Int64"));
        }
        self.check_array(column, at.node, self.rows())?;
        Ok(ShardIds { values: self.values(column, at.buffer + 1, self.rows())? })
    }

    /// Opens a column of `Utf8`.
    ///
    /// # Errors
    /// There is no such column, it is of another type, or has nulls.
    pub fn texts(self: &Arc<Self>, column: &str) -> Result<ShardTexts> {
        let (field, at) = self.column(column)?;
        if *field.data_type() != DataType::Utf8 {
            return Err(self.type_error(field, "Utf8"));
        }
        self.check_array(column, at.node, self.rows())?;
        let bytes = self.layout.buffers[at.buffer + 2].len();
        Ok(ShardTexts {
            offsets: self.offsets(column, at.buffer + 1)?,
            bytes: self.values(column, at.buffer + 2, bytes)?,
        })
    }

    /// Opens a column of lists of `Int32`.
    ///
    /// # Errors
    /// There is no such column, it is of another type, or has nulls.
    pub fn int32_lists(self: &Arc<Self>, column: &str) -> Result<ShardIntLists> {
        let (field, at) = self.column(column)?;
        if !matches!(field.data_type(), DataType::List(item) if *item.data_type() == DataType::Int32) {
            return Err(self.type_error(field, "a List of Int32"));
        }
        self.check_array(column, at.node, self.rows())?;
        let values = self.layout.nodes[at.node + 1].length;
        self.check_array(column, at.node + 1, values)?;
        Ok(ShardIntLists {
            offsets: self.offsets(column, at.buffer + 1)?,
            values: self.values(column, at.buffer + 3, values)?,
        })
    }

    fn column(&self, name: &str) -> Result<(&Field, ColumnStart)> {
        let fields = self.schema().fields();
        match fields.find(name) {
            Some((at, field)) => Ok((field, self.layout.starts[at])),
            None => {
                let names: Vec<_> = fields.iter().map(|field| format!("`{}`", field.name())).collect();
                Err(Error::data(format!("no column `{name}` in `{}`", self.path().display()))
                    .hint(format!("its columns are {}", names.join(", "))))
            }
        }
    }

    fn type_error(&self, field: &Field, wanted: &str) -> Error {
        let (name, found) = (field.name(), field.data_type());
        Error::data(format!("column `{name}` is {found}, expected {wanted}, in `{}`", self.path().display()))
    }

    /// Checks that an array of `column` has `length` values and no nulls.
    fn check_array(&self, column: &str, node: usize, length: usize) -> Result<()> {
        let node = self.layout.nodes[node];
        let place = self.path().display();
        if node.nulls != 0 {
            return Err(Error::data(format!(
                "column `{column}` has {} nulls, expected none, in `{place}`",
                node.nulls
            )));
        }
        if node.length != length {
            let found = node.length;
            return Err(Error::data(format!("column `{column}` has {found} values, expected {length}, in `{place}`")));
        }
        Ok(())
    }

    /// First `length` values of a buffer.
    fn values<T: ArrowNativeType>(
        self: &Arc<Self>,
        column: &str,
        buffer: usize,
        length: usize,
    ) -> Result<CheckedBuffer<T>> {
        let place = self.layout.buffers[buffer].clone();
        let size = size_of::<T>();
        if length.checked_mul(size).is_none_or(|bytes| bytes > place.len()) {
            return Err(self.with_path(Error::data(format!(
                "column `{column}` has {} bytes, expected {length} values of {size}",
                place.len()
            ))));
        }
        if length == 0 {
            return Ok(CheckedBuffer { shard: self.clone(), start: 0, values: ScalarBuffer::default() });
        }
        // Buffers start at multiples of 8 bytes of the file, which itself is aligned to a page or a cache line.
        let values = ScalarBuffer::new(self.bytes.clone(), place.start / size, length);
        Ok(CheckedBuffer { shard: self.clone(), start: place.start, values })
    }

    fn offsets(self: &Arc<Self>, column: &str, buffer: usize) -> Result<RowOffsets> {
        // A column without rows may have no offsets at all.
        let length = if self.rows() == 0 { 0 } else { self.rows() + 1 };
        Ok(RowOffsets { values: self.values(column, buffer, length)?, rows: self.rows() })
    }
}

/// Buffer of the file, verified when it is read.
#[derive(Debug, Clone)]
struct CheckedBuffer<T: ArrowNativeType> {
    shard: Arc<Shard>,
    /// Offset in the file.
    start: usize,
    values: ScalarBuffer<T>,
}

impl<T: ArrowNativeType> CheckedBuffer<T> {
    /// Verified values of a range, which must be inside of the buffer.
    #[inline]
    fn get(&self, range: Range<usize>) -> Result<&[T]> {
        let size = size_of::<T>();
        self.shard.verify(self.start + range.start * size..self.start + range.end * size)?;
        Ok(&self.values[range])
    }
}

/// Offsets of the rows of a column of texts or lists.
#[derive(Debug, Clone)]
struct RowOffsets {
    values: CheckedBuffer<i32>,
    rows: usize,
}

impl RowOffsets {
    /// Range of row `row` among `length` values.
    #[inline]
    fn get(&self, row: usize, length: usize) -> Result<Range<usize>> {
        if row >= self.rows {
            return Err(no_such_row(row, self.rows));
        }
        let &[start, end] = self.values.get(row..row + 2)? else { return Err(no_such_row(row, self.rows)) };
        match (usize::try_from(start), usize::try_from(end)) {
            (Ok(first), Ok(last)) if first <= last && last <= length => Ok(first..last),
            _ => Err(self.values.shard.with_path(Error::data(format!(
                "row {row} is values {start} to {end} of {length}, expected a range of them"
            )))),
        }
    }
}

#[cold]
fn no_such_row(row: usize, rows: usize) -> Error {
    Error::internal(format!("row {row} of {rows} was requested"))
}
