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

/// Form of the records of a text file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordForm {
    /// Lines; in double quotes, a newline is part of a value.
    Delimited,
    /// Lines.
    Lines,
    /// One JSON array.
    Array,
}

/// Checks that no record of a file, and no group of them, fills the memory. Reads the whole file, unless it is an array.
///
/// # Errors
/// The file cannot be read; a record has more than 16 MiB, 8,192 records have more than 512 MiB, or an array has more than
/// 256 MiB.
pub(super) fn check_records(path: &Path, form: RecordForm) -> Result<()> {
    let failed = |error: std::io::Error| Error::io("read", path, &error);
    let file = bounded::open(path)?;
    let too_large = |text: String| Error::data(format!("`{}`: {text}", path.display()));
    if form == RecordForm::Array {
        let bytes = file.metadata().map_err(failed)?.len();
        return if bytes <= MAX_ARRAY_BYTES {
            Ok(())
        } else {
            let message = format!("the JSON array has {bytes} bytes, wanted at most {MAX_ARRAY_BYTES}");
            Err(too_large(message).hint("write a JSON object in each line, with the extension `.jsonl`"))
        };
    }
    let mut sizes = RecordSizes { form, records: 0, record_bytes: 0, group_bytes: 0, is_quoted: false };
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

/// Sizes of the record and the group that are being read.
struct RecordSizes {
    form: RecordForm,
    /// Number of records that ended.
    records: usize,
    record_bytes: usize,
    group_bytes: usize,
    is_quoted: bool,
}

impl RecordSizes {
    /// Adds bytes of the file. The error says what is too large.
    fn add(&mut self, bytes: &[u8]) -> std::result::Result<(), String> {
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            self.record_bytes += part.len();
            self.group_bytes += part.len();
            if self.record_bytes > MAX_LINE_BYTES {
                return Err(format!("record {} has more than {MAX_LINE_BYTES} bytes", self.records + 1));
            }
            if self.group_bytes > MAX_GROUP_BYTES {
                let (first, last) = (self.records / GROUP_RECORDS * GROUP_RECORDS + 1, self.records + 1);
                return Err(format!("records {first} to {last} have more than {MAX_GROUP_BYTES} bytes"));
            }
            if self.form == RecordForm::Delimited {
                self.is_quoted ^= part.iter().fold(false, |is_odd, &byte| is_odd ^ (byte == b'"'));
            }
            if part.ends_with(b"\n") && !self.is_quoted {
                self.record_bytes = 0;
                self.records += 1;
                if self.records.is_multiple_of(GROUP_RECORDS) {
                    self.group_bytes = 0;
                }
            }
        }
        Ok(())
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

    #[test]
    fn records_of_more_than_16_mib_are_refused() {
        let long = vec![b'x'; 16 << 20];
        let lines = |texts: &[&[u8]]| texts.join(&b'\n');
        assert_eq!(check(&lines(&[b"a", &long[1..], b"b"]), RecordForm::Lines), Ok(()));
        let error = Err("record 2 has more than 16777216 bytes".to_owned());
        assert_eq!(check(&lines(&[b"a", &long, b"b"]), RecordForm::Lines), error);
        assert_eq!(check(&lines(&[b"a", &long, b"b"]), RecordForm::Delimited), error);
        // A quote that never ends takes all lines that follow.
        let short = vec![b'y'; 1 << 20];
        let many = [&[&b"a,b\n1,\"open"[..]], &[&short[..]; 17][..]].concat();
        assert_eq!(check(&lines(&many), RecordForm::Delimited), error);
        assert_eq!(check(&lines(&many), RecordForm::Lines), Ok(()));
        let quoted = [&[&b"a,b\n1,\"closed\"\"\""[..]], &[&short[..]; 17][..]].concat();
        assert_eq!(check(&lines(&quoted), RecordForm::Delimited), Ok(()));
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

        let mut sizes =
            RecordSizes { form: RecordForm::Lines, records: 0, record_bytes: 0, group_bytes: 0, is_quoted: false };
        let line = [vec![b'x'; (1 << 20) - 1], vec![b'\n']].concat();
        assert!((0..512).all(|_| sizes.add(&line).is_ok()));
        assert_eq!(sizes.add(&line), Err("records 1 to 513 have more than 536870912 bytes".to_owned()));
        sizes = RecordSizes { records: 8191, record_bytes: 0, group_bytes: 512 << 20, ..sizes };
        sizes.group_bytes -= 1;
        assert_eq!(sizes.add(b"\n"), Ok(()));
        assert_eq!((sizes.records, sizes.group_bytes), (8192, 0));
    }
}
