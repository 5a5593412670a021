//! From a caption to its words.

use super::sentences::sentences;
use super::treebank::words;

/// The lower-cased words of `caption` as NLTK's `word_tokenize` cuts them: sentences, then the Treebank rules of each.
///
/// A period belongs to the last word of a sentence and is a word of its own; `don't` is `do` and `n't`.
#[must_use]
pub fn treebank(caption: &str) -> Vec<String> {
    let lower = caption.to_lowercase();
    sentences(&lower).into_iter().flat_map(words).collect()
}

/// The lower-cased words of `caption` between white space.
#[must_use]
pub fn whitespace(caption: &str) -> Vec<String> {
    caption.to_lowercase().split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line: a caption, a tab, its words in JSON as NLTK gives them; `tests/golden/tokens.py` wrote it.
    #[test]
    fn agrees_with_nltk_on_every_golden_caption() {
        let golden = include_str!("../../../tests/golden/tokens.tsv");
        let mut different = Vec::new();
        let mut count = 0;
        for line in golden.lines() {
            let (caption, wanted) = line.split_once('\t').expect("a line has two fields");
            let wanted: Vec<String> = serde_json::from_str(wanted).expect("words are JSON");
            let got = treebank(caption);
            if got != wanted {
                different.push(format!("{caption}\n  got    {got:?}\n  wanted {wanted:?}"));
            }
            count += 1;
        }
        assert!(count >= 200, "only {count} golden captions");
        assert!(different.is_empty(), "{} of {count}:\n{}", different.len(), different.join("\n"));
    }

    #[test]
    fn splits_at_white_space() {
        assert_eq!(whitespace(" A dog's  BALL.\u{a0}!\n"), ["a", "dog's", "ball.", "!"]);
        assert!(whitespace(" \t").is_empty());
        assert!(treebank("").is_empty());
    }

    #[test]
    fn never_loses_a_letter() {
        let caption = "Two \"dogs\" -- (brown & white), aren't they? -- they're running... at 3.5 m/s, cannot stop. Ok";
        let letters = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
        assert_eq!(letters(&treebank(caption).concat()), letters(&caption.to_lowercase()));
    }
}
