//! Columns of a delimited file with the types of all its values.

use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use arrow::csv::ReaderBuilder;
use arrow::csv::reader::Format;
use arrow::datatypes::{DataType, Schema, SchemaRef};

use pairloom_base::error::{Error, Result};
use pairloom_storage::bounded;
use pairloom_storage::text_start::UTF8_MARK;

/// Bytes of the file that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;

/// Columns of the file `path`, whose values stand between delimiters. Reads the whole file, one record at a time, and
/// once more for each column of dates or times.
///
/// DataFusion divides a file into blocks first, and not always at the end of a record if a value has line breaks.
///
/// # Errors
/// The file cannot be read, is not UTF-8, or its records have different numbers of values.
pub(super) fn csv_schema(path: &Path, delimiter: u8) -> Result<SchemaRef> {
    let file = bounded::open(path)?;
    let format = Format::default().with_header(true).with_delimiter(delimiter);
    let (schema, _) = format.infer_schema(BufReader::with_capacity(BUFFER_BYTES, file), None).map_err(|error| {
        Error::data(format!("cannot read `{}`: {}", path.display(), error.to_string().replace('\n', " ")))
    })?;
    let mut fields = Vec::new();
    for (place, field) in schema.fields.iter().enumerate() {
        let is_moment = field.data_type().is_temporal();
        let is_text = is_moment && !all_are_read(path, &format, &schema, place)?;
        fields.push(if is_text {
            field.as_ref().clone().with_data_type(DataType::Utf8)
        } else {
            field.as_ref().clone()
        });
    }
    Ok(without_mark(&Schema::new(fields)))
}

/// True if all values of a column are of its type. The types are those of patterns, and `1234-56-78` has that of a date.
fn all_are_read(path: &Path, format: &Format, schema: &Schema, place: usize) -> Result<bool> {
    let content = BufReader::with_capacity(BUFFER_BYTES, bounded::open(path)?);
    let reader = ReaderBuilder::new(Arc::new(schema.clone())).with_format(format.clone());
    let mut reader = reader.with_projection(vec![place]).build_buffered(content)?;
    Ok(reader.all(|batch| batch.is_ok()))
}

/// Schema whose first name does not begin with the byte order mark of the file.
fn without_mark(schema: &Schema) -> SchemaRef {
    let mark = std::str::from_utf8(UTF8_MARK).unwrap_or_default();
    let fields = schema.fields.iter().map(|field| {
        let name = field.name().trim_start_matches(mark).to_owned();
        field.as_ref().clone().with_name(name)
    });
    Schema::new(fields.collect::<Vec<_>>()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values with line breaks in a file larger than the blocks in which object stores read, 8 KiB.
    #[test]
    fn values_with_line_breaks_do_not_change_the_types() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        for (delimiter, mark) in [(b',', ""), (b'\t', "\u{feff}")] {
            let d = char::from(delimiter);
            let rows = (0..3_000).map(|i| format!("{i}{d}\"first line\nsecond{d} \"\"line\"\"\"{d}0.5\n"));
            std::fs::write(&path, format!("{mark}i{d}s{d}f\n{}", rows.collect::<String>())).unwrap();
            let schema = csv_schema(&path, delimiter).unwrap();
            let columns: Vec<_> =
                schema.fields().iter().map(|field| (field.name().as_str(), field.data_type())).collect();
            assert_eq!(columns, [("i", &DataType::Int64), ("s", &DataType::Utf8), ("f", &DataType::Float64)]);
        }
    }
}
