//! `cargo xtask wordnet`: generates the tables in `data/wordnet/` from the database of WordNet 3.0.
//!
//! The tables have the data that the scene-graph parser uses: the parts of speech of every word, their frequencies in
//! WordNet's tagged texts, and the synsets that a word shares with another word. Captions are compared word by word, so
//! phrases are omitted, except those that start with a gerund. A word always equals itself, so synsets of one word are
//! omitted.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{TaskError, TaskResult};

/// File suffix of each part of speech, and its letter in the tables.
const PARTS: [(&str, char); 4] = [("noun", 'n'), ("verb", 'v'), ("adj", 'a'), ("adv", 'r')];

/// Synset: its part of speech and its offset in the database.
type Synset = (char, String);

/// Writes `words.txt` and `exceptions.txt` from the database files in `folder`, such as `index.noun`.
pub(crate) fn wordnet(folder: &Path) -> TaskResult {
    let counts = tag_frequencies(&read(folder, "cntlist.rev")?);
    let mut words: BTreeMap<String, BTreeMap<char, Vec<String>>> = BTreeMap::new();
    let mut exceptions = String::new();
    for (ending, letter) in PARTS {
        for (word, synsets) in read(folder, &format!("index.{ending}"))?.lines().filter_map(parse_index_line) {
            if !word.contains('_') || letter == 'n' && is_gerund_compound(word) {
                words.entry(word.to_owned()).or_default().insert(letter, synsets);
            }
        }
        for line in read(folder, &format!("{ending}.exc"))?.lines().filter(|line| !line.contains('_')) {
            let mut fields = line.split_whitespace();
            if let (Some(form), Some(lemma)) = (fields.next(), fields.next()) {
                _ = writeln!(exceptions, "{letter} {form} {lemma}");
            }
        }
    }
    let numbers = shared_synsets(&words);
    let mut table = String::new();
    for (word, parts) in &words {
        table.push_str(word);
        for (letter, synsets) in parts {
            let count = counts.get(&(word.clone(), *letter)).copied().unwrap_or(0);
            let known = synsets.iter().filter_map(|synset| numbers.get(&(*letter, synset.clone())));
            let ids: Vec<String> = known.map(|number| format!("{number:x}")).collect();
            let colon = if ids.is_empty() { "" } else { ":" };
            _ = write!(table, " {letter}{count}{colon}{}", ids.join(","));
        }
        table.push('\n');
    }
    write("words.txt", &table)?;
    write("exceptions.txt", &exceptions)
}

/// Word and synsets of a line of an index file; `None` for the lines of the licence, which are indented.
fn parse_index_line(line: &str) -> Option<(&str, Vec<String>)> {
    if line.starts_with(' ') {
        return None;
    }
    let fields: Vec<&str> = line.split_whitespace().collect();
    let count: usize = fields.get(2)?.parse().ok()?;
    let synsets = fields.get(fields.len().checked_sub(count)?..)?;
    Some((fields[0], synsets.iter().map(|synset| (*synset).to_owned()).collect()))
}

/// Returns true for compounds such as `parking_lot`, whose first word alone would be parsed as a verb.
fn is_gerund_compound(phrase: &str) -> bool {
    let mut words = phrase.split('_');
    words.next().is_some_and(|first| first.ends_with("ing")) && words.next().is_some() && words.next().is_none()
}

/// Numbers the synsets that have several words.
fn shared_synsets(words: &BTreeMap<String, BTreeMap<char, Vec<String>>>) -> BTreeMap<Synset, usize> {
    let mut members: BTreeMap<Synset, usize> = BTreeMap::new();
    for (letter, synsets) in words.values().flatten() {
        for synset in synsets {
            *members.entry((*letter, synset.clone())).or_default() += 1;
        }
    }
    members.into_iter().filter(|(_, members)| *members > 1).map(|(synset, _)| synset).zip(0..).collect()
}

/// Frequency of each word as each part of speech. A satellite adjective (5) is an adjective.
fn tag_frequencies(text: &str) -> BTreeMap<(String, char), u32> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split_whitespace();
        let (Some(key), Some(count)) = (fields.next(), fields.nth(1)) else { continue };
        let Some((word, sense)) = key.split_once('%') else { continue };
        let letter = match sense.as_bytes().first() {
            Some(b'1') => 'n',
            Some(b'2') => 'v',
            Some(b'3' | b'5') => 'a',
            Some(b'4') => 'r',
            _ => continue,
        };
        *counts.entry((word.to_owned(), letter)).or_default() += count.parse::<u32>().unwrap_or(0);
    }
    counts
}

fn read(folder: &Path, name: &str) -> TaskResult<String> {
    let path = folder.join(name);
    let hint = "the folder must contain the database files of WordNet 3.0, as `dict/` of its release does";
    fs::read_to_string(&path).map_err(|error| TaskError::io("read", &path)(error).hint(hint))
}

fn write(name: &str, text: &str) -> TaskResult {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../data/wordnet").join(name);
    fs::write(&path, text).map_err(TaskError::io("write", &path))
}
