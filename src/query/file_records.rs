//! Checks of the records of a text file before DataFusion reads it, which limits neither their sizes nor their names.
//!
//! It keeps a record whole, and some thousands of them at a time. Each name in the records of a JSON file is a column or a
//! field to it, it compares them with one another, and each object of a list has all names of the list.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use pairloom_base::error::{Error, Result};
use pairloom_formats::text_lines::MAX_LINE_BYTES;
use pairloom_storage::bounded;
use pairloom_storage::bounded::UTF8_MARK;

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
    let failed = |error: io::Error| Error::io("read", path, &error);
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
            return Err(too_large(format!("the JSON array has {bytes} bytes, expected at most {MAX_ARRAY_BYTES}")));
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

/// Maximum number of values of the objects in the lists of a group of records. Each object has the names of all.
const MAX_LISTED_VALUES: usize = 50_000_000;

/// Checks the names in a text of JSON: it has at most [`MAX_COLUMNS`] different ones, and the objects in its lists are not
/// expanded to too many values. Its records are the elements of one array if `is_array`, otherwise its values. The check
/// of values ends where the text is no JSON. An array must be whole and the end of the text, because the reader ends at the
/// last whole record without an error.
///
/// # Errors
/// The text cannot be read. The inner error says what is wrong.
pub(super) fn check_names(mut content: impl BufRead, is_array: bool) -> io::Result<Result<(), JsonMistake>> {
    if content.fill_buf()?.starts_with(UTF8_MARK) {
        content.consume(UTF8_MARK.len());
    }
    let mut found = FoundNames::default();
    let mut values = serde_json::Deserializer::from_reader(content);
    let place = Place { is_records: is_array, ..Place::default() };
    let mut mistake = None;
    if is_array {
        let not_one_array =
            |error: serde_json::Error, is_cut| JsonMistake::NotOneArray { error: error.to_string(), is_cut };
        mistake = match (Names { found: &mut found, place }).deserialize(&mut values) {
            Ok(()) => values.end().err().map(|error| not_one_array(error, true)),
            Err(error) => {
                let is_cut = error.is_eof();
                Some(not_one_array(error, is_cut))
            }
        };
    } else {
        while (Names { found: &mut found, place }).deserialize(&mut values).is_ok() {
            found.end_record();
        }
    }
    Ok(found.excess().map(JsonMistake::TooLarge).or(mistake).map_or(Ok(()), Err))
}

/// Mistake of a text of JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum JsonMistake {
    /// More names or values than fit.
    TooLarge(String),
    /// Something other than one array.
    NotOneArray {
        /// Message of the parser.
        error: String,
        /// True if the array ends too early, or something follows it.
        is_cut: bool,
    },
}

/// Names that were found.
#[derive(Default)]
struct FoundNames {
    /// Numbers of the names, by the number of the name around them and their text.
    names: HashMap<(usize, String), usize>,
    /// Number of names in lists.
    listed_names: usize,
    records: usize,
    /// Objects in the lists of the current group of records, and of the largest one.
    objects: usize,
    most_objects: usize,
}

impl FoundNames {
    fn end_record(&mut self) {
        self.records += 1;
        if self.records.is_multiple_of(GROUP_RECORDS) {
            self.objects = 0;
        }
    }

    /// Text about what is too large.
    fn excess(&self) -> Option<String> {
        if self.names.len() > MAX_COLUMNS {
            return Some(format!("more than {MAX_COLUMNS} different names"));
        }
        let (objects, names) = (self.most_objects, self.listed_names);
        (objects.saturating_mul(names) > MAX_LISTED_VALUES).then(|| {
            format!("{objects} objects in the lists of {GROUP_RECORDS} records, and {names} different names in them")
        })
    }
}

/// Place of a value in a record.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Number of the name of the value; 0 for a record.
    name: usize,
    is_listed: bool,
    /// True for the array of all records.
    is_records: bool,
}

/// Collects the names in a value.
struct Names<'n> {
    found: &'n mut FoundNames,
    place: Place,
}

