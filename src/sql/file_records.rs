//! Sizes of the records of a text file, which the reader of DataFusion does not limit: it keeps a record whole, and some
//! thousands of them at a time.

use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::error::{Error, Result};
use crate::io::bounded;
use crate::io::line_reader::MAX_LINE_BYTES;

/// Number of records whose sizes are added. The reader has at most two such groups in part.
const GROUP_RECORDS: usize = 8192;

/// Maximum size of a group of records in bytes.
const MAX_GROUP_BYTES: usize = 512 << 20;

/// Maximum size in bytes of a file that is one JSON array, which is read whole.
const MAX_ARRAY_BYTES: u64 = 256 << 20;

/// Maximum number of bytes up to an even number of quotes at the end of a line. The reader that infers the types of a CSV file
/// knows lines and quotes alone, and keeps so much.
const MAX_QUOTED_BYTES: usize = 1 << 30;

/// Form of the records of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordForm {
    /// Values between this delimiter, of which those that begin with a double quote may have line breaks.
    Delimited(u8),
    /// Lines of JSON.
    Lines,
    /// One JSON array.
    Array,
}

/// Checks that no record of a file, and no group of them, fills the memory. Reads the whole file, unless it is an array.
///
/// # Errors
/// The file cannot be read; a record has more than 16 MiB, 8,192 records have more than 512 MiB, a quote takes more than a
/// gibibyte, or an array has more than 256 MiB.
pub(super) fn check_records(path: &Path, form: RecordForm) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("read", path, &error);
    let file = bounded::open(path)?;
    let hint = match form {
        RecordForm::Delimited(_) => "a quote that is not closed takes all lines that follow",
        RecordForm::Lines | RecordForm::Array => "write a JSON object in each line, with the extension `.jsonl`",
    };
    let too_large = |text: String| Error::data(format!("`{}`: {text}", path.display())).hint(hint);
    if form == RecordForm::Array {
        let bytes = file.metadata().map_err(failed)?.len();
        return if bytes <= MAX_ARRAY_BYTES {
            Ok(())
        } else {
            Err(too_large(format!("the JSON array has {bytes} bytes, wanted at most {MAX_ARRAY_BYTES}")))
        };
    }
    let mut sizes = RecordSizes::new(form);
    let mut content = BufReader::with_capacity(1 << 20, file);
    loop {
        let bytes = content.fill_buf().map_err(failed)?;
        let length = bytes.len();
        if length == 0 {
            return Ok(());
        }
        sizes.add(bytes).map_err(too_large)?;
        content.consume(length);
    }
}

/// Place within a record, as the reader of CSV sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    ValueStart,
    /// In a value without quotes, or behind the end of its quotes. A quote is a letter there.
    Unquoted,
    Quoted,
    /// Behind a quote within quotes: their end, unless another one follows.
    QuoteInQuotes,
}

/// Sizes of the record and the group that are being read.
struct RecordSizes {
    form: RecordForm,
    place: Place,
    /// Number of records that ended.
    records: usize,
    record_bytes: usize,
    group_bytes: usize,
    /// True after an odd number of quotes.
    is_odd: bool,
    /// Bytes since the last line break after an even number of quotes.
    quoted_bytes: usize,
}

impl RecordSizes {
    fn new(form: RecordForm) -> Self {
        let place = Place::ValueStart;
        Self { form, place, records: 0, record_bytes: 0, group_bytes: 0, is_odd: false, quoted_bytes: 0 }
    }

    /// Adds bytes of the file. The error says what is too large.
    fn add(&mut self, bytes: &[u8]) -> std::result::Result<(), String> {
        match self.form {
            RecordForm::Delimited(delimiter) => bytes.iter().try_for_each(|&byte| self.add_byte(byte, delimiter)),
            RecordForm::Lines | RecordForm::Array => {
                bytes.split_inclusive(|&byte| byte == b'\n').try_for_each(|part| {
                    self.grow(part.len())?;
                    if part.ends_with(b"\n") {
                        self.end_record();
                    }
                    Ok(())
                })
            }
        }
    }

    /// Adds a byte of a delimited file.
    fn add_byte(&mut self, byte: u8, delimiter: u8) -> std::result::Result<(), String> {
        self.quoted_bytes += 1;
        self.is_odd ^= byte == b'"';
        if byte == b'\n' && !self.is_odd {
            self.quoted_bytes = 0;
        }
        if self.quoted_bytes > MAX_QUOTED_BYTES {
            return Err(format!("a quote before record {} takes more than {MAX_QUOTED_BYTES} bytes", self.records + 2));
        }
        self.grow(1)?;
        self.place = match (self.place, byte) {
            (Place::Quoted, b'"') => Place::QuoteInQuotes,
            (Place::Quoted, _) | (Place::QuoteInQuotes | Place::ValueStart, b'"') => Place::Quoted,
            (_, b'\n' | b'\r') => {
                // Of a carriage return and a newline, the second ends an empty record, which the reader skips.
                if self.record_bytes > 1 {
                    self.end_record();
                }
                self.record_bytes = 0;
                Place::ValueStart
            }
            (_, byte) if byte == delimiter => Place::ValueStart,
            _ => Place::Unquoted,
        };
        Ok(())
    }

