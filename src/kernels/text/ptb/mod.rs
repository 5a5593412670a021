//! Tokeniser of the COCO evaluation: the Penn Treebank tokeniser of Stanford's `CoreNLP` 3.4.1, then punctuation is
//! dropped (Chen et al., "Microsoft COCO Captions: Data Collection and Evaluation Server", 2015).
//!
//! Written from the output of that program, not from its source. As in any lexer, the longest match wins at every
//! position. Two quirks of the evaluation are kept. In lower case, brackets stay as `-lrb-` and similar tokens,
//! because the list of punctuation has them in capitals. `!!` is not punctuation.
//!
//! Five things differ from the program: telephone numbers with brackets, letters written as `&eacute;`, backslashes
//! before `/` and `*`, marks other than quotes in tags, and a single letter and a period at the end of a caption. There
//! the program reads the captions as the lines of one file, and the next caption decides if the letter keeps its period.

use self::patterns::{SOFT_HYPHEN, is_apostrophe, is_contraction, is_token_character, longest_token, quote_text};

mod classes;
mod patterns;

/// Tokens that the evaluation drops.
const PUNCTUATION: [&str; 17] =
    ["''", "'", "``", "`", "-LRB-", "-RRB-", "-LCB-", "-RCB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"];

/// Cuts `caption` into words, in lower case if `lowercase`. The rules see the original case either way.
#[must_use]
pub fn tokenize(caption: &str, lowercase: bool) -> Vec<String> {
    let text: Vec<char> = caption.chars().collect();
    let mut words = Vec::new();
    let mut rest = text.as_slice();
    while let Some(&first) = rest.first() {
        if first.is_whitespace() {
            rest = &rest[1..];
            continue;
        }
        let (token, after) = rest.split_at(longest_token(rest));
        rest = after;
        let mut word = token_text(token);
        if lowercase {
            word = word.to_lowercase();
        }
        if !PUNCTUATION.contains(&word.as_str()) {
            // A tag may contain spaces, and the scorers split there.
            words.extend(word.split_whitespace().map(str::to_owned));
        }
    }
    words
}

/// The normalised text of a token; empty for a character that the tokeniser deletes.
fn token_text(token: &[char]) -> String {
    if let Some(quotes) = token.iter().map(|&c| quote_text(c)).collect::<Option<Vec<_>>>() {
        return quotes.concat();
    }
    let word: String = token.iter().collect();
    let special = match word.as_str() {
        "\"" | "&quot;" => "''",
        "&apos;" => "'",
        "…" => "...",
        "–" | "—" | "―" | "\u{96}" | "\u{97}" | "---" | "----" => "--",
        "&amp;" => "&",
        "&lt;" => "<",
        "&gt;" => ">",
        "&nbsp;" => "",
        "[" => "-LSB-",
        "]" => "-RSB-",
        "{" => "-LCB-",
        "}" => "-RCB-",
        "½" => "1/2",
        "¼" => "1/4",
        "¾" => "3/4",
        "⅓" => "1/3",
        "⅔" => "2/3",
        "£" => "#",
        "€" | "₠" | "¤" | "\u{80}" => "$",
        "¢" => "cents",
        _ if word.len() > 2 && token.iter().all(|c| matches!(c, '.' | ' ')) => "...",
        _ => {
            return match token {
                [c] if !is_token_character(*c) => String::new(),
                [.., apostrophe, _] | [.., apostrophe, _, _] if is_apostrophe(*apostrophe) && is_contraction(token) => {
                    word.replace(*apostrophe, "'")
                }
                // A tag.
                ['<', ..] => word,
                // In smileys too, brackets have names.
                _ => word.replace(SOFT_HYPHEN, "").replace("&amp;", "&").replace('(', "-LRB-").replace(')', "-RRB-"),
            };
        }
    };
    special.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line of the file is a caption, a tab, and the evaluation's words in lower case, separated by spaces.
    /// `tests/golden/ptb.py` wrote it.
    #[test]
    fn agrees_with_the_coco_evaluation_on_every_golden_caption() {
        let golden = include_str!("../../../../tests/golden/ptb.tsv");
        let mut different = Vec::new();
        for line in golden.lines() {
            let (caption, expected) = line.split_once('\t').expect("a line has two fields");
            let expected: Vec<&str> = expected.split(' ').filter(|word| !word.is_empty()).collect();
            let got = tokenize(caption, true);
            if got != expected {
                different.push(format!("{caption}\n  got    {got:?}\n  expected {expected:?}"));
            }
        }
        let count = golden.lines().count();
        assert!(count >= 200, "only {count} golden captions");
        assert!(different.is_empty(), "{} of {count}:\n{}", different.len(), different.join("\n"));
    }

    #[test]
    fn keeps_case_unless_lowercase_is_set() {
        assert_eq!(
            tokenize("A man's (big) T-shirt, in the U.S.", false),
            ["A", "man", "'s", "big", "T-shirt", "in", "the", "U.S."]
        );
        assert_eq!(tokenize("A (big) dog", true), ["a", "-lrb-", "big", "-rrb-", "dog"]);
        assert!(tokenize(" . , ! \n", true).is_empty());
    }

    #[test]
    fn takes_linear_time_on_repeated_prefixes_of_patterns() {
        for start in [
            "<a", "+", "a.-", "a+", "' ", "a'", ". ", "1,", "&", "a/", "(", "http://", "a,", "a.1", "a.,", "d‘", "a@",
            "a“",
        ] {
            let letters = start.repeat(100_000);
            assert!(tokenize(&letters, true).concat().len() <= 6 * letters.len());
        }
    }

    proptest::proptest! {
        #[test]
        fn keeps_every_letter_and_digit_of_ascii_text(text in "[ -%'-;=?-~]*") {
            let letters = |text: &str| text.chars().filter(char::is_ascii_alphanumeric).collect::<String>();
            let got = tokenize(&text.replace(['(', ')', '[', ']', '{', '}'], " "), false);
            proptest::prop_assert_eq!(letters(&got.concat()), letters(&text));
        }

        #[test]
        fn words_of_any_text_have_no_white_space(text: String) {
            let got = tokenize(&text, true);
            proptest::prop_assert!(got.iter().all(|word| !word.is_empty() && !word.contains(char::is_whitespace)));
        }
    }
}
