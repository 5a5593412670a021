//! Names in the records of a JSON file. To DataFusion each is a column or a field, and it compares them with one another.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::BufRead;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use super::file_records::MAX_COLUMNS;

/// Returns true if the values of a text have more different names than a table may have columns. Objects in lists have
/// the same names as one another, and those in other objects have their own. A text that is no JSON ends where it is
/// none.
pub(super) fn has_too_many_names(content: impl BufRead) -> bool {
    let mut names = HashSet::new();
    let mut values = serde_json::Deserializer::from_reader(content);
    while (Names { found: &mut names, parent: 0 }).deserialize(&mut values).is_ok() {}
    names.len() > MAX_COLUMNS
}

/// Collects the names in a value.
struct Names<'n> {
    /// Hashes of the names, with those around them.
    found: &'n mut HashSet<u64>,
    /// Hash of the name of this value.
    parent: u64,
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
        while let Some(name) = map.next_key::<String>()? {
            let mut hasher = DefaultHasher::new();
            (self.parent, name).hash(&mut hasher);
            let parent = hasher.finish();
            self.found.insert(parent);
            if self.found.len() > MAX_COLUMNS {
                return Err(A::Error::custom("too many names"));
            }
            map.next_value_seed(Names { found: self.found, parent })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element_seed(Names { found: self.found, parent: self.parent })?.is_some() {}
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
            (object(4096, "1"), false),
            (object(4097, "null"), true),
            // 8 objects of 511 names and their own; then one name more.
            (object(8, &object(511, "[true,\"a\",-1.5]")), false),
            (object(8, &object(512, "[]")), true),
            // The objects of a list have the same names, and so have the lines of a file.
            (format!("[{}]", vec![object(4096, "1"); 10].join(",")), false),
            (vec![object(4096, "1"); 3].join("\n"), false),
            (format!("{}\n{}", object(4096, "1"), r#"{"other":1}"#), true),
            // The text ends at the first line that is no JSON.
            (format!("{{]\n{}", object(5000, "1")), false),
            (String::new(), false),
        ] {
            assert_eq!(has_too_many_names(text.as_bytes()), wanted, "{}", &text[..text.len().min(40)]);
        }
    }
}
