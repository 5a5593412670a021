//! Check of a column chunk: its pages hold what they claim, and its rows are of a size that fits into memory.

use std::ops::Range;
use std::sync::Arc;

use az::SaturatingAs;
use parquet::basic::{ConvertedType, Encoding, LogicalType, Type};
use parquet::column::page::{Page, PageReader as _};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::serialized_reader::SerializedPageReader;
use parquet::schema::types::ColumnDescriptor;

use super::arrow_columns::{ArrowColumn, NUMBER_BYTES};
use super::levels::{RowLengths, WINDOW_ROWS, level_width, missing};
use super::page_header::PageHeaders;
use super::page_header::holds_what_it_claims;
use super::text_sizes::LengthSums;
use super::text_sizes::{DictionaryLengths, plain_is_utf8, plain_sizes, text_sizes};
use pairloom_base::error::{Error, Result};
use pairloom_storage::pread::PreadFile;
use pairloom_storage::shard::catch_panic;

/// Largest size of a page without compression. Pages are usually of 1 MiB; some programs write one for a row group.
const MAX_PAGE_BYTES: usize = 512 << 20;
/// Largest number of values of a page.
const MAX_PAGE_VALUES: usize = 64 << 20;
/// Largest size of the rows that a query reads at a time, with all columns.
pub(super) const MAX_WINDOW_BYTES: u64 = 2 << 30;
/// Largest size of a decimal in Arrow.
const MAX_DECIMAL_BYTES: i32 = 32;
/// Size of a value of the type `INT96`.
const INT96_BYTES: u64 = 12;
/// Size of the two levels of a value in a list.
const LEVELS_BYTES: u64 = 4;

/// Sizes of the rows of a column chunk.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct ChunkSizes {
    /// Most values of a row.
    pub longest_row: usize,
    /// Most bytes of a text.
    pub longest_text: usize,
    /// Most bytes of 8,192 rows that a batch can hold: values, and the pages that they are in.
    pub largest_batch: u64,
    /// Bytes of all texts, those of a dictionary as often as they stand there.
    pub texts: u64,
    /// Number of missing values, and of missing and empty lists; of lists only.
    pub missing: u64,
    /// Bytes that the pages claim to have without compression, or those of their values if these are more.
    pub claimed: u64,
}

/// Checks the pages of a column chunk of `rows` rows, which the library reads as `arrow_column`. Calls `check` before each
/// page; its error ends the reading.
///
/// # Errors
/// The chunk is damaged, is in another file or has another number of rows, a page holds more than it claims or is larger
/// than the largest page. Or an error of `check`.
pub fn check_chunk(
    file: &PreadFile,
    column: &ColumnChunkMetaData,
    rows: i64,
    arrow_column: ArrowColumn,
    check: &dyn Fn() -> Result<()>,
) -> Result<ChunkSizes> {
    let name = column.column_path().string();
    if let Some(other) = column.file_path() {
        return Err(Error::data(format!("`{name}` is in another file, {other:?}"))
            .hint("name that file, or write all columns into one"));
    }
    let chunk = chunk_place(file, column).ok_or_else(|| damaged(&name))?;
    check_width(column)?;
    let (mut values, mut claimed) = (0, 0);
    for page in PageHeaders::new(file, chunk) {
        check()?;
        let page = page.ok_or_else(|| damaged(&name))?;
        let refused = |got: String| {
            Error::data(format!("a page of `{name}` {got}")).hint("the file is damaged or made to fill the memory")
        };
        if page.claimed > MAX_PAGE_BYTES {
            return Err(refused(format!("has {} bytes, wanted at most {MAX_PAGE_BYTES}", page.claimed)));
        }
        if page.values > MAX_PAGE_VALUES {
            return Err(refused(format!("has {} values, wanted at most {MAX_PAGE_VALUES}", page.values)));
        }
        let holds = holds_what_it_claims(file, &page, column.compression()).map_err(|_| damaged(&name))?;
        if !holds {
            return Err(refused(format!("holds more than the {} bytes that it claims to have", page.claimed)));
        }
        values += if page.is_dictionary { 0 } else { page.values as u64 };
        claimed += page.claimed as u64;
    }
    ChunkReader::new(column, [values, claimed], arrow_column).read(file, rows, check)
}

