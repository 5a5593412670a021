//! WordNet 3.0 in memory: parts of speech with their frequencies, irregular forms, and synsets shared by several words.

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
        // The key borrows for as long as the table lives, so the word is looked up by value.
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
        let entry = |field: &str| -> Option<Entry> {
            let (head, synsets) = field.split_once(':').unwrap_or((field, ""));
            Some(Entry {
                part: part(head.get(..1)?)?,
                count: head.get(1..)?.parse().ok()?,
                synsets: synsets.split(',').filter_map(|id| u32::from_str_radix(id, 16).ok()).collect(),
            })
        };
        let words = words.lines().filter_map(|line| {
            let (word, fields) = line.split_once(' ')?;
            Some((word, fields.split(' ').filter_map(entry).collect()))
        });
        let exceptions = exceptions.lines().filter_map(|line| {
            let mut fields = line.split(' ');
            Some(((part(fields.next()?)?, fields.next()?), fields.next()?))
        });
        Self { words: words.collect(), exceptions: exceptions.collect() }
    }
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
