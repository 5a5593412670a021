//! Sizes of the records of a text file, which the reader of DataFusion does not limit: it keeps a record whole, and some
//! thousands of them at a time.

use std::io::{BufRead, BufReader};
use std::path::Path;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::json_names::{JsonMistake, check_names};
use super::record_limits::{GROUP_RECORDS, MAX_COLUMNS};
use pairloom_base::error::{Error, Result};
use pairloom_formats::line_reader::MAX_LINE_BYTES;
use pairloom_storage::bounded;

/// Maximum size of a group of records in bytes.
const MAX_GROUP_BYTES: usize = 512 << 20;

/// Maximum size in bytes of a file that is one JSON array, which is read whole.
const MAX_ARRAY_BYTES: u64 = 256 << 20;

/// Bytes of a file that are read at a time.
const BUFFER_BYTES: usize = 1 << 20;

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

/// Checks that no record of a file, and no group of them, fills the memory. Reads the whole file, JSON twice.
///
/// # Errors
/// The file cannot be read; a record has more than 16 MiB, 8,192 records have more than 512 MiB, an array has more than
/// 256 MiB, is cut or has something behind it, or the file has more than 5,000 columns or names.
pub(super) fn check_records(path: &Path, form: RecordForm) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("read", path, &error);
    let file = bounded::open(path)?;
    let hint = match form {
        RecordForm::Delimited(_) => {
            "a quote that is not closed takes all lines that follow; many values of a kind fit into a list"
        }
        RecordForm::Lines | RecordForm::Array => "write a JSON object in each line, with the extension `.jsonl`",
    };
    let too_large = |text: String| Error::data(format!("`{}`: {text}", path.display())).hint(hint);
    if form == RecordForm::Array {
        let bytes = file.metadata().map_err(failed)?.len();
        if bytes > MAX_ARRAY_BYTES {
            return Err(too_large(format!("the JSON array has {bytes} bytes, wanted at most {MAX_ARRAY_BYTES}")));
        }
    } else {
        let mut sizes = RecordSizes::new(form);
        let mut content = BufReader::with_capacity(BUFFER_BYTES, file);
        loop {
            let bytes = content.fill_buf().map_err(failed)?;
            let length = bytes.len();
            if length == 0 {
                break;
            }
            sizes.add(bytes).map_err(too_large)?;
            content.consume(length);
        }
    }
    if matches!(form, RecordForm::Lines | RecordForm::Array) {
        let content = BufReader::with_capacity(BUFFER_BYTES, bounded::open(path)?);
        match check_names(content, form == RecordForm::Array).map_err(failed)? {
            Ok(()) => {}
            Err(JsonMistake::TooLarge(got)) => {
                return Err(Error::data(format!("`{}` has {got}", path.display()))
                    .hint("write what has a name for each record as a list of pairs"));
            }
            Err(JsonMistake::NotOneArray { error, is_cut }) => {
                let hint = if is_cut {
                    "the file is cut or has more after its end: copy it or create it again"
                } else {
                    "correct this place: other programs may write what JSON has not, such as NaN"
                };
                return Err(Error::data(format!("`{}` is not one JSON array: {error}", path.display())).hint(hint));
            }
        }
    }
    Ok(())
}

/// Sizes of the record and the group that are being read.
struct RecordSizes {
    /// Reader of a delimited file; `None` for lines.
    reader: Option<Reader>,
    /// Number of records that ended.
    records: usize,
    record_bytes: usize,
    /// Values of the record that have ended.
    columns: usize,
    group_bytes: usize,
}

impl RecordSizes {
    fn new(form: RecordForm) -> Self {
        let reader = match form {
            RecordForm::Delimited(delimiter) => Some(ReaderBuilder::new().delimiter(delimiter).build()),
            RecordForm::Lines | RecordForm::Array => None,
        };
        Self { reader, records: 0, record_bytes: 0, columns: 0, group_bytes: 0 }
    }

    /// Adds bytes of the file. The error says what is too large.
    fn add(&mut self, bytes: &[u8]) -> std::result::Result<(), String> {
        if self.reader.is_some() {
            return self.add_delimited(bytes);
        }
        bytes.split_inclusive(|&byte| byte == b'\n').try_for_each(|line| {
            self.grow(line.len())?;
            if line.ends_with(b"\n") {
                self.end_record();
            }
            Ok(())
        })
    }

    /// Adds bytes of a delimited file to its records. Their values are not kept.
    fn add_delimited(&mut self, mut bytes: &[u8]) -> std::result::Result<(), String> {
        let (mut values, mut ends) = ([0; 4096], [0; 64]);
        while !bytes.is_empty() {
            let Some(reader) = &mut self.reader else { return Ok(()) };
            let (result, read, _, columns) = reader.read_record(bytes, &mut values, &mut ends);
            self.columns += columns;
            if self.columns > MAX_COLUMNS {
                return Err(format!("record {} has more than {MAX_COLUMNS} values", self.records + 1));
            }
            self.grow(read)?;
            if result == ReadRecordResult::Record {
                self.end_record();
            }
            bytes = &bytes[read..];
        }
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
        self.columns = 0;
        self.records += 1;
        if self.records.is_multiple_of(GROUP_RECORDS) {
            self.group_bytes = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(content: &[u8], form: RecordForm) -> std::result::Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, content).unwrap();
        check_records(&path, form).map_err(|error| error.to_string().split_once("`: ").unwrap().1.to_owned())
    }

    const CSV: RecordForm = RecordForm::Delimited(b',');

    /// Numbers of records by hand, however the bytes of the file are divided.
    #[test]
    fn records_end_outside_of_quotes_at_any_line_break() {
        for (text, wanted) in [
            ("a,b\n1,2\n", 2),
            ("a\rb\rc\r", 3),
            ("a\r\nb\r\n\r\n\nc\n", 3),
            ("a,5\" disk\n1,2\n3,4\" disk\n", 3),
            ("\"a\nb\",\"c\"\"\n\"\nd\n", 2),
            ("a,\"b\r\nc\n", 0),
        ] {
            for piece in 1..=text.len() {
                let mut sizes = RecordSizes::new(CSV);
                text.as_bytes().chunks(piece).for_each(|bytes| sizes.add(bytes).unwrap());
                assert_eq!(sizes.records, wanted, "{text:?} in pieces of {piece}");
            }
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
    fn records_of_more_than_5000_values_are_refused() {
        let line = |columns: usize| vec![&b"1"[..]; columns].join(&b',');
        for form in [line(5000), [&line(5000)[..], b"\n", &line(5000)].concat()] {
            assert_eq!(check(&form, CSV), Ok(()));
        }
        let error = Err("record 2 has more than 5000 values".to_owned());
        assert_eq!(check(&[&line(2)[..], b"\n", &line(5001), b"\n"].concat(), CSV), error);
        let names: Vec<_> = (0..6000).map(|name| format!("{{\"n{name}\":1}}")).collect();
        for (text, form) in
            [(names.join("\n"), RecordForm::Lines), (format!("[{}]", names.join(",")), RecordForm::Array)]
        {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a");
            std::fs::write(&path, text).unwrap();
            let error = check_records(&path, form).unwrap_err();
            assert!(error.to_string().ends_with("has more than 5000 different names"), "{error}");
        }
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
