//! Tokeniser of CLIP: cleaning of a caption, and byte-pair encoding with the merges of a file.
//!
//! The vocabulary has the 256 bytes, each also as the end of a word, then the result of each merge, then the start and
//! the end of a text. A word is split into its bytes, and the pair that was merged first in the file is merged as long as
//! there is one.
//!
//! Source: `SimpleTokenizer` of `open_clip`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::iter;
use std::sync::LazyLock;

use regex::Regex;

use pairloom_base::error::{Error, Result};

pub use cleaning::clean;

mod cleaning;
#[cfg(test)]
mod golden_tests;

/// Number of merges that are used; a file may have more.
const MERGES: usize = 49_152 - 256 - 2;
/// Mark of the end of a word in a file of merges.
const WORD_END: &str = "</w>";
/// Token of the start of a text.
pub const START: i32 = 49_406;
/// Token of the end of a text.
pub const END: i32 = 49_407;

/// Place of a symbol that a merge has taken. No pair has it.
const TAKEN: i32 = -1;

/// Words of a cleaned caption: the names of the two marks, English endings, runs of letters, single digits, and runs of
/// other characters.
static WORDS: LazyLock<Regex> = LazyLock::new(|| {
    let pattern = r"(?i)<start_of_text>|<end_of_text>|'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+";
    Regex::new(pattern).expect("a valid regular expression")
});

/// Tokeniser of captions for CLIP's text tower.
#[derive(Debug, Clone)]
pub struct ClipTokenizer {
    /// Token of each byte within a word, and at its end.
    bytes: [(i32, i32); 256],
    /// Rank of the merge of two tokens, and the token that they become.
    merges: HashMap<(i32, i32), (usize, i32)>,
}

impl ClipTokenizer {
    /// Reads the text of a file of merges: a line that is not read, then two symbols a line (`bpe_simple_vocab_16e6.txt`
    /// of OpenAI and `open_clip`, or `merges.txt` of CLIP on Hugging Face).
    ///
    /// # Errors
    /// Too few lines, a line without two symbols, or a symbol that no earlier line makes. The message has its number.
    pub fn new(text: &str) -> Result<Self> {
        let letters = byte_letters();
        let mut ids = HashMap::new();
        let mut count = 0;
        let mut add = |ids: &mut HashMap<String, i32>, symbol: String| {
            ids.insert(symbol, count);
            count += 1;
        };
        for end in ["", WORD_END] {
            for (_, letter) in &letters {
                add(&mut ids, format!("{letter}{end}"));
            }
        }
        let mut pairs = Vec::with_capacity(MERGES);
        for (number, line) in text.lines().enumerate().skip(1).take(MERGES) {
            let mut symbols = line.split_whitespace();
            let (Some(first), Some(second), None) = (symbols.next(), symbols.next(), symbols.next()) else {
                return Err(wrong_file(&format!("line {} is `{}`, expected two symbols", number + 1, shortened(line))));
            };
            if let Some(unknown) = [first, second].into_iter().find(|symbol| !ids.contains_key(*symbol)) {
                let message = format!("line {}: no earlier line makes `{}`", number + 1, shortened(unknown));
                return Err(wrong_file(&message));
            }
            add(&mut ids, format!("{first}{second}"));
            pairs.push((first, second));
        }
        if pairs.len() < MERGES {
            return Err(wrong_file(&format!("got {} merges, expected {MERGES}", pairs.len())));
        }
        let mut merges = HashMap::with_capacity(MERGES);
        for (rank, (first, second)) in pairs.into_iter().enumerate() {
            let merged = ids[format!("{first}{second}").as_str()];
            merges.entry((ids[first], ids[second])).or_insert((rank, merged));
        }
        let mut bytes = [(0, 0); 256];
        for (byte, letter) in letters {
            bytes[usize::from(byte)] = (ids[&letter.to_string()], ids[&format!("{letter}{WORD_END}")]);
        }
        Ok(Self { bytes, merges })
    }

    /// Encodes a caption: its start, its tokens and its end. A text of more than `length` tokens is cut, and its last
    /// token is the end.
    #[must_use]
    pub fn encode(&self, text: &str, length: usize) -> Vec<i32> {
        let mut tokens = vec![START];
        for word in WORDS.find_iter(&clean(text)) {
            match word.as_str() {
                "<start_of_text>" => tokens.push(START),
                "<end_of_text>" => tokens.push(END),
                word => self.append_word(word, &mut tokens),
            }
        }
        tokens.push(END);
        if tokens.len() > length {
            tokens.truncate(length);
            if let Some(last) = tokens.last_mut() {
                *last = END;
            }
        }
        tokens
    }