    /// Adds bytes to the record and its group.
    fn grow(&mut self, bytes: usize) -> std::result::Result<(), String> {
        self.record_bytes += bytes;
        self.group_bytes += bytes;
        if self.record_bytes > MAX_LINE_BYTES {
            return Err(format!("record {} has more than {MAX_LINE_BYTES} bytes", self.records + 1));
        }
        if self.group_bytes > MAX_GROUP_BYTES {
            let (first, last) = (self.records / GROUP_RECORDS * GROUP_RECORDS + 1, self.records + 1);
            return Err(format!("records {first} to {last} have more than {MAX_GROUP_BYTES} bytes"));
        }
        Ok(())
    }

    fn end_record(&mut self) {
        self.record_bytes = 0;
        self.records += 1;
        if self.records.is_multiple_of(GROUP_RECORDS) {
            self.group_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use csv_core::ReadRecordResult;

    use super::*;

    fn check(content: &[u8], form: RecordForm) -> std::result::Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, content).unwrap();
        check_records(&path, form).map_err(|error| error.to_string().split_once("`: ").unwrap().1.to_owned())
    }

    const CSV: RecordForm = RecordForm::Delimited(b',');

    /// Numbers of records that the check and the reader of CSV count.
    fn counted(text: &str) -> (usize, usize) {
        let mut sizes = RecordSizes::new(CSV);
        sizes.add(text.as_bytes()).unwrap();
        let (mut reader, mut rest, mut wanted) = (csv_core::Reader::new(), text.as_bytes(), 0);
        let (mut output, mut ends) = ([0; 256], [0; 32]);
        loop {
            let (result, read, ..) = reader.read_record(rest, &mut output, &mut ends);
            rest = &rest[read..];
            match result {
                ReadRecordResult::Record => wanted += 1,
                ReadRecordResult::End => return (sizes.records + usize::from(sizes.record_bytes > 0), wanted),
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => panic!("the texts are short"),
            }
        }
    }

    #[test]
    fn records_are_those_of_the_reader() {
        let texts = [
            "a,b\n1,2\n",
            "a\rb\rc",
            "a\r\nb\r\n\r\n\nc\n",
            "a,5\" disk\n1,2\n3,4\" disk\n",
            "\"a\nb\",\"c\"\"\n\"\nd\n",
        ];
        let more =
            ["\"a\"b\nc\"d\n", "a,\"\"\nb\n", "a,\"b\r\nc\n", ",\n,\n", "\"a\" \"\nb\n", "a\"\"\n\"b\"\"\"\n\"\n"];
        for text in texts.into_iter().chain(more) {
            let (counted, wanted) = counted(text);
            assert_eq!(counted, wanted, "{text:?}");
        }
    }

    #[test]
    fn records_of_more_than_16_mib_are_refused() {
        let long = vec![b'x'; 16 << 20];
        let lines = |texts: &[&[u8]]| texts.join(&b'\n');
        assert_eq!(check(&lines(&[b"a", &long[1..], b"b"]), RecordForm::Lines), Ok(()));
        let error = Err("record 2 has more than 16777216 bytes".to_owned());
        assert_eq!(check(&lines(&[b"a", &long, b"b"]), RecordForm::Lines), error);
        assert_eq!(check(&lines(&[b"a", &long, b"b"]), CSV), error);
        // A quote that never ends takes all lines that follow.
        let short = vec![b'y'; 1 << 20];
        let many = [&[&b"a,b\n1,\"open"[..]], &[&short[..]; 17][..]].concat();
        assert_eq!(check(&lines(&many), CSV), error);
        assert_eq!(check(&lines(&many), RecordForm::Lines), Ok(()));
        let quoted = [&[&b"a,b\n1,\"closed\"\"\""[..]], &[&short[..]; 17][..]].concat();
        assert_eq!(check(&lines(&quoted), CSV), Ok(()));
    }

    #[test]
    fn groups_of_records_and_arrays_are_limited() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        // A sparse file: zeros that take no place on the disk.
        std::fs::File::create(&path).unwrap().set_len((256 << 20) + 1).unwrap();
        let error = check_records(&path, RecordForm::Array).unwrap_err();
        assert!(error.to_string().ends_with("the JSON array has 268435457 bytes, wanted at most 268435456"), "{error}");
        assert!(error.hint_text().unwrap().contains(".jsonl"));

        let mut sizes = RecordSizes::new(RecordForm::Lines);
        let line = [vec![b'x'; (1 << 20) - 1], vec![b'\n']].concat();
        assert!((0..512).all(|_| sizes.add(&line).is_ok()));
        assert_eq!(sizes.add(&line), Err("records 1 to 513 have more than 536870912 bytes".to_owned()));
        sizes = RecordSizes { records: 8191, group_bytes: (512 << 20) - 1, ..RecordSizes::new(RecordForm::Lines) };
        assert_eq!(sizes.add(b"\n"), Ok(()));
        assert_eq!((sizes.records, sizes.group_bytes), (8192, 0));
    }
}
