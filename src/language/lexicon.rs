//! WordNet 3.0 in memory: parts of speech with their frequencies, irregular forms, and synsets shared by several words.
//!
//! Fellbaum (ed.): WordNet: An Electronic Lexical Database, MIT Press 1998; data Copyright 2006 by Princeton University,
//! its licence in `data/wordnet/LICENSE`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Parts of speech that WordNet knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    /// `dog`.
    Noun,
    /// `sit`.
    Verb,
    /// `red`.
    Adjective,
    /// `slowly`.
    Adverb,
}

/// A word as one part of speech.
#[derive(Debug, Clone)]
struct Entry {
    part: Part,
    count: u32,
    synsets: Vec<u32>,
}

/// The words of WordNet. Made once, by [`Lexicon::wordnet`].
#[derive(Debug)]
pub struct Lexicon {
    words: HashMap<&'static str, Vec<Entry>>,
    exceptions: HashMap<(Part, &'static str), &'static str>,
}

impl Lexicon {
    /// The table that is part of the program, so that there is no dictionary to be missing.
    #[must_use]
    pub fn wordnet() -> &'static Self {
        static WORDNET: LazyLock<Lexicon> = LazyLock::new(|| {
            Lexicon::read(
                include_str!("../../data/wordnet/words.txt"),
                include_str!("../../data/wordnet/exceptions.txt"),
            )
        });
        &WORDNET
    }

    /// How often texts that WordNet's makers tagged have `lemma` as `part`; nothing where it never is that.
    #[must_use]
    pub fn count(&self, part: Part, lemma: &str) -> Option<u32> {
        self.words.get(lemma)?.iter().find(|entry| entry.part == part).map(|entry| entry.count)
    }

    /// The lemma of an irregular form: `man` of `men`.
    #[must_use]
    pub fn exception(&self, part: Part, form: &str) -> Option<&'static str> {
        self.exceptions.get(&(part, form)).copied()
    }

    /// Synsets of `lemma`, as any part of speech, that another word is in too. Numbers mean nothing but equality.
    pub fn shared_synsets(&self, lemma: &str) -> impl Iterator<Item = u32> {
        self.words.get(lemma).into_iter().flatten().flat_map(|entry| entry.synsets.iter().copied())
    }

    /// Whether `first` and `second` are a noun together, as `parking` and `lot` are. Known for gerunds only.
    #[must_use]
    pub fn is_gerund_compound(&self, first: &str, second: &str) -> bool {
        self.words.contains_key(format!("{first}_{second}").as_str())
    }

    /// Lines `word n12:1a,2b v3`: part of speech, count, synsets in base 16; lines `n men man`.
    fn read(words: &'static str, exceptions: &'static str) -> Self {
        let words = words.lines().map(|line| {
            let (word, fields) = line.split_once(' ').expect(MADE_BY_XTASK);
            (word, fields.split(' ').map(|field| entry(field).expect(MADE_BY_XTASK)).collect())
        });
        let exceptions = exceptions.lines().map(|line| {
            let [letter, form, lemma] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{MADE_BY_XTASK}") };
            ((part(letter).expect(MADE_BY_XTASK), form), lemma)
        });
        Self { words: words.collect(), exceptions: exceptions.collect() }
    }
}

/// Why reading the tables cannot fail.
const MADE_BY_XTASK: &str = "the tables are part of the program, made by `cargo xtask wordnet`, and a test reads them";

fn entry(field: &str) -> Option<Entry> {
    let (head, synsets) = field.split_once(':').unwrap_or((field, ""));
    let synsets = synsets.split(',').filter(|id| !id.is_empty());
    Some(Entry {
        part: part(head.get(..1)?)?,
        count: head.get(1..)?.parse().ok()?,
        synsets: synsets.map(|id| u32::from_str_radix(id, 16).ok()).collect::<Option<_>>()?,
    })
}

fn part(letter: &str) -> Option<Part> {
    match letter {
        "n" => Some(Part::Noun),
        "v" => Some(Part::Verb),
        "a" => Some(Part::Adjective),
        "r" => Some(Part::Adverb),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_hold_what_wordnet_has() {
        let wordnet = Lexicon::wordnet();
        assert_eq!((wordnet.words.len(), wordnet.exceptions.len()), (84_961, 5_827));
        // From WordNet's own index and counts.
        assert_eq!(wordnet.count(Part::Noun, "couch"), Some(5));
        assert_eq!(wordnet.count(Part::Verb, "couch"), Some(1));
        assert_eq!(wordnet.count(Part::Adjective, "couch"), None);
        assert_eq!(wordnet.exception(Part::Noun, "geese"), Some("goose"));
        assert_eq!(wordnet.exception(Part::Verb, "sat"), Some("sit"));
        assert!(wordnet.is_gerund_compound("parking", "lot"));
        assert!(!wordnet.is_gerund_compound("parking", "dog"));
    }

    #[test]
    fn synonyms_share_a_synset() {
        let share = |a, b| {
            Lexicon::wordnet().shared_synsets(a).any(|id| Lexicon::wordnet().shared_synsets(b).any(|other| other == id))
        };
        for (a, b) in [("couch", "sofa"), ("bicycle", "bike"), ("road", "route"), ("big", "large"), ("grey", "gray")] {
            assert!(share(a, b), "{a} {b}");
        }
        for (a, b) in [("couch", "dog"), ("dog", "cat"), ("red", "blue"), ("nosuchword", "couch")] {
            assert!(!share(a, b), "{a} {b}");
        }
    }
}