    /// Adds the tokens of a word. Takes n · log n for n bytes: a word may fill a caption of kilobytes.
    fn append_word(&self, word: &str, tokens: &mut Vec<i32>) {
        let mut symbols: Vec<i32> = word.bytes().map(|byte| self.bytes[usize::from(byte)].0).collect();
        if let (Some(last), Some(byte)) = (symbols.last_mut(), word.bytes().last()) {
            *last = self.bytes[usize::from(byte)].1;
        }
        // A linked list: a merge puts its result in the place of the first symbol and takes the second one out.
        let end = symbols.len();
        let mut following: Vec<usize> = (1..=end).collect();
        let mut preceding: Vec<usize> = iter::once(end).chain(0..end).take(end).collect();
        let merge_at = |symbols: &[i32], following: &[usize], place: usize| {
            let second = symbols.get(*following.get(place)?)?;
            self.merges.get(&(symbols[place], *second)).copied()
        };
        let rank_at = |symbols: &[i32], following: &[usize], place: usize| {
            merge_at(symbols, following, place).map(|(rank, _)| Reverse((rank, place)))
        };
        let mut queue: BinaryHeap<_> = (0..end).filter_map(|place| rank_at(&symbols, &following, place)).collect();
        let mut merged_places = Vec::new();
        while let Some(&Reverse((rank, _))) = queue.peek() {
            // All pairs of a rank are merged, from the left, before a pair that arises of them is looked at.
            while let Some(&Reverse((other, place))) = queue.peek()
                && other == rank
            {
                queue.pop();
                // Other merges may have taken one of the two symbols since.
                let Some((_, merged)) = merge_at(&symbols, &following, place).filter(|found| found.0 == rank) else {
                    continue;
                };
                let second = following[place];
                symbols[place] = merged;
                symbols[second] = TAKEN;
                following[place] = following[second];
                if let Some(before) = preceding.get_mut(following[second]) {
                    *before = place;
                }
                merged_places.push(place);
            }
            for place in merged_places.drain(..) {
                queue.extend(
                    [preceding[place], place].into_iter().filter_map(|first| rank_at(&symbols, &following, first)),
                );
            }
        }
        tokens.extend(symbols.into_iter().filter(|&symbol| symbol != TAKEN));
    }
}

/// Letters that stand for the 256 bytes in a file of merges, in the order of the vocabulary: printable ones stand for
/// themselves, the others follow from U+0100 on.
fn byte_letters() -> Vec<(u8, char)> {
    let printable = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let visible = (0..=u8::MAX).filter(printable).map(|byte| (byte, char::from(byte)));
    let others = (0..=u8::MAX).filter(|byte| !printable(byte)).zip('\u{100}'..);
    visible.chain(others).collect()
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

fn wrong_file(message: &str) -> Error {
    Error::data(format!("not the merges of CLIP: {message}"))
        .hint("give `bpe_simple_vocab_16e6.txt.gz` of OpenAI's CLIP or `open_clip`, packed or not")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_the_letters_of_the_published_code() {
        let letters: HashMap<u8, char> = byte_letters().into_iter().collect();
        assert_eq!(letters.len(), 256);
        assert_eq!([b'a', b' ', 0, 0xad, 0xff].map(|byte| letters[&byte]), ['a', 'Ġ', 'Ā', 'Ń', 'ÿ']);
    }

    /// Tokens of a word, with a pass over all of it for each merge, as the published code computes them.
    fn in_passes(tokenizer: &ClipTokenizer, word: &str) -> Vec<i32> {
        let bytes = word.as_bytes();
        let token = |(place, &byte): (usize, &u8)| {
            let (inner, last) = tokenizer.bytes[usize::from(byte)];
            if place + 1 == bytes.len() { last } else { inner }
        };
        let mut symbols: Vec<i32> = bytes.iter().enumerate().map(token).collect();
        let merge = |pair: &[i32]| tokenizer.merges.get(&(pair[0], pair[1])).copied();
        while let Some((rank, merged)) = symbols.windows(2).filter_map(merge).min() {
            let mut next = Vec::new();
            let mut rest = symbols.as_slice();
            while let [first, after @ ..] = rest {
                let found = rest.get(..2).and_then(merge).is_some_and(|(other, _)| other == rank);
                next.push(if found { merged } else { *first });
                rest = if found { &after[1..] } else { after };
            }
            symbols = next;
        }
        symbols
    }

    proptest::proptest! {
        #[test]
        fn words_have_the_tokens_of_passes_over_them(
            word in "[abc]{1,60}",
            // A symbol may be made by two merges, and be in a pair that comes before the second of them.
            pairs in proptest::collection::vec((1..14, 1..14), 1..16),
        ) {
            let mut bytes = [(0, 0); 256];
            for (token, letter) in (1..).zip("abc".bytes()) {
                bytes[usize::from(letter)] = (token, token + 3);
            }
            let results = (7..14).cycle();
            let mut merges = HashMap::new();
            for ((rank, pair), merged) in pairs.into_iter().enumerate().zip(results) {
                // The result of a merge is none of its symbols.
                if pair.0 != merged && pair.1 != merged {
                    merges.entry(pair).or_insert((rank, merged));
                }
            }
            let tokenizer = ClipTokenizer { bytes, merges };
            let mut tokens = Vec::new();
            tokenizer.append_word(&word, &mut tokens);
            proptest::prop_assert_eq!(&tokens, &in_passes(&tokenizer, &word), "{:?}", tokenizer.merges);
        }
    }

    #[test]
    fn a_wrong_file_is_refused_with_the_line() {
        for (text, expected) in [
            ("", "got 0 merges"),
            ("#version\ni n\nin g</w> x\n", "line 3 is `in g</w> x`"),
            ("#version\ni n\nan d</w>\n", "line 3: no earlier line makes `an`"),
            ("#version\ni n\n", "got 1 merges, expected 48894"),
        ] {
            let error = ClipTokenizer::new(text).expect_err("a wrong file").to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