/// Checks the size of the values of a column whose values have one size.
fn check_width(column: &ColumnChunkMetaData) -> Result<()> {
    let (name, width) = (column.column_path().string(), column.column_descr().type_length());
    // The library divides by the size.
    if column.column_type() == Type::FIXED_LEN_BYTE_ARRAY && width < 1 {
        return Err(damaged(&name));
    }
    if is_decimal(column.column_descr()) && width > MAX_DECIMAL_BYTES {
        let message = format!("`{name}` has decimals of {width} bytes, wanted at most {MAX_DECIMAL_BYTES}");
        return Err(Error::data(message).hint("write them with at most 76 digits"));
    }
    Ok(())
}

/// Bytes of a value in memory, or of the space for a missing one, with its levels. A decimal of fixed size and an `INT96` are
/// there in both types for a while, and each group around values of a list has a bit for each of them.
fn value_bytes(column: &ColumnChunkMetaData, arrow_column: ArrowColumn) -> u64 {
    let stored = match column.column_type() {
        Type::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.column_descr().type_length()).unwrap_or(0),
        Type::INT96 => INT96_BYTES,
        _ => 0,
    };
    let descriptor = column.column_descr();
    let groups = u64::try_from(descriptor.max_def_level()).unwrap_or(0).div_ceil(8);
    let levels = if descriptor.max_rep_level() > 0 { LEVELS_BYTES + groups } else { 0 };
    let is_converted = is_decimal(descriptor) || column.column_type() == Type::INT96;
    let value = if is_converted { stored + arrow_column.bytes } else { stored.max(arrow_column.bytes) };
    value + levels
}

fn is_decimal(column: &ColumnDescriptor) -> bool {
    column.converted_type() == ConvertedType::DECIMAL
        || matches!(column.logical_type_ref(), Some(LogicalType::Decimal { .. }))
}

fn damaged(name: &str) -> Error {
    Error::data(format!("the pages of `{name}` are cut short or damaged")).hint("copy the file or create it again")
}

/// Place of a column chunk, as the library finds it.
pub(super) fn chunk_place(file: &PreadFile, column: &ColumnChunkMetaData) -> Option<Range<u64>> {
    let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
    let start = u64::try_from(start).ok()?;
    let end = start.checked_add(u64::try_from(column.compressed_size()).ok()?)?;
    (end <= file.size()).then_some(start..end)
}

/// Reader of the sizes of the rows of a chunk whose pages hold what they claim.
struct ChunkReader<'m> {
    column: &'m ColumnChunkMetaData,
    /// Bytes of a value in memory.
    value_bytes: u64,
    name: String,
    /// Bytes that the pages claim to have without compression, or those of their values.
    claimed: u64,
    rows: RowLengths,
    /// True for texts of which the library does not see whether they are UTF-8.
    is_unchecked: bool,
    missing: u64,
    longest_text: u64,
    dictionary: DictionaryLengths,
    /// Bytes of all texts.
    texts: u64,
    /// Bytes of the pages of the current window of rows, and of the largest one.
    window_bytes: u64,
    largest_window: u64,
}

impl<'m> ChunkReader<'m> {
    /// Reader of a chunk whose pages claim these numbers of values and bytes.
    fn new(column: &'m ColumnChunkMetaData, [values, claimed]: [u64; 2], arrow_column: ArrowColumn) -> Self {
        let name = column.column_path().string();
        let mut rows = RowLengths::default();
        if column.column_descr().max_rep_level() == 0 && column.column_type() != Type::BYTE_ARRAY {
            rows.add_rows(values);
        }
        // The library looks at the bytes of texts of this type only.
        let is_unchecked = arrow_column.is_text && column.column_descr().converted_type() != ConvertedType::UTF8;
        Self {
            column,
            value_bytes: value_bytes(column, arrow_column),
            name,
            claimed: claimed.max(values.saturating_mul(NUMBER_BYTES)),
            rows,
            is_unchecked,
            missing: 0,
            longest_text: 0,
            dictionary: DictionaryLengths::default(),
            texts: 0,
            window_bytes: 0,
            largest_window: 0,
        }
    }

