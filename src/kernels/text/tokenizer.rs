//! The tokenisers of a pipeline: they cut a caption into words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::treebank::split_sentences;
use super::{ptb, treebank};

/// Tokeniser: cuts a caption into words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tokenizer {
    /// NLTK's `word_tokenize`, as VSE++ and its successors use it: the Treebank rules, applied to each sentence. The
    /// period at the end of a sentence is a word; `don't` becomes `do` and `n't`.
    #[default]
    Treebank,
    /// Splits at white space.
    Whitespace,
    /// The tokeniser of the COCO evaluation: Stanford's Penn Treebank tokeniser, then punctuation is dropped.
    Ptb,
    /// `treebank` applied to the trimmed caption as Python 3 prints bytes, `b'a dog .'`. The published code of HAL,
    /// CVSE and SAM does this under Python 3. For checkpoints that were trained with it.
    Python3Bytes,
}

impl Tokenizer {
    /// All tokenisers.
    pub const ALL: [Self; 4] = [Self::Ptb, Self::Treebank, Self::Whitespace, Self::Python3Bytes];

    /// Cuts `caption` into words, in lower case if `lowercase`.
    #[must_use]
    pub fn tokenize(self, caption: &str, lowercase: bool) -> Vec<String> {
        if self == Self::Ptb {
            // The rules depend on case, so the words are lowercased, not the caption.
            return ptb::tokenize(caption, lowercase);
        }
        let caption = if self == Self::Python3Bytes { &bytes_repr(caption.trim()) } else { caption };
        let caption = if lowercase { &caption.to_lowercase() } else { caption };
        match self {
            Self::Whitespace => caption.split_whitespace().map(str::to_owned).collect(),
            _ => split_sentences(caption).into_iter().flat_map(treebank::tokenize).collect(),
        }
    }

    /// Number of the rules, part of the keys of results; `None` for rules that never changed.
    #[must_use]
    pub fn revision(self) -> Option<u32> {
        // Revision 2 has the character classes of the published program, and more of its patterns.
        (self == Self::Ptb).then_some(2)
    }

    /// The name in tables and settings.
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

// Python 3's `str` of a bytes object. Published training code tokenises this form if it opens a file of captions as
// bytes and calls `str(line)`.

/// Formats the UTF-8 bytes of `text` as `b'…'`.
///
/// The quotes are double if the text has single quotes and no double quotes. Tab, line feed and carriage return become
/// `\t`, `\n` and `\r`, and a backslash is doubled. Other bytes that are not printable ASCII are written as `\xe4`.
#[must_use]
pub fn bytes_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = format!("b{quote}");
    for byte in text.bytes() {
        match byte {
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\\' => out.push_str("\\\\"),
            b'\'' if quote == '\'' => out.push_str("\\'"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares with `golden`, whose lines are a caption, a tab and its words in JSON.
    fn assert_agrees(tokenizer: Tokenizer, lowercase: bool, golden: &str) {
        let mut different = Vec::new();
        for line in golden.lines() {
            let (caption, expected) = line.split_once('\t').expect("a line has two fields");
            let expected: Vec<String> = serde_json::from_str(expected).expect("words are JSON");
            let got = tokenizer.tokenize(caption, lowercase);
            if got != expected {
                different.push(format!("{caption}\n  got    {got:?}\n  expected {expected:?}"));
            }
        }
        let count = golden.lines().count();
        assert!(count >= 200, "only {count} golden captions");
        assert!(different.is_empty(), "{} of {count}:\n{}", different.len(), different.join("\n"));
    }

    /// `tests/golden/tokens.py` wrote the file.
    #[test]
    fn agrees_with_nltk_on_every_golden_caption() {
        assert_agrees(Tokenizer::Treebank, true, include_str!("../../../tests/golden/tokens.tsv"));
    }

    /// `tests/golden/tokens_cased.py` wrote the file.
    #[test]
    fn agrees_with_nltk_on_captions_with_capitals() {
        assert_agrees(Tokenizer::Treebank, false, include_str!("../../../tests/golden/tokens_cased.tsv"));
    }

    /// `tests/golden/python_bytes.py` wrote the file.
    #[test]
    fn agrees_with_python_on_captions_read_as_bytes() {
        assert_agrees(Tokenizer::Python3Bytes, true, include_str!("../../../tests/golden/python_bytes.tsv"));
    }

    #[test]
    fn splits_at_white_space() {
        let words = |caption, lowercase| Tokenizer::Whitespace.tokenize(caption, lowercase);
        assert_eq!(words(" A dog's  BALL.\u{a0}!\n", true), ["a", "dog's", "ball.", "!"]);
        assert_eq!(words("A dog", false), ["A", "dog"]);
        assert!(words(" \t", true).is_empty());
        assert!(Tokenizer::Treebank.tokenize("", true).is_empty());
    }

    #[test]
    fn keeps_every_letter() {
        let caption = "Two \"dogs\" -- (brown & white), aren't they? -- they're running... at 3.5 m/s, cannot stop. Ok";
        let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        assert_eq!(letters(&Tokenizer::Treebank.tokenize(caption, true).concat()), letters(&caption.to_lowercase()));
    }

    #[test]
    fn agrees_with_python() {
        // CPython 3.11 prints these for `str(text.encode())`.
        assert_eq!(bytes_repr("A man ."), r"b'A man .'");
        assert_eq!(bytes_repr("a dog's ball"), r#"b"a dog's ball""#);
        assert_eq!(bytes_repr("the \"dog\""), r#"b'the "dog"'"#);
        assert_eq!(bytes_repr("dog's \"ball\""), r#"b'dog\'s "ball"'"#);
        assert_eq!(bytes_repr("café\t\\\n\r\u{7f}\0"), r"b'caf\xc3\xa9\t\\\n\r\x7f\x00'");
        assert_eq!(bytes_repr(""), "b''");
    }
}
