//! Names in the records of a JSON file. To DataFusion each is a column or a field, it compares them with one another, and
//! each object of a list has all names of the list.

use std::collections::HashMap;
use std::io::{self, BufRead};

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::record_limits::{GROUP_RECORDS, MAX_COLUMNS};
use pairloom_storage::text_start::UTF8_MARK;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_names_are_counted_in_objects_and_lists() {
        let object = |names: usize, value: &str| {
            let names: Vec<_> = (0..names).map(|name| format!("\"n{name}\":{value}")).collect();
            format!("{{{}}}", names.join(","))
        };
        for (text, wanted) in [
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
                assert_eq!(checked, if wanted { Err(message()) } else { Ok(()) }, "{}", &text[..text.len().min(40)]);
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
