//! `cargo xtask wordnet`: the table of words in `data/wordnet/`, made from the files of WordNet 3.0.
//!
//! The table keeps what the scene-graph parser asks: which parts of speech a word has, how often each was seen in the
//! sense-tagged texts that come with WordNet, and which synsets it shares with another word. Phrases of several
//! words are left out, but for those that begin with a gerund, and so are synsets of one word: captions are compared word
//! by word, and a word always equals itself.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::shell::{Failure, Outcome};

/// Endings of the files, and the letter of each part of speech in the table.
const PARTS: [(&str, char); 4] = [("noun", 'n'), ("verb", 'v'), ("adj", 'a'), ("adv", 'r')];

/// Write `words.txt` and `exceptions.txt` into `to` from the folder with `index.noun` and its like.
pub fn wordnet(from: &Path, to: &Path) -> Outcome<()> {
    let seen = counts(&read(from, "cntlist.rev")?);
    let mut members: BTreeMap<(char, String), u32> = BTreeMap::new();
    let mut words: BTreeMap<String, Vec<(char, Vec<String>)>> = BTreeMap::new();
    for (ending, letter) in PARTS {
        for line in read(from, &format!("index.{ending}"))?.lines().filter(|line| !line.starts_with(' ')) {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (word, synsets) = (fields[0], fields[2].parse::<usize>().unwrap_or(0));
            if word.contains('_') && !(letter == 'n' && is_gerund_compound(word)) {
                continue;
            }
            let synsets: Vec<String> =
                fields[fields.len() - synsets..].iter().map(|offset| (*offset).to_owned()).collect();
            for synset in &synsets {
                *members.entry((letter, synset.clone())).or_default() += 1;
            }
            words.entry(word.to_owned()).or_default().push((letter, synsets));
        }
    }
    let shared: BTreeMap<&(char, String), usize> =
        members.iter().filter(|(_, count)| **count > 1).map(|(key, _)| key).zip(0..).collect();
    let mut table = String::new();
    for (word, parts) in &words {
        table.push_str(word);
        for (letter, synsets) in parts {
            let count = seen.get(&(word.clone(), *letter)).copied().unwrap_or(0);
            let ids: Vec<String> = synsets
                .iter()
                .filter_map(|synset| shared.get(&(*letter, synset.clone())))
                .map(|id| format!("{id:x}"))
                .collect();
            _ = write!(table, " {letter}{count}{}{}", if ids.is_empty() { "" } else { ":" }, ids.join(","));
        }
        table.push('\n');
    }
    let mut exceptions = String::new();
    for (ending, letter) in PARTS {
        for line in read(from, &format!("{ending}.exc"))?.lines().filter(|line| !line.contains('_')) {
            let mut fields = line.split_whitespace();
            if let (Some(form), Some(lemma)) = (fields.next(), fields.next()) {
                _ = writeln!(exceptions, "{letter} {form} {lemma}");
            }
        }
    }
    for (name, text) in [("words.txt", table), ("exceptions.txt", exceptions)] {
        let path = to.join(name);
        fs::write(&path, text).map_err(|error| Failure::new(format!("cannot write {}: {error}", path.display())))?;
    }
    Ok(())
}

/// Whether `phrase` is like `parking_lot`, whose first word alone would be taken for a verb.
fn is_gerund_compound(phrase: &str) -> bool {
    let mut parts = phrase.split('_');
    parts.next().is_some_and(|first| first.ends_with("ing")) && parts.next().is_some() && parts.next().is_none()
}

/// How often each word was tagged with each part of speech; satellites (5) are adjectives.
fn counts(text: &str) -> BTreeMap<(String, char), u32> {
    let mut seen = BTreeMap::new();
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
        *seen.entry((word.to_owned(), letter)).or_default() += count.parse::<u32>().unwrap_or(0);
    }
    seen
}

fn read(from: &Path, name: &str) -> Outcome<String> {
    let path = from.join(name);
    fs::read_to_string(&path).map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))
}
