//! Ids of n-grams, and their counts in a caption.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Maximum number of words of an n-gram.
pub const ORDERS: usize = 4;

/// An n-gram of a caption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ngram {
    /// Id of the n-gram.
    pub id: u32,
    /// Number of words, 1 to 4.
    pub order: i8,
    /// Occurrences in the caption.
    pub count: i32,
}

/// Vocabulary of n-grams, with ids in order of first occurrence.
#[derive(Debug, Default)]
pub struct NgramVocabulary {
    words: HashMap<String, u32>,
    /// Ids of n-grams. The key is the id of the n-gram without its last word, and the last word.
    ids: HashMap<(Option<u32>, u32), u32>,
}

impl NgramVocabulary {
    /// Counts the n-grams of a caption for n = 1 to 4, by ascending id. New n-grams get the next id.
    ///
    /// # Cost
    /// `O(4 w log w)` for w words.
    pub fn count_ngrams(&mut self, words: &[String]) -> Vec<Ngram> {
        let words: Vec<u32> = words.iter().map(|word| self.word_id(word)).collect();
        let mut found = Vec::with_capacity(ORDERS * words.len());
        for start in 0..words.len() {
            let mut before = None;
            for (order, &word) in (1..).zip(words[start..].iter().take(ORDERS)) {
                let next_id = to_id(self.ids.len());
                let id = *self.ids.entry((before, word)).or_insert(next_id);
                found.push(Ngram { id, order, count: 1 });
                before = Some(id);
            }
        }
        found.sort_unstable_by_key(|ngram| ngram.id);
        found.dedup_by(|next, kept| {
            let same = next.id == kept.id;
            kept.count += i32::from(same);
            same
        });
        found
    }

    /// Number of distinct n-grams. Every id is less.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if there is no n-gram.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn word_id(&mut self, word: &str) -> u32 {
        // Most words are known; only a new one allocates a string.
        if let Some(&known) = self.words.get(word) {
            return known;
        }
        let next_id = to_id(self.words.len());
        match self.words.entry(word.to_owned()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(next_id),
        }
    }
}

fn to_id(length: usize) -> u32 {
    u32::try_from(length).expect("2^32 n-grams do not fit into memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn counts_every_window_of_one_to_four_words() {
        let mut ngrams = NgramVocabulary::default();
        let found = ngrams.count_ngrams(&words("a dog a dog a"));
        // a 3, dog 2; "a dog" 2, "dog a" 2; "a dog a" 2, "dog a dog" 1; "a dog a dog" 1, "dog a dog a" 1.
        let mut counts: Vec<(i8, i32)> = found.iter().map(|ngram| (ngram.order, ngram.count)).collect();
        counts.sort_unstable();
        assert_eq!(counts, [(1, 2), (1, 3), (2, 2), (2, 2), (3, 1), (3, 2), (4, 1), (4, 1)]);
        assert!(found.is_sorted_by_key(|ngram| ngram.id));
        assert_eq!(ngrams.count_ngrams(&words("a dog a dog a")), found);
        assert_eq!(ngrams.len(), 8);
        assert_eq!(ngrams.count_ngrams(&words("dog")).len(), 1);
        assert!(ngrams.count_ngrams(&[]).is_empty());
        assert_eq!(ngrams.len(), 8);
    }

    #[test]
    fn ngrams_of_different_words_with_equal_text_differ() {
        let mut ngrams = NgramVocabulary::default();
        let one = ngrams.count_ngrams(&["a b".to_owned(), "c".to_owned()]);
        let other = ngrams.count_ngrams(&["a".to_owned(), "b c".to_owned()]);
        assert!(one.iter().all(|ngram| other.iter().all(|o| o.id != ngram.id)));
    }
}
