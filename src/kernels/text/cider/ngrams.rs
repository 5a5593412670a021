//! n-grams as numbers, and how often a caption has each.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Most words of an n-gram.
pub const ORDERS: usize = 4;

/// An n-gram of a caption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ngram {
    /// Its number.
    pub number: u32,
    /// Its words, 1 to 4.
    pub order: i8,
    /// How often the caption has it.
    pub count: i32,
}

/// A numbering of n-grams in the order in which they are first seen.
#[derive(Debug, Default)]
pub struct Ngrams {
    words: HashMap<String, u32>,
    /// An n-gram is the n-gram of its words but the last, and its last word.
    numbers: HashMap<(Option<u32>, u32), u32>,
}

impl Ngrams {
    /// The n-grams of a caption, n = 1 to 4, by ascending number; new ones get the next number.
    ///
    /// # Cost
    /// `O(4 w log w)` for w words.
    pub fn count(&mut self, words: &[String]) -> Vec<Ngram> {
        let words: Vec<u32> = words.iter().map(|word| self.word(word)).collect();
        let mut found = Vec::with_capacity(ORDERS * words.len());
        for start in 0..words.len() {
            let mut before = None;
            for (order, &word) in (1..).zip(words[start..].iter().take(ORDERS)) {
                let next = number(self.numbers.len());
                let number = *self.numbers.entry((before, word)).or_insert(next);
                found.push(Ngram { number, order, count: 1 });
                before = Some(number);
            }
        }
        found.sort_unstable_by_key(|ngram| ngram.number);
        found.dedup_by(|next, kept| {
            let same = next.number == kept.number;
            kept.count += i32::from(same);
            same
        });
        found
    }

    /// How many there are; every number is less.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    fn word(&mut self, word: &str) -> u32 {
        // Most words are known, and only a new one needs a string of its own.
        if let Some(&known) = self.words.get(word) {
            return known;
        }
        let next = number(self.words.len());
        match self.words.entry(word.to_owned()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(next),
        }
    }
}

fn number(length: usize) -> u32 {
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
        let mut ngrams = Ngrams::default();
        let found = ngrams.count(&words("a dog a dog a"));
        // a 3, dog 2; "a dog" 2, "dog a" 2; "a dog a" 2, "dog a dog" 1; "a dog a dog" 1, "dog a dog a" 1.
        let mut counts: Vec<(i8, i32)> = found.iter().map(|ngram| (ngram.order, ngram.count)).collect();
        counts.sort_unstable();
        assert_eq!(counts, [(1, 2), (1, 3), (2, 2), (2, 2), (3, 1), (3, 2), (4, 1), (4, 1)]);
        assert!(found.is_sorted_by_key(|ngram| ngram.number));
        assert_eq!(ngrams.count(&words("a dog a dog a")), found);
        assert_eq!(ngrams.len(), 8);
        assert_eq!(ngrams.count(&words("dog")).len(), 1);
        assert!(ngrams.count(&[]).is_empty());
        assert_eq!(ngrams.len(), 8);
    }

    #[test]
    fn does_not_mix_up_what_reads_the_same_when_joined() {
        let mut ngrams = Ngrams::default();
        let one = ngrams.count(&["a b".to_owned(), "c".to_owned()]);
        let other = ngrams.count(&["a".to_owned(), "b c".to_owned()]);
        assert!(one.iter().all(|ngram| other.iter().all(|o| o.number != ngram.number)));
    }
}