    fn read(mut self, file: &PreadFile, rows: i64, check: &dyn Fn() -> Result<()>) -> Result<ChunkSizes> {
        let is_repeated = self.column.column_descr().max_rep_level() > 0;
        let has_texts = self.column.column_type() == Type::BYTE_ARRAY;
        if is_repeated || has_texts {
            let reader = || SerializedPageReader::new(Arc::new(file.clone()), self.column, 0, None);
            let mut pages = catch_panic(reader)??;
            while let Some(page) = catch_panic(|| pages.get_next_page())?? {
                check()?;
                self.add(&page).ok_or_else(|| damaged(&self.name))?;
                if self.window_bytes.max(self.longest_text) > MAX_WINDOW_BYTES {
                    break;
                }
            }
        }
        let is_whole = self.window_bytes.max(self.longest_text) <= MAX_WINDOW_BYTES;
        if is_whole && u64::try_from(rows) != Ok(self.rows.rows) {
            let (name, got) = (&self.name, self.rows.rows);
            return Err(Error::data(format!("`{name}` has {got} rows, and the metadata of the file says {rows}"))
                .hint("the file is damaged or made to fill the memory"));
        }
        Ok(ChunkSizes {
            missing: self.missing,
            claimed: self.claimed,
            texts: self.texts,
            longest_row: self.rows.longest_row.saturating_as(),
            longest_text: self.longest_text.saturating_as(),
            largest_batch: self.largest_window.max(self.rows.largest_window.saturating_mul(self.value_bytes)),
        })
    }

    /// Adds a page; `None` if it is damaged.
    fn add(&mut self, page: &Page) -> Option<()> {
        let has_texts = self.column.column_type() == Type::BYTE_ARRAY;
        let count = u64::from(page.num_values());
        if let Page::DictionaryPage { buf, .. } = page {
            if has_texts {
                self.longest_text = self.longest_text.max(plain_sizes(buf, count).largest);
                self.dictionary = DictionaryLengths::new(buf, count);
            }
            return (!self.is_unchecked || plain_is_utf8(buf, count)).then_some(());
        }
        let first = self.rows.rows;
        let values = self.add_rows(page, count)?;
        let mut bytes = page.buffer().len() as u64;
        if has_texts {
            let has_indices = matches!(page.encoding(), Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY);
            let LengthSums { largest, mut sum } = text_sizes(values, page.encoding(), count)?;
            if self.is_unchecked && !has_indices {
                // Texts in other encodings are not looked at, so they are refused.
                (page.encoding() == Encoding::PLAIN && plain_is_utf8(values, count)).then_some(())?;
            }
            self.longest_text = self.longest_text.max(largest);
            let mut of_batch = sum;
            if has_indices {
                // Views share the texts of a dictionary, but most of what a query does with them makes a copy of each.
                let sums = self.dictionary.sums(values, count);
                sum = sums.sum;
                of_batch = if self.column.column_descr().max_rep_level() > 0 { sum } else { sums.largest_batch };
            }
            self.texts = self.texts.saturating_add(sum);
            bytes = bytes.max(of_batch);
        }
        if first == 0 || (first - 1) / WINDOW_ROWS == self.rows.rows.saturating_sub(1) / WINDOW_ROWS {
            self.window_bytes = self.window_bytes.saturating_add(bytes);
        } else {
            self.window_bytes = bytes;
        }
        self.largest_window = self.largest_window.max(self.window_bytes);
        Some(())
    }

    /// Adds the rows of a page of values, by its levels. Returns the bytes of its values.
    fn add_rows<'p>(&mut self, page: &'p Page, count: u64) -> Option<&'p [u8]> {
        let descriptor = self.column.column_descr();
        let (max_repetition, max_definition) = (descriptor.max_rep_level(), descriptor.max_def_level());
        match page {
            Page::DataPage { buf, def_level_encoding, rep_level_encoding, .. } => {
                let mut rest = &buf[..];
                let repetition = take_levels(&mut rest, *rep_level_encoding, max_repetition, count)?;
                let definition = take_levels(&mut rest, *def_level_encoding, max_definition, count)?;
                self.add_missing(definition, *def_level_encoding, count)?;
                self.add_levels(repetition, *rep_level_encoding, max_repetition, count)?;
                Some(rest)
            }
            Page::DataPageV2 { buf, rep_levels_byte_len, def_levels_byte_len, .. } => {
                let repetition_end = usize::try_from(*rep_levels_byte_len).ok()?;
                let levels_end = repetition_end.checked_add(usize::try_from(*def_levels_byte_len).ok()?)?;
                self.add_missing(buf.get(repetition_end..levels_end)?, Encoding::RLE, count)?;
                self.add_levels(buf.get(..repetition_end)?, Encoding::RLE, max_repetition, count)?;
                buf.get(levels_end..)
            }
            Page::DictionaryPage { .. } => None,
        }
    }

    /// Counts what is missing in lists.
    fn add_missing(&mut self, levels: &[u8], encoding: Encoding, count: u64) -> Option<()> {
        let descriptor = self.column.column_descr();
        if descriptor.max_rep_level() > 0 && descriptor.max_def_level() > 0 && encoding == Encoding::RLE {
            self.missing += missing(levels, descriptor.max_def_level(), count)?;
        }
        Some(())
    }

    fn add_levels(&mut self, levels: &[u8], encoding: Encoding, max_level: i16, count: u64) -> Option<()> {
        match (max_level, encoding) {
            (0, _) => self.rows.add_rows(count),
            (_, Encoding::RLE) => self.rows.add_levels(levels, max_level, count)?,
            // The old encoding; no program that writes lists of numbers uses it.
            _ => return None,
        }
        Some(())
    }
}

