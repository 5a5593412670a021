//! Vocabulary of a model, word to id, from JSON.
//!
//! Three forms are read: a list of words in the order of their ids, an object from word to id, and an object that has
//! such an object as `word2idx`, as the vocabularies of SCAN and SGRAF.

use std::path::Path;

use serde_json::{Map, Value};

use crate::json;
use pairloom_base::error::{Error, Result, ValidationErrors};

/// Maximum size of a file: several times the vocabulary of a million words.
const MAX_BYTES: u64 = 32 << 20;

/// Maximum number of words, ids and other values.
const MAX_VALUES: usize = 4_000_000;

const HINT: &str = "expected a list of words or an object from word to number; `docs/tutorials/published-models.md` says \
                    how a vocabulary that is a pickle becomes one";

/// Reads the words in the file at `path`, in the order of their ids 0, 1, 2, ….
///
/// # Errors
/// The file is not JSON or has none of these forms, or words or ids are invalid, ids are duplicated or missing: the
/// error lists all of them.
pub fn read(path: &Path) -> Result<Vec<String>> {
    let value = json::read_values(path, MAX_BYTES, MAX_VALUES).map_err(|error| error.hint(HINT))?;
    let mut mistakes = ValidationErrors::in_file(path);
    let words = match value {
        Value::Array(words) => words_of_list(words, &mut mistakes),
        Value::Object(mut object) => match object.remove("word2idx") {
            Some(Value::Object(numbers)) => words_of_object(numbers, &mut mistakes),
            Some(number) => {
                object.insert("word2idx".to_owned(), number);
                words_of_object(object, &mut mistakes)
            }
            None => words_of_object(object, &mut mistakes),
        },
        _ => {
            let expected = "expected a list of words or an object from word to number";
            return Err(Error::data(format!("`{}` is no vocabulary: {expected}", path.display())));
        }
    };
    mistakes.into_result()?;
    Ok(words)
}

fn words_of_list(words: Vec<Value>, mistakes: &mut ValidationErrors) -> Vec<String> {
    let word = |(number, word)| match word {
        Value::String(word) => Some(word),
        other => {
            mistakes.add(format_args!("word {number}"), format_args!("{other}, expected a text"));
            None
        }
    };
    words.into_iter().enumerate().filter_map(word).collect()
}

fn words_of_object(numbers: Map<String, Value>, mistakes: &mut ValidationErrors) -> Vec<String> {
    let count = numbers.len();
    let mut words: Vec<Option<String>> = vec![None; count];
    for (word, number) in numbers {
        let place = number.as_u64().and_then(|number| usize::try_from(number).ok()).filter(|&number| number < count);
        match place.map(|number| &mut words[number]) {
            None => mistakes.add(
                format_args!("`{word}`"),
                format_args!("has number {number}, expected one of 0 to {}, since there are {count} words", count - 1),
            ),
            Some(Some(other)) => {
                mistakes.add(format_args!("`{word}`"), format_args!("has number {number}, as `{other}`"));
            }
            Some(free) => *free = Some(word),
        }
    }
    words.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_base::error::ErrorCategory;

    fn read_text(text: &str) -> Result<Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vocab.json");
        std::fs::write(&path, text).unwrap();
        read(&path)
    }

    #[test]
    fn the_three_forms_are_equivalent() {
        let scan = r#"{"idx2word": {"0": "a", "1": "é", "2": "word2idx"}, "word2idx": {"word2idx": 2, "a": 0, "é": 1}, "idx": 3}"#;
        for text in [r#"["a", "é", "word2idx"]"#, r#"{"é": 1, "word2idx": 2, "a": 0}"#, scan] {
            assert_eq!(read_text(text).unwrap(), ["a", "é", "word2idx"], "{text}");
        }
    }

    /// A file of holes takes no room on the disk.
    #[test]
    fn a_file_of_gigabytes_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("vocab.json");
        std::fs::File::create(&path).unwrap().set_len(4 << 30).unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(message.ends_with("has 4294967296 bytes, expected at most 33554432"), "{message}");
        // Each of these two bytes was a value of some 100 bytes in memory.
        let message = read_text(&format!("[{}[]]", "[],".repeat(2_000_000))).unwrap_err().to_string();
        assert!(message.ends_with("has more than 4000000 values"), "{message}");
    }

    #[test]
    fn all_mistakes_are_reported_together() {
        let error = read_text(r#"{"a": 0, "b": 0, "c": -1, "d": 4, "e": "4", "f": 1.5}"#).unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Data);
        let message = error.to_string();
        for part in
            ["4 mistakes", "`b`: has number 0, as `a`", "`c`: has number -1, expected one of 0 to 5", "\"4\"", "1.5"]
        {
            assert!(message.contains(part), "{part}: {message}");
        }
        let message = read_text(r#"["a", 3, null]"#).unwrap_err().to_string();
        assert!(message.contains("word 1: 3, expected a text") && message.contains("word 2: null"), "{message}");
        assert!(read_text("3").unwrap_err().to_string().contains("is no vocabulary"));
        assert!(read_text("\u{80}\u{4}").unwrap_err().hint_text().unwrap().contains("pickle"));
        assert_eq!(read_text("{}").unwrap(), Vec::<String>::new());
    }
}
