//! The words that a model knows, numbered.

use std::collections::HashMap;

use super::tokens::Tokenizer;

/// Number of the padding, which no caption contains.
pub const PAD: i32 = 0;
/// Number of the mark before the first word.
pub const START: i32 = 1;
/// Number of the mark after the last word.
pub const END: i32 = 2;
/// Number of every word that is not in the vocabulary.
pub const UNKNOWN: i32 = 3;

/// The most words of a caption. The longest caption of COCO and Flickr30k has fewer than a hundred; a text without an end
/// would fill the memory, which grows with the words of a batch.
pub const MOST_WORDS: usize = 1000;

/// The most words of a vocabulary.
const MOST: usize = i32::MAX as usize;

const MARKS: [&str; 4] = ["<pad>", "<start>", "<end>", "<unk>"];

/// Words and their numbers: four marks, then the words of the training captions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    words: Vec<String>,
    numbers: HashMap<String, i32>,
}

impl Vocabulary {
    /// The words whose count is at least `min_count`: the most frequent first, of equally frequent ones the alphabetically
    /// first (by code point).
    ///
    /// The published vocabularies of VSE++ and its heirs number words by chance (the order of a Python dictionary) and
    /// count the validation captions too, some even those of the test; here the caller counts the training captions alone.
    #[must_use]
    pub fn build(counts: &HashMap<String, usize>, min_count: usize) -> Self {
        let mut kept: Vec<(&str, usize)> = counts
            .iter()
            .map(|(word, count)| (word.as_str(), *count))
            .filter(|(word, count)| *count >= min_count && !MARKS.contains(word))
            .collect();
        kept.sort_unstable_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then(a.cmp(b)));
        // Numbers are 32 bits wide; words past them would be rare ones of more text than any memory holds.
        kept.truncate(MOST - MARKS.len());
        let marks = MARKS.iter().map(|mark| (*mark).to_owned());
        Self::index(marks.chain(kept.into_iter().map(|(word, _)| word.to_owned())).collect())
    }

    /// The vocabulary whose word `i` is `words[i]`.
    ///
    /// # Errors
    /// The first words are not the four marks, or a word stands twice.
    pub fn from_words(words: Vec<String>) -> Result<Self, String> {
        if words.len() < MARKS.len() || words.iter().zip(MARKS).any(|(word, mark)| word != mark) {
            let first = words.iter().take(MARKS.len()).map(|w| format!("`{w}`")).collect::<Vec<_>>().join(" ");
            return Err(format!("a vocabulary starts with {first}, wanted `<pad>` `<start>` `<end>` `<unk>`"));
        }
        if words.len() > MOST {
            return Err(format!("a vocabulary of {} words, wanted at most {MOST}", words.len()));
        }
        let this = Self::index(words);
        if this.numbers.len() != this.words.len() {
            let twice = this.words.iter().zip(0..).find(|&(word, i)| this.numbers[word] != i);
            let word = twice.map_or("", |(word, _)| word);
            return Err(format!("the word `{word}` stands twice in a vocabulary"));
        }
        Ok(this)
    }

    fn index(words: Vec<String>) -> Self {
        let numbers = words.iter().cloned().zip(0..).collect();
        Self { words, numbers }
    }

    /// `<start>`, the numbers of `words`, `<end>`; a word that is not known becomes `<unk>`.
    #[must_use]
    pub fn encode(&self, words: &[String]) -> Vec<i32> {
        let mut numbers = Vec::with_capacity(words.len() + 2);
        numbers.push(START);
        numbers.extend(words.iter().map(|word| self.numbers.get(word).copied().unwrap_or(UNKNOWN)));
        numbers.push(END);
        numbers
    }

    /// [`Vocabulary::encode`] of the words of a caption, as `tokenizer` cuts it.
    ///
    /// # Errors
    /// More words than [`MOST_WORDS`].
    pub fn encode_caption(&self, tokenizer: Tokenizer, caption: &str) -> Result<Vec<i32>, String> {
        let words = tokenizer.words(caption, true);
        if words.len() > MOST_WORDS {
            return Err(format!("{} words, wanted at most {MOST_WORDS}", words.len()));
        }
        Ok(self.encode(&words))
    }

    /// The words in the order of their numbers.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn numbers_the_frequent_words_first_and_drops_the_rare() {
        let counts = [("rare", 1), ("c", 2), ("b", 3), ("<unk>", 9), ("a", 2)];
        let vocabulary = Vocabulary::build(&counts.map(|(word, count)| (word.to_owned(), count)).into(), 2);
        assert_eq!(vocabulary.words(), ["<pad>", "<start>", "<end>", "<unk>", "b", "a", "c"]);
        assert_eq!(vocabulary.encode(&words("c rare b")), [START, 6, UNKNOWN, 4, END]);
        assert_eq!(vocabulary.encode(&[]), [START, END]);
        assert_eq!(Vocabulary::from_words(vocabulary.words().to_vec()), Ok(vocabulary));
    }

    #[test]
    fn a_caption_without_an_end_is_refused() {
        let vocabulary = Vocabulary::build(&HashMap::from([("dog".to_owned(), 1)]), 1);
        let dogs = |count: usize| vocabulary.encode_caption(Tokenizer::Whitespace, &"dog ".repeat(count));
        assert_eq!(dogs(2), Ok(vec![START, 4, 4, END]));
        assert_eq!(dogs(MOST_WORDS).map(|numbers| numbers.len()), Ok(MOST_WORDS + 2));
        assert_eq!(dogs(MOST_WORDS + 1), Err("1001 words, wanted at most 1000".to_owned()));
    }

    #[test]
    fn refuses_a_list_that_is_no_vocabulary() {
        assert!(Vocabulary::from_words(words("a b c d")).is_err_and(|e| e.contains("`a`")));
        assert!(Vocabulary::from_words(vec![]).is_err());
        let twice = words("<pad> <start> <end> <unk> dog cat dog");
        assert!(Vocabulary::from_words(twice).is_err_and(|e| e.contains("`dog`")));
    }
}
