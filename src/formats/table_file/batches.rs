//! Size limits of the batches that are read from a table file, and slices of batches whose rows have any size.

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait, RecordBatch};
use arrow::datatypes::{ArrowNativeType as _, BinaryViewType, ByteViewType, DataType, StringViewType};
use az::SaturatingAs;

use crate::expansion_limits::ExpansionLimits;
use crate::text_lines::MAX_LINE_BYTES;
use pairloom_base::error::{Error, Result, escape_line};
use pairloom_storage::parquet::BATCH_ROWS;

/// Maximum length of a vector: many times the widest joint embedding space that we know of.
pub const MAX_WIDTH: usize = 1 << 16;
/// Maximum number of values of a column in a batch of several rows: 16 MiB of f32.
pub(super) const BATCH_VALUES: usize = 4 << 20;
/// Maximum size in bytes of the texts of a column in a batch of several rows.
pub(super) const BATCH_TEXT_BYTES: usize = 256 << 20;
/// Maximum size in bytes of the texts of a row.
const MAX_ROW_BYTES: usize = 512 << 20;

/// Iterator over the rows of a table, in order, in batches of bounded size.
pub(super) type BatchIterator<'f> = Box<dyn Iterator<Item = Result<RecordBatch>> + 'f>;

/// Function that is called before each page and record batch, and for each batch; its error ends the reading.
pub(super) type Check<'f> = Box<dyn Fn() -> Result<()> + 'f>;

/// Number of rows in a batch if a row has `values` values.
pub(super) fn rows_per_batch(values: usize) -> usize {
    (BATCH_VALUES / values.max(1)).clamp(1, BATCH_ROWS)
}

/// Checks the size of a row of the column `name`: the number of its values, and the bytes of its longest text and of all
/// of its texts.
pub(super) fn check_row(name: &str, values: usize, longest_text: usize, bytes: usize) -> Result<()> {
    let refused = |what: &str, got: usize, most: usize, unit: &str| {
        Err(Error::data(format!("{what} of `{}` has {got} {unit}, wanted at most {most}", escape_line(name))))
    };
    if values > MAX_WIDTH {
        refused("a row", values, MAX_WIDTH, "values")
    } else if longest_text > MAX_LINE_BYTES {
        refused("a text", longest_text, MAX_LINE_BYTES, "bytes")
    } else if bytes > MAX_ROW_BYTES {
        refused("a row", bytes, MAX_ROW_BYTES, "bytes")
    } else {
        Ok(())
    }
}

/// Error for a truncated file.
pub(super) fn truncated_error() -> Error {
    Error::data("the file is cut short or damaged").hint("copy it or create it again")
}

/// Number of values per row of a column type, if the type determines it, otherwise 1.
pub(super) fn values_per_row(kind: &DataType) -> usize {
    match kind {
        DataType::FixedSizeList(_, width) => (*width).saturating_as::<usize>(),
        _ => 1,
    }
}

/// Divides a batch into slices of bounded size, each of at least a row.
#[derive(Default)]
pub(super) struct BatchSlices {
    rest: Option<RecordBatch>,
}

impl BatchSlices {
    pub(super) fn of(batch: RecordBatch) -> Self {
        Self { rest: Some(batch) }
    }

    /// Next slice; `None` at the end. Adds its texts to `expansion`, since rows may share them.
    ///
    /// # Errors
    /// A row is too large, or the texts come to too many bytes for the file.
    pub(super) fn next(&mut self, expansion: &mut ExpansionLimits) -> Result<Option<RecordBatch>> {
        let Some(batch) = self.rest.take().filter(|batch| batch.num_rows() > 0) else { return Ok(None) };
        let mut rows = BATCH_ROWS.min(batch.num_rows());
        let sizes: Vec<_> = batch.columns().iter().map(|column| row_sizes(column, rows)).collect();
        for (field, size_of) in batch.schema_ref().fields().iter().zip(&sizes) {
            rows = fitting_rows(size_of, field.name(), rows)?;
        }
        for size_of in &sizes {
            expansion.add_bytes((0..rows).map(|row| size_of(row).bytes as u64).sum())?;
        }
        self.rest = Some(batch.slice(rows, batch.num_rows() - rows));
        Ok(Some(batch.slice(0, rows)))
    }
}

/// Number of rows at the start of the column `name` that fit into a slice: at least one, and `most` at most.
fn fitting_rows(size_of: &dyn Fn(usize) -> RowSize, name: &str, most: usize) -> Result<usize> {
    let (mut values, mut bytes) = (0, 0);
    for row in 0..most {
        let size = size_of(row);
        check_row(name, size.values, size.longest_text, size.bytes)?;
        if row > 0 && (values + size.values > BATCH_VALUES || bytes + size.bytes > BATCH_TEXT_BYTES) {
            return Ok(row);
        }
        values += size.values;
        bytes += size.bytes;
    }
    Ok(most)
}

