//! Records of a CSV or TSV file, read line by line.
//!
//! The fields are those of the parser of the crate `csv`, and so, for files without mistakes, those of Python's `csv`.
//! The parser gets one line at a time. If a record is not complete at the end of a line, a quote is open there.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::record::DelimitedRecord;
use crate::line_reader::{LineReader, MAX_LINE_BYTES};
use pairloom_base::error::{Error, Result};

/// Maximum number of fields of a record.
const MAX_FIELDS: usize = 1 << 18;

/// Reader of records.
#[derive(Debug)]
pub(super) struct RecordReader {
    lines: LineReader,
    parser: Reader,
    record: DelimitedRecord,
}

impl RecordReader {
    /// Reads records of `lines`. Without `quotes`, a quote is text.
    pub(super) fn new(lines: LineReader, separator: u8, quotes: bool) -> Self {
        let parser = ReaderBuilder::new().delimiter(separator).quoting(quotes).build();
        Self { lines, parser, record: DelimitedRecord::default() }
    }

    /// Reads the next record; `None` at the end. Empty lines between records are skipped. Calls `check` before each line.
    ///
    /// # Errors
    /// As [`LineReader::next_line`], a record has too many fields, or an error of `check`.
    pub(super) fn next_record(&mut self, check: impl Fn() -> Result<()>) -> Result<Option<&DelimitedRecord>> {
        let Self { lines, parser, record } = self;
        record.clear();
        let mut text_length = 0;
        loop {
            check()?;
            let Some((number, line)) = lines.next_line()? else {
                if record.raw.is_empty() {
                    return Ok(None);
                }
                // The last line has no line break.
                record.is_complete = parse(parser, b"\n", record, &mut text_length);
                return Ok(Some(record));
            };
            if record.raw.is_empty() {
                if matches!(line, b"\n" | b"\r\n" | b"\r") {
                    continue;
                }
                record.first_line = number;
            }
            record.line_starts.push(record.raw.len());
            record.raw.extend_from_slice(line);
            let is_complete = parse(parser, line, record, &mut text_length);
            if record.count > MAX_FIELDS {
                let message =
                    format!("`{}` line {number}: it has more than {MAX_FIELDS} fields", lines.path().display());
                return Err(Error::data(message).hint("is the separator right, and is this a table?"));
            }
            if is_complete {
                return Ok(Some(record));
            }
            if record.open.is_none_or(|(field, _)| field != record.count) {
                record.open = Some((record.count, number));
            }
            if record.raw.len() > MAX_LINE_BYTES {
                record.is_complete = false;
                record.is_too_long = true;
                return Ok(Some(record));
            }
        }
    }
}

/// Adds the fields of `line` to `record`. Returns true if the record is complete.
fn parse(parser: &mut Reader, line: &[u8], record: &mut DelimitedRecord, text_length: &mut usize) -> bool {
    let mut input = line;
    while !input.is_empty() && record.count <= MAX_FIELDS {
        let (result, read, text, ends) =
            parser.read_record(input, &mut record.text[*text_length..], &mut record.ends[record.count..]);
        input = &input[read..];
        *text_length += text;
        record.count += ends;
        match result {
            ReadRecordResult::InputEmpty => {}
            ReadRecordResult::OutputFull => record.text.resize((record.text.len() * 2).max(1024), 0),
            ReadRecordResult::OutputEndsFull => record.ends.resize((record.ends.len() * 2).max(16), 0),
            // Of a line break of two characters, the second is skipped.
            ReadRecordResult::Record | ReadRecordResult::End => return true,
        }
    }
    false
}
