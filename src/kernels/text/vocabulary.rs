//! Vocabulary of a model: words and their token ids.

use std::collections::HashMap;

use super::tokenizer::Tokenizer;

/// Token id of the padding, which occurs in no caption.
pub const PAD_ID: i32 = 0;
/// Token id that precedes the first word.
pub const START_ID: i32 = 1;
/// Token id that follows the last word.
pub const END_ID: i32 = 2;
/// Token id of words that are not in the vocabulary.
pub const UNKNOWN_ID: i32 = 3;

/// Maximum number of words of a caption. Captions of COCO and Flickr30k have fewer than 100 words. The limit bounds the
/// memory of a batch, which grows with its words.
pub const MAX_CAPTION_WORDS: usize = 1000;

/// Maximum number of words of a vocabulary.
const MAX_WORDS: usize = i32::MAX as usize;

const SPECIAL_TOKENS: [&str; 4] = ["<pad>", "<start>", "<end>", "<unk>"];

/// Words and their token ids: four special tokens, then the words of the training captions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vocabulary {
    words: Vec<String>,
    ids: HashMap<String, i32>,
}

impl Vocabulary {
    /// Builds a vocabulary of the words whose count is at least `min_count`, by descending count, then alphabetically
    /// (by code point).
    ///
    /// Published vocabularies of VSE++ and its successors differ: their ids are arbitrary (the order of a Python
    /// dictionary), and they also count the validation captions, some even the test captions. Here the caller chooses the
    /// captions; `train` counts those that it trains on, unless `vocabulary_captions` says otherwise.
    #[must_use]
    pub fn build<'w>(counts: impl IntoIterator<Item = (&'w str, usize)>, min_count: usize) -> Self {
        let kept = counts.into_iter().filter(|(word, count)| *count >= min_count && !SPECIAL_TOKENS.contains(word));
        let mut kept: Vec<(&str, usize)> = kept.collect();
        kept.sort_unstable_by(|(a, a_count), (b, b_count)| b_count.cmp(a_count).then(a.cmp(b)));
        // Token ids have 32 bits. So many words come only from more text than fits into memory; the rarest are dropped.
        kept.truncate(MAX_WORDS - SPECIAL_TOKENS.len());
        let marks = SPECIAL_TOKENS.iter().map(|mark| (*mark).to_owned());
        Self::index(marks.chain(kept.into_iter().map(|(word, _)| word.to_owned())).collect())
    }

    /// The vocabulary in which `words[i]` has token id `i`.
    ///
    /// # Errors
    /// The first words are not the four special tokens, there are too many words, or a word occurs twice.
    pub fn from_words(words: Vec<String>) -> Result<Self, String> {
        if words.len() < SPECIAL_TOKENS.len() || words.iter().zip(SPECIAL_TOKENS).any(|(word, mark)| word != mark) {
            let first = words.iter().take(SPECIAL_TOKENS.len()).map(|w| format!("`{w}`")).collect::<Vec<_>>().join(" ");
            return Err(format!("a vocabulary starts with {first}, expected `<pad>` `<start>` `<end>` `<unk>`"));
        }
        if words.len() > MAX_WORDS {
            return Err(format!("a vocabulary of {} words, expected at most {MAX_WORDS}", words.len()));
        }
        let this = Self::index(words);
        if this.ids.len() != this.words.len() {
            let twice = this.words.iter().zip(0..).find(|&(word, i)| this.ids[word] != i);
            let word = twice.map_or("", |(word, _)| word);
            return Err(format!("the word `{word}` appears twice in a vocabulary"));
        }
        Ok(this)
    }

    fn index(words: Vec<String>) -> Self {
        let numbers = words.iter().cloned().zip(0..).collect();
        Self { words, ids: numbers }
    }

    /// Token id of `word`; that of `<unk>` for an unknown word.
    #[must_use]
    pub fn id(&self, word: &str) -> i32 {
        self.ids.get(word).copied().unwrap_or(UNKNOWN_ID)
    }

    /// Token ids of `words`, between those of `<start>` and `<end>`; unknown words become `<unk>`.
    #[must_use]
    pub fn encode(&self, words: &[String]) -> Vec<i32> {
        with_marks(words.iter().map(|word| self.id(word)))
    }

    /// Tokenises a caption, in lower case, and encodes its words as [`Vocabulary::encode`] does.
    ///
    /// # Errors
    /// The caption has more than [`MAX_CAPTION_WORDS`] words.
    pub fn encode_caption(&self, tokenizer: Tokenizer, caption: &str) -> Result<Vec<i32>, String> {
        let words = tokenizer.tokenize(caption, true);
        check_word_count(&words)?;
        Ok(self.encode(&words))
    }

    /// The words, in the order of their token ids.
    #[must_use]
    pub fn words(&self) -> &[String] {
        &self.words
    }
}

/// Token ids of a caption, between those of `<start>` and `<end>`.
pub fn with_marks(ids: impl Iterator<Item = i32>) -> Vec<i32> {
    std::iter::once(START_ID).chain(ids).chain([END_ID]).collect()
}

/// Checks the number of words of a caption.
///
/// # Errors
/// It has more than [`MAX_CAPTION_WORDS`] words.
pub fn check_word_count(words: &[String]) -> Result<(), String> {
    if words.len() > MAX_CAPTION_WORDS {
        return Err(format!("{} words, expected at most {MAX_CAPTION_WORDS}", words.len()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn frequent_words_come_first_and_rare_words_are_dropped() {
        let counts = [("rare", 1), ("c", 2), ("b", 3), ("<unk>", 9), ("a", 2)];
        let vocabulary = Vocabulary::build(counts, 2);
        assert_eq!(vocabulary.words(), ["<pad>", "<start>", "<end>", "<unk>", "b", "a", "c"]);
        assert_eq!(vocabulary.encode(&words("c rare b")), [START_ID, 6, UNKNOWN_ID, 4, END_ID]);
        assert_eq!(vocabulary.encode(&[]), [START_ID, END_ID]);
        assert_eq!(Vocabulary::from_words(vocabulary.words().to_vec()), Ok(vocabulary));
    }

    #[test]
    fn a_caption_of_too_many_words_is_refused() {
        let vocabulary = Vocabulary::build([("dog", 1)], 1);
        let dogs = |count: usize| vocabulary.encode_caption(Tokenizer::Whitespace, &"dog ".repeat(count));
        assert_eq!(dogs(2), Ok(vec![START_ID, 4, 4, END_ID]));
        assert_eq!(dogs(MAX_CAPTION_WORDS).map(|ids| ids.len()), Ok(MAX_CAPTION_WORDS + 2));
        assert_eq!(dogs(MAX_CAPTION_WORDS + 1), Err("1001 words, expected at most 1000".to_owned()));
    }

    #[test]
    fn an_invalid_list_of_words_is_refused() {
        assert!(Vocabulary::from_words(words("a b c d")).is_err_and(|e| e.contains("`a`")));
        assert!(Vocabulary::from_words(vec![]).is_err());
        let twice = words("<pad> <start> <end> <unk> dog cat dog");
        assert!(Vocabulary::from_words(twice).is_err_and(|e| e.contains("`dog`")));
    }
}
