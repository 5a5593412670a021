//! Lexicon: WordNet 3.0 in memory, with parts of speech and their frequencies, irregular forms, and synsets of several
//! words.
//!
//! Fellbaum (ed.): WordNet: An Electronic Lexical Database, MIT Press 1998; data Copyright 2006 by Princeton
//! University, its licence in `data/wordnet/LICENSE`.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Part of speech in WordNet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartOfSpeech {
    /// `dog`.
    Noun,
    /// `sit`.
    Verb,
    /// `red`.
    Adjective,
    /// `slowly`.
    Adverb,
}

/// Entry of a word as one part of speech.
#[derive(Debug, Clone)]
struct LexiconEntry {
    part: PartOfSpeech,
    count: u32,
    synsets: Vec<u32>,
}

/// The words of WordNet. [`Lexicon::wordnet`] reads them once.
#[derive(Debug)]
pub struct Lexicon {
    words: HashMap<&'static str, Vec<LexiconEntry>>,
    exceptions: HashMap<(PartOfSpeech, &'static str), &'static str>,
}

impl Lexicon {
    /// WordNet, from the tables that are compiled into the program.
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

    /// Frequency of `lemma` as `part` in WordNet's sense-tagged texts; `None` if WordNet does not have it as `part`.
    #[must_use]
    pub fn frequency(&self, part: PartOfSpeech, lemma: &str) -> Option<u32> {
        self.words.get(lemma)?.iter().find(|entry| entry.part == part).map(|entry| entry.count)
    }

    /// The lemma of an irregular form: `man` for `men`.
    #[must_use]
    pub fn irregular_lemma(&self, part: PartOfSpeech, form: &str) -> Option<&'static str> {
        self.exceptions.get(&(part, form)).copied()
    }

    /// Ids of the synsets of `lemma`, as any part of speech, that also have another word.
    pub fn shared_synsets(&self, lemma: &str) -> impl Iterator<Item = u32> {
        self.words.get(lemma).into_iter().flatten().flat_map(|entry| entry.synsets.iter().copied())
    }

    /// True if `first` and `second` form a compound noun in WordNet, as `parking lot` does. The tables have gerunds
    /// only.
    #[must_use]
    pub fn is_gerund_compound(&self, first: &str, second: &str) -> bool {
        self.words.contains_key(format!("{first}_{second}").as_str())
    }

    /// Reads `words`, lines `word n12:1a,2b v3` (part of speech, frequency, synset ids in base 16), and `exceptions`,
    /// lines `n men man`.
    fn read(words: &'static str, exceptions: &'static str) -> Self {
        let words = words.lines().map(|line| {
            let (word, fields) = line.split_once(' ').expect(MADE_BY_XTASK);
            (word, fields.split(' ').map(|field| parse_entry(field).expect(MADE_BY_XTASK)).collect())
        });
        let exceptions = exceptions.lines().map(|line| {
            let [letter, form, lemma] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{MADE_BY_XTASK}") };
            ((parse_part_of_speech(letter).expect(MADE_BY_XTASK), form), lemma)
        });
        Self { words: words.collect(), exceptions: exceptions.collect() }
    }
}

/// Panic message for malformed tables.
const MADE_BY_XTASK: &str = "the tables are part of the program, made by `cargo xtask wordnet`, and a test reads them";

fn parse_entry(field: &str) -> Option<LexiconEntry> {
    let (head, synsets) = field.split_once(':').unwrap_or((field, ""));
    let synsets = synsets.split(',').filter(|id| !id.is_empty());
    Some(LexiconEntry {
        part: parse_part_of_speech(head.get(..1)?)?,
        count: head.get(1..)?.parse().ok()?,
        synsets: synsets.map(|id| u32::from_str_radix(id, 16).ok()).collect::<Option<_>>()?,
    })
}

fn parse_part_of_speech(letter: &str) -> Option<PartOfSpeech> {
    match letter {
        "n" => Some(PartOfSpeech::Noun),
        "v" => Some(PartOfSpeech::Verb),
        "a" => Some(PartOfSpeech::Adjective),
        "r" => Some(PartOfSpeech::Adverb),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_agree_with_wordnet() {
        let wordnet = Lexicon::wordnet();
        assert_eq!((wordnet.words.len(), wordnet.exceptions.len()), (84_961, 5_827));
        // From WordNet's own index and counts.
        assert_eq!(wordnet.frequency(PartOfSpeech::Noun, "couch"), Some(5));
        assert_eq!(wordnet.frequency(PartOfSpeech::Verb, "couch"), Some(1));
        assert_eq!(wordnet.frequency(PartOfSpeech::Adjective, "couch"), None);
        assert_eq!(wordnet.irregular_lemma(PartOfSpeech::Noun, "geese"), Some("goose"));
        assert_eq!(wordnet.irregular_lemma(PartOfSpeech::Verb, "sat"), Some("sit"));
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