impl<'de> DeserializeSeed<'de> for Names<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Names<'_> {
    type Value = ();

    fn expecting(&self, text: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(text, "JSON with at most {MAX_COLUMNS} names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { found, place } = self;
        if place.is_listed {
            found.objects += 1;
            found.most_objects = found.most_objects.max(found.objects);
        }
        while let Some(text) = map.next_key::<String>()? {
            let next = found.names.len() + 1;
            let name = *found.names.entry((place.name, text)).or_insert(next);
            if name == next {
                found.listed_names += usize::from(place.is_listed);
            }
            if found.excess().is_some() {
                return Err(A::Error::custom("too large"));
            }
            map.next_value_seed(Names { found: &mut *found, place: Place { name, ..place } })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { found, place } = self;
        let of_items = Place { name: place.name, is_listed: !place.is_records, is_records: false };
        while items.next_element_seed(Names { found: &mut *found, place: of_items })?.is_some() {
            if place.is_records {
                found.end_record();
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

/// Number of records whose sizes are added. The reader has at most two such groups in part.
pub(super) const GROUP_RECORDS: usize = 8192;

/// Maximum number of columns of a delimited file, and of names in a JSON file. DataFusion has a buffer for each.
pub(super) const MAX_COLUMNS: usize = 5000;

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
        for (text, expected) in [
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
                assert_eq!(sizes.records, expected, "{text:?} in pieces of {piece}");
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
        assert!(
            error.to_string().ends_with("the JSON array has 268435457 bytes, expected at most 268435456"),
            "{error}"
        );
        assert!(error.hint_text().unwrap().contains(".jsonl"));

        let mut sizes = RecordSizes::new(RecordForm::Lines);
        let line = [vec![b'x'; (1 << 20) - 1], vec![b'\n']].concat();
        assert!((0..512).all(|_| sizes.add(&line).is_ok()));
        assert_eq!(sizes.add(&line), Err("records 1 to 513 have more than 536870912 bytes".to_owned()));
        sizes = RecordSizes { records: 8191, group_bytes: (512 << 20) - 1, ..RecordSizes::new(RecordForm::Lines) };
        assert_eq!(sizes.add(b"\n"), Ok(()));
        assert_eq!((sizes.records, sizes.group_bytes), (8192, 0));
    }

    #[test]
    fn different_names_are_counted_in_objects_and_lists() {
        let object = |names: usize, value: &str| {
            let names: Vec<_> = (0..names).map(|name| format!("\"n{name}\":{value}")).collect();
            format!("{{{}}}", names.join(","))
        };
        for (text, expected) in [
            (object(5000, "1"), false),
            (object(5001, "null"), true),
            // 8 objects of 624 names and their own; then one name more.
            (object(8, &object(624, "[true,\"a\",-1.5]")), false),
            (object(8, &object(625, "[]")), true),
            // The objects of a list have the same names, and so have the lines of a file.
            (format!("[{}]", vec![object(5000, "1"); 10].join(",")), false),
            (vec![object(5000, "1"); 3].join("\n"), false),
            (format!("{}\n{}", object(5000, "1"), r#"{"other":1}"#), true),
            // The text ends at the first line that is no JSON.
            (format!("{{]\n{}", object(6000, "1")), false),
            (String::new(), false),
        ] {
            for text in [text.clone(), format!("\u{feff}{text}")] {
                let checked = check_names(text.as_bytes(), false).unwrap();
                let message = || JsonMistake::TooLarge("more than 5000 different names".to_owned());
                assert_eq!(checked, if expected { Err(message()) } else { Ok(()) }, "{}", &text[..text.len().min(40)]);
            }
        }
    }

    /// An object of 1,000 names, and empty ones in lists, which have these names as well: 50 million values with 50,000.
    #[test]
    fn objects_in_lists_have_all_their_names() {
        let names: Vec<_> = (0..1_000).map(|name| format!("\"n{name}\":1")).collect();
        let full = format!("{{{}}}", names.join(","));
        let line = |objects: usize| format!("{{\"l\":[{full}{}]}}", ",{}".repeat(objects - 1));
        let check = |text: &str, is_array| check_names(text.as_bytes(), is_array).unwrap();
        let error = |objects: usize| {
            let names = "and 1000 different names in them";
            Err(JsonMistake::TooLarge(format!("{objects} objects in the lists of 8192 records, {names}")))
        };
        assert_eq!(check(&line(50_000), false), Ok(()));
        assert_eq!(check(&line(50_001), false), error(50_001));
        // Those of a group of records are together in memory.
        let lines = |rest: usize| [line(49_000), "{}\n".repeat(rest), line(2_000)].join("\n");
        assert_eq!(check(&lines(8_190), false), error(51_000));
        assert_eq!(check(&lines(8_191), false), Ok(()));
        // The records of an array are no list.
        let records = |count: usize| format!("[{full}{}]", ",{}".repeat(count));
        assert_eq!(check(&records(60_000), true), Ok(()));
        assert_eq!(check(&format!("[{}]", line(50_001)), true), error(50_001));
    }

    #[test]
    fn an_array_is_whole_and_nothing_follows_it() {
        let check = |text: &str| check_names(text.as_bytes(), true).unwrap();
        for text in ["[]", "[{\"z\":1},{\"z\":2}]", " [ {\"z\":[1]} ]\n\n"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        let one = "[{\"z\":1}";
        for rest in ["", ",", ",{\"z\":2}", "]x", ",]", "] [{\"z\":3}]", "]\n[{\"z\":4}]", ",{\"z\":}]"] {
            let checked = check(&format!("{one}{rest}"));
            assert!(
                matches!(&checked, Err(JsonMistake::NotOneArray { error, .. }) if error.contains("line")),
                "{rest}: {checked:?}"
            );
        }
    }
}