/// Size of the values of a row.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct RowSize {
    values: usize,
    /// Bytes of the longest text or image, and of all of them.
    longest_text: usize,
    bytes: usize,
}

/// Sizes of the first rows of a column, `rows` of them, by their numbers.
fn row_sizes<'a>(column: &'a dyn Array, rows: usize) -> Box<dyn Fn(usize) -> RowSize + 'a> {
    match column.data_type() {
        DataType::List(_) => list_sizes::<i32>(column),
        DataType::LargeList(_) => list_sizes::<i64>(column),
        DataType::FixedSizeList(_, width) => {
            let width = (*width).saturating_as::<usize>();
            let items = column.as_fixed_size_list().values();
            items_sizes(items, move |row| (row * width, width))
        }
        DataType::Struct(_) => {
            let fields = column.as_struct().columns();
            let fields: Vec<_> = fields.iter().map(|field| text_bytes(field, rows)).collect();
            Box::new(move |row| {
                fields.iter().fold(RowSize { values: 1, ..RowSize::default() }, |size, field| size.with(field(row)))
            })
        }
        _ => {
            let bytes_of = text_bytes(column, rows);
            Box::new(move |row| RowSize { values: 1, ..RowSize::default() }.with(bytes_of(row)))
        }
    }
}

impl RowSize {
    /// This size and a text of so many bytes.
    fn with(self, bytes: usize) -> Self {
        Self { longest_text: self.longest_text.max(bytes), bytes: self.bytes.saturating_add(bytes), ..self }
    }
}

fn list_sizes<O: OffsetSizeTrait>(column: &dyn Array) -> Box<dyn Fn(usize) -> RowSize + '_> {
    let list = column.as_list::<O>();
    let offsets = list.value_offsets();
    items_sizes(list.values(), move |row| {
        let start = offsets[row].as_usize();
        (start, offsets[row + 1].as_usize() - start)
    })
}

/// Sizes of rows of items, by the place of the first one and their number.
fn items_sizes<'a>(
    items: &'a ArrayRef,
    place: impl Fn(usize) -> (usize, usize) + 'a,
) -> Box<dyn Fn(usize) -> RowSize + 'a> {
    if items.data_type().is_numeric() {
        return Box::new(move |row| RowSize { values: place(row).1, ..RowSize::default() });
    }
    let bytes_of = text_bytes(items, items.len());
    Box::new(move |row| {
        let (start, values) = place(row);
        // A longer row is refused, so its texts need not be counted.
        let counted = values.min(MAX_WIDTH);
        (start..start + counted).fold(RowSize { values, ..RowSize::default() }, |size, item| size.with(bytes_of(item)))
    })
}

/// Sizes in bytes of the first texts or images of an array, `rows` of them; 0 for other values.
fn text_bytes<'a>(array: &'a dyn Array, rows: usize) -> Box<dyn Fn(usize) -> usize + 'a> {
    match array.data_type() {
        DataType::Utf8 => Box::new(move |row| array.as_string::<i32>().value_length(row).as_usize()),
        DataType::LargeUtf8 => Box::new(move |row| array.as_string::<i64>().value_length(row).as_usize()),
        DataType::Binary => Box::new(move |row| array.as_binary::<i32>().value_length(row).as_usize()),
        DataType::LargeBinary => Box::new(move |row| array.as_binary::<i64>().value_length(row).as_usize()),
        DataType::Utf8View => view_bytes::<StringViewType>(array),
        DataType::BinaryView => view_bytes::<BinaryViewType>(array),
        DataType::Dictionary(..) => {
            let values = array.as_any_dictionary().values();
            // If all rows are null, the dictionary may be empty.
            if values.is_empty() {
                return Box::new(|_| 0);
            }
            let keys = array.slice(0, rows).as_any_dictionary().normalized_keys();
            let bytes_of = text_bytes(values, values.len());
            Box::new(move |row| bytes_of(keys[row]))
        }
        _ => Box::new(|_| 0),
    }
}

/// Sizes of the values of a view column, whose views may lead to the same bytes.
fn view_bytes<T: ByteViewType>(array: &dyn Array) -> Box<dyn Fn(usize) -> usize + '_> {
    let views = array.as_byte_view::<T>().views();
    // The lower four bytes of a view are its length.
    Box::new(move |row| (views[row] & u128::from(u32::MAX)).saturating_as::<usize>())
}