/// Takes the levels at the start of a page of version 1.
fn take_levels<'p>(rest: &mut &'p [u8], encoding: Encoding, max_level: i16, count: u64) -> Option<&'p [u8]> {
    if max_level == 0 {
        return Some(&[]);
    }
    let length = if encoding == Encoding::RLE {
        let length = rest.split_off(..4)?;
        usize::try_from(u32::from_le_bytes(*length.first_chunk()?)).ok()?
    } else {
        (usize::try_from(count).ok()?.checked_mul(level_width(max_level))?).div_ceil(8)
    };
    rest.split_off(..length)
}

#[cfg(test)]
mod tests {
    use parquet::arrow::parquet_to_arrow_schema;
    use parquet::schema::parser::parse_message_type;
    use parquet::schema::types::SchemaDescriptor;

    use super::super::arrow_columns::arrow_columns;
    use super::*;

    /// Sizes by hand: the value in the file, where it is of another type than in Arrow, and in Arrow; two levels of two bytes
    /// in a list, and a bit for each of the groups and the value that may be missing.
    #[test]
    fn values_of_other_types_and_groups_around_values_count() {
        let nested = format!("{}optional int32 x;{}", "optional group g { ".repeat(90), " }".repeat(90));
        for (fields, wanted) in [
            ("required int64 x;".to_owned(), 8),
            ("required int96 x;".to_owned(), 12 + 8),
            ("repeated group l { optional int96 x; }".to_owned(), 12 + 8 + 4 + 1),
            ("required fixed_len_byte_array(32) x (DECIMAL(76, 2));".to_owned(), 32 + 32),
            ("required fixed_len_byte_array(1000) x;".to_owned(), 1_000),
            (nested.clone(), 4),
            (format!("repeated group l {{ {nested} }}"), 4 + 4 + 12),
        ] {
            let schema = parse_message_type(&format!("message m {{ {fields} }}")).unwrap();
            let schema = SchemaDescriptor::new(Arc::new(schema));
            let columns = arrow_columns(&parquet_to_arrow_schema(&schema, None).unwrap());
            let column = ColumnChunkMetaData::builder(schema.column(0)).build().unwrap();
            assert_eq!(value_bytes(&column, columns[0]), wanted, "{fields}");
        }
    }

    #[test]
    fn decimals_larger_than_those_of_arrow_are_refused() {
        for (field, wanted) in [
            ("fixed_len_byte_array(32) x (DECIMAL(76, 2))", None),
            ("fixed_len_byte_array(33) x", None),
            ("fixed_len_byte_array(33) x (DECIMAL(76, 2))", Some("`x` has decimals of 33 bytes, wanted at most 32")),
        ] {
            let schema = parse_message_type(&format!("message m {{ required {field}; }}")).unwrap();
            let schema = SchemaDescriptor::new(Arc::new(schema));
            let column = ColumnChunkMetaData::builder(schema.column(0)).build().unwrap();
            let got = check_width(&column).err().map(|error| error.to_string());
            assert_eq!(got.is_some(), wanted.is_some(), "{field}: {got:?}");
            assert!(got.unwrap_or_default().contains(wanted.unwrap_or_default()), "{field}");
        }
    }
}
