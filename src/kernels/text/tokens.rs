//! From a caption to its words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::sentences::sentences;
use super::{ptb, python, treebank};

/// A way to cut a caption into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tokenizer {
    /// NLTK's `word_tokenize`, as VSE++ and its heirs use it: sentences, then the Treebank rules of each. A period belongs to
    /// the last word of a sentence and is a word of its own; `don't` is `do` and `n't`.
    #[default]
    Treebank,
    /// The caption split at white space.
    Whitespace,
    /// The COCO evaluation's: Stanford's Penn Treebank tokeniser, without punctuation.
    Ptb,
    /// `treebank` of the caption, without white space around it, as Python 3 writes bytes, `b'a dog .'`: what the published
    /// codes of HAL, CVSE and SAM make of captions under Python 3. For checkpoints that were trained so.
    Python3Bytes,
}

impl Tokenizer {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Ptb, Self::Treebank, Self::Whitespace, Self::Python3Bytes];

    /// The words of `caption`, in lower case if asked for.
    #[must_use]
    pub fn words(self, caption: &str, lowercase: bool) -> Vec<String> {
        if self == Self::Ptb {
            // Cuts by upper and lower case, so the words change, not the caption.
            return ptb::words(caption, lowercase);
        }
        let caption = if self == Self::Python3Bytes { &python::bytes(caption.trim()) } else { caption };
        let caption = if lowercase { &caption.to_lowercase() } else { caption };
        match self {
            Self::Whitespace => caption.split_whitespace().map(str::to_owned).collect(),
            _ => sentences(caption).into_iter().flat_map(treebank::words).collect(),
        }
    }

    /// Its name in tables and settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ptb => "ptb",
            Self::Treebank => "treebank",
            Self::Whitespace => "whitespace",
            Self::Python3Bytes => "python3_bytes",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line of `golden`: a caption, a tab, its words in JSON.
    fn agrees(tokenizer: Tokenizer, lowercase: bool, golden: &str) {
        let mut different = Vec::new();
        for line in golden.lines() {
            let (caption, wanted) = line.split_once('\t').expect("a line has two fields");
            let wanted: Vec<String> = serde_json::from_str(wanted).expect("words are JSON");
            let got = tokenizer.words(caption, lowercase);
            if got != wanted {
                different.push(format!("{caption}\n  got    {got:?}\n  wanted {wanted:?}"));
            }
        }
        let count = golden.lines().count();
        assert!(count >= 200, "only {count} golden captions");
        assert!(different.is_empty(), "{} of {count}:\n{}", different.len(), different.join("\n"));
    }

    /// `tests/golden/tokens.py` wrote the file.
    #[test]
    fn agrees_with_nltk_on_every_golden_caption() {
        agrees(Tokenizer::Treebank, true, include_str!("../../../tests/golden/tokens.tsv"));
    }

    /// `tests/golden/tokens_cased.py` wrote the file.
    #[test]
    fn agrees_with_nltk_on_captions_with_capitals() {
        agrees(Tokenizer::Treebank, false, include_str!("../../../tests/golden/tokens_cased.tsv"));
    }

    /// `tests/golden/python_bytes.py` wrote the file.
    #[test]
    fn agrees_with_python_on_captions_read_as_bytes() {
        agrees(Tokenizer::Python3Bytes, true, include_str!("../../../tests/golden/python_bytes.tsv"));
    }

    #[test]
    fn splits_at_white_space() {
        let words = |caption, lowercase| Tokenizer::Whitespace.words(caption, lowercase);
        assert_eq!(words(" A dog's  BALL.\u{a0}!\n", true), ["a", "dog's", "ball.", "!"]);
        assert_eq!(words("A dog", false), ["A", "dog"]);
        assert!(words(" \t", true).is_empty());
        assert!(Tokenizer::Treebank.words("", true).is_empty());
    }

    #[test]
    fn never_loses_a_letter() {
        let caption = "Two \"dogs\" -- (brown & white), aren't they? -- they're running... at 3.5 m/s, cannot stop. Ok";
        let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        assert_eq!(letters(&Tokenizer::Treebank.words(caption, true).concat()), letters(&caption.to_lowercase()));
    }
}
