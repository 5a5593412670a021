//! Collects the vectors of a vocabulary's words while a file is read.

use std::collections::HashMap;

/// Pretrained vectors of the words of a vocabulary, as far as the file has them.
#[derive(Debug, Clone, PartialEq)]
pub struct PretrainedWordVectors {
    width: usize,
    values: Vec<f32>,
    /// Offset of the values of each word of the vocabulary.
    offsets: Vec<Option<usize>>,
}

impl PretrainedWordVectors {
    /// Vector of the word with index `word` in the vocabulary, if the file has one.
    #[must_use]
    pub fn get(&self, word: usize) -> Option<&[f32]> {
        let start = (*self.offsets.get(word)?)?;
        self.values.get(start..start + self.width)
    }

    /// Number of words that have a vector.
    #[must_use]
    pub fn n_found(&self) -> usize {
        self.offsets.iter().flatten().count()
    }
}

/// Collector of the vectors of a vocabulary's words.
///
/// A vocabulary is in lower case, but some files are not. A word gets the vector of its first exact match, otherwise of
/// the first entry that matches when lower-cased. Files list frequent words first.
pub(super) struct WordVectorCollector<'w> {
    words: HashMap<&'w str, usize>,
    exact: Vec<Option<usize>>,
    by_case: Vec<Option<usize>>,
    vectors: PretrainedWordVectors,
}

/// Word of the vocabulary whose vector is wanted.
#[derive(Debug, Clone, Copy)]
pub(super) struct WantedWord {
    word: usize,
    exact: bool,
}

impl<'w> WordVectorCollector<'w> {
    pub(super) fn new(words: &'w [String], width: usize) -> Self {
        let kept = PretrainedWordVectors { width, values: Vec::new(), offsets: Vec::new() };
        let none = vec![None; words.len()];
        let words = words.iter().enumerate().map(|(i, word)| (word.as_str(), i)).collect();
        Self { words, exact: none.clone(), by_case: none, vectors: kept }
    }

    pub(super) fn width(&self) -> usize {
        self.vectors.width
    }

    /// Returns the word of the vocabulary that is to get the vector of `word`; `None` if there is none or `word` is not
    /// UTF-8.
    pub(super) fn wanted_word(&mut self, word: &[u8]) -> Option<WantedWord> {
        let word = std::str::from_utf8(word).ok()?;
        if let Some(&word) = self.words.get(word) {
            return self.exact[word].is_none().then_some(WantedWord { word, exact: true });
        }
        if !word.chars().any(char::is_uppercase) {
            return None;
        }
        let word = *self.words.get(word.to_lowercase().as_str())?;
        (self.exact[word].is_none() && self.by_case[word].is_none()).then_some(WantedWord { word, exact: false })
    }

    /// Stores the vector of a wanted word.
    pub(super) fn store(&mut self, slot: WantedWord, values: &[f32]) {
        let places = if slot.exact { &mut self.exact } else { &mut self.by_case };
        places[slot.word] = Some(self.vectors.values.len());
        self.vectors.values.extend_from_slice(values);
    }

    pub(super) fn finish(self) -> PretrainedWordVectors {
        let places = self.exact.iter().zip(&self.by_case).map(|(exact, by_case)| exact.or(*by_case)).collect();
        PretrainedWordVectors { offsets: places, ..self.vectors }
    }
}
