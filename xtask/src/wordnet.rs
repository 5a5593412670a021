//! `cargo xtask wordnet`: the tables in `data/wordnet/`, made from the database of WordNet 3.0.
//!
//! They keep what the scene-graph parser asks: which parts of speech a word has, how often each was seen in the texts
//! that WordNet's makers tagged, and which synsets it shares with another word. Captions are compared word by word, and a
//! word always equals itself, so phrases are left out, but for those that begin with a gerund, and so are synsets of one
//! word.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::shell::{Failure, Outcome};

/// Endings of the files, and the letter of each part of speech in the tables.
const PARTS: [(&str, char); 4] = [("noun", 'n'), ("verb", 'v'), ("adj", 'a'), ("adv", 'r')];

/// A synset: its part of speech and its place in the database.
type Synset = (char, String);

/// Writes `words.txt` and `exceptions.txt`, given the folder with `index.noun` and its like.
pub(crate) fn wordnet(folder: &Path) -> Outcome {
    let counts = counts(&read(folder, "cntlist.rev")?);
    let mut words: BTreeMap<String, BTreeMap<char, Vec<String>>> = BTreeMap::new();
    let mut exceptions = String::new();
    for (ending, letter) in PARTS {
        for (word, synsets) in read(folder, &format!("index.{ending}"))?.lines().filter_map(entry) {
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

/// Word and synsets of a line of an index; the licence at the top is indented.
fn entry(line: &str) -> Option<(&str, Vec<String>)> {
    if line.starts_with(' ') {
        return None;
    }
    let fields: Vec<&str> = line.split_whitespace().collect();
    let count: usize = fields.get(2)?.parse().ok()?;
    let synsets = fields.get(fields.len().checked_sub(count)?..)?;
    Some((fields[0], synsets.iter().map(|synset| (*synset).to_owned()).collect()))
}

/// Whether `phrase` is like `parking_lot`, whose first word alone would be taken for a verb.
fn is_gerund_compound(phrase: &str) -> bool {
    let mut words = phrase.split('_');
    words.next().is_some_and(|first| first.ends_with("ing")) && words.next().is_some() && words.next().is_none()
}

/// Numbers of the synsets that several words are in.
fn shared_synsets(words: &BTreeMap<String, BTreeMap<char, Vec<String>>>) -> BTreeMap<Synset, usize> {
    let mut members: BTreeMap<Synset, usize> = BTreeMap::new();
    for (letter, synsets) in words.values().flatten() {
        for synset in synsets {
            *members.entry((*letter, synset.clone())).or_default() += 1;
        }
    }
    members.into_iter().filter(|(_, members)| *members > 1).map(|(synset, _)| synset).zip(0..).collect()
}

/// How often each word was tagged as each part of speech. A satellite adjective (5) is an adjective.
fn counts(text: &str) -> BTreeMap<(String, char), u32> {
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

fn read(folder: &Path, name: &str) -> Outcome<String> {
    let path = folder.join(name);
    let hint = "the folder must hold the database files of WordNet 3.0, as `dict/` of its release does";
    fs::read_to_string(&path).map_err(|error| Failure::io("read", &path)(error).hint(hint))
}

fn write(name: &str, text: &str) -> Outcome {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../data/wordnet").join(name);
    fs::write(&path, text).map_err(Failure::io("write", &path))
}
