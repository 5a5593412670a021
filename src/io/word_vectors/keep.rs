//! Which vectors of a file are kept.

use std::collections::HashMap;

/// Vectors of some words of a vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub struct WordVectors {
    width: usize,
    values: Vec<f32>,
    /// By place in the vocabulary: where its values begin.
    places: Vec<Option<usize>>,
}

impl WordVectors {
    /// The vector of word `word` of the vocabulary, if the file has one.
    #[must_use]
    pub fn get(&self, word: usize) -> Option<&[f32]> {
        let start = (*self.places.get(word)?)?;
        self.values.get(start..start + self.width)
    }

    /// Words that have a vector.
    #[must_use]
    pub fn found(&self) -> usize {
        self.places.iter().flatten().count()
    }
}

/// What is kept while a file is read.
///
/// A vocabulary is in lower case, and some files are not: a word takes the vector of the first entry that is the same to
/// the letter, or else that of the first one which is it in lower case. Files have frequent words first.
pub(super) struct Keep<'w> {
    words: HashMap<&'w str, usize>,
    exact: Vec<Option<usize>>,
    by_case: Vec<Option<usize>>,
    kept: WordVectors,
}

/// A vector that is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Slot {
    word: usize,
    exact: bool,
}

impl<'w> Keep<'w> {
    pub(super) fn new(words: &'w [String], width: usize) -> Self {
        let kept = WordVectors { width, values: Vec::new(), places: Vec::new() };
        let none = vec![None; words.len()];
        let words = words.iter().enumerate().map(|(i, word)| (word.as_str(), i)).collect();
        Self { words, exact: none.clone(), by_case: none, kept }
    }

    pub(super) fn width(&self) -> usize {
        self.kept.width
    }

    /// Whether the vector of `word` is wanted. A word that is not UTF-8 is none of a vocabulary.
    pub(super) fn slot(&mut self, word: &[u8]) -> Option<Slot> {
        let word = std::str::from_utf8(word).ok()?;
        if let Some(&word) = self.words.get(word) {
            return self.exact[word].is_none().then_some(Slot { word, exact: true });
        }
        if !word.chars().any(char::is_uppercase) {
            return None;
        }
        let word = *self.words.get(word.to_lowercase().as_str())?;
        (self.exact[word].is_none() && self.by_case[word].is_none()).then_some(Slot { word, exact: false })
    }

    /// Keeps a vector.
    pub(super) fn put(&mut self, slot: Slot, values: &[f32]) {
        let places = if slot.exact { &mut self.exact } else { &mut self.by_case };
        places[slot.word] = Some(self.kept.values.len());
        self.kept.values.extend_from_slice(values);
    }

    pub(super) fn finish(self) -> WordVectors {
        let places = self.exact.iter().zip(&self.by_case).map(|(exact, by_case)| exact.or(*by_case)).collect();
        WordVectors { places, ..self.kept }
    }
}
