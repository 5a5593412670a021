//! NLTK's `word_tokenize`: the sentence splitter, and the Penn Treebank tokeniser of NLTK 3.10 (`NLTKWordTokenizer`),
//! which follows the Treebank's own `tokenizer.sed`.
//!
//! Each rule is one pass over the text that inserts spaces; at the end the text is split at spaces. The order of the
//! rules matters.

/// Cuts one sentence into words.
#[must_use]
pub fn tokenize(sentence: &str) -> Vec<String> {
    let mut text: Vec<char> = sentence.trim().chars().collect();
    text = opening_quotes(&text);
    text = final_period(&text);
    text = colons_and_commas(&text);
    text = pad_runs(&text, '.', 2);
    text = pad(&text, |c| matches!(c, ';' | '@' | '#' | '$' | '%' | '&' | '\u{2012}'..='\u{2015}' | '?' | '!'));
    text = replace(&text, |at| match at {
        [c, '\'', ' ', ..] if *c != '\'' => Some((3, vec![*c, ' ', '\'', ' '])),
        _ => None,
    });
    text = pad(&text, |c| matches!(c, '*' | '[' | ']' | '(' | ')' | '{' | '}' | '<' | '>'));
    text = replace(&text, |at| at.starts_with(&['-', '-']).then(|| (2, " -- ".chars().collect())));
    text = closing_quotes(&text);
    text = endings(&text);
    text = contractions(&text);
    String::from_iter(text).split_whitespace().map(str::to_owned).collect()
}

fn opening_quotes(text: &[char]) -> Vec<char> {
    let mut text = pad(text, |c| matches!(c, '«' | '“' | '‘' | '„'));
    text = pad_runs(&text, '`', 1);
    if text.first() == Some(&'"') {
        text.splice(..1, ['`', '`']);
    }
    text = replace(&text, |at| at.starts_with(&['`', '`']).then(|| (2, " `` ".chars().collect())));
    text = replace(&text, |at| match at {
        [c @ (' ' | '(' | '[' | '{' | '<'), '"', ..] => Some((2, vec![*c, ' ', '`', '`', ' '])),
        [c @ (' ' | '(' | '[' | '{' | '<'), '\'', '\'', ..] => Some((3, vec![*c, ' ', '`', '`', ' '])),
        _ => None,
    });
    // A quote before a word is separated from it, unless the word ends a contraction. Such words have at most two
    // letters.
    let mut out = Vec::with_capacity(text.len());
    for (i, &c) in text.iter().enumerate() {
        out.push(c);
        if c == '\'' && !(i > 0 && is_word(text[i - 1])) {
            let word: String = text[i + 1..].iter().take(3).take_while(|c| is_word(**c)).collect();
            let contraction =
                matches!(word.to_ascii_lowercase().as_str(), "re" | "ve" | "ll" | "m" | "t" | "s" | "d" | "n");
            if !word.is_empty() && !contraction {
                out.push(' ');
            }
        }
    }
    out
}

/// Separates a period at the end of the text. Quotes and brackets may follow it.
fn final_period(text: &[char]) -> Vec<char> {
    let closes = |c: &char| matches!(c, ']' | ')' | '}' | '>' | '"' | '\'' | '»' | '”' | '’' | ' ');
    match text.iter().rposition(|c| *c == '.') {
        Some(at) if at > 0 && text[at - 1] != '.' && text[at + 1..].iter().all(closes) => {
            [&text[..at], &[' ', '.', ' '], &text[at + 1..], &[' ']].concat()
        }
        _ => text.to_vec(),
    }
}

/// Separates colons and commas that no digit follows.
fn colons_and_commas(text: &[char]) -> Vec<char> {
    let mut out = replace(text, |at| match at {
        [c @ (':' | ','), next, ..] if !next.is_numeric() => Some((2, vec![' ', *c, ' ', *next])),
        _ => None,
    });
    if let Some(&c @ (':' | ',')) = out.last() {
        out.pop();
        out.extend([' ', c, ' ']);
    }
    out
}

fn closing_quotes(text: &[char]) -> Vec<char> {
    let text = pad(text, |c| matches!(c, '»' | '”' | '’'));
    let text = replace(&text, |at| at.starts_with(&['\'', '\'']).then(|| (2, " '' ".chars().collect())));
    replace(&text, |at| at.starts_with(&['"']).then(|| (1, " '' ".chars().collect())))
}

/// Separates contracted endings: `'s`, `'ll`, `n't`.
fn endings(text: &[char]) -> Vec<char> {
    let single_spaced = String::from_iter(text);
    let joined = single_spaced.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut text: Vec<char> = format!(" {joined} ").chars().collect();
    for endings in [&["'s ", "'m ", "'d ", "' "][..], &["'ll ", "'re ", "'ve ", "n't "][..]] {
        text = replace(&text, |at| {
            let (first, rest) = at.split_first()?;
            if matches!(first, '\'' | ' ') {
                return None;
            }
            let ending = endings.iter().find(|ending| starts_with(rest, ending))?.len();
            let shouted = rest[..ending].iter().filter(|c| c.is_alphabetic()).all(char::is_ascii_uppercase);
            if ending > 3 && !shouted && rest[..ending].iter().any(char::is_ascii_uppercase) {
                return None;
            }
            let mut out = vec![*first, ' '];
            out.extend(&rest[..ending]);
            Some((1 + ending, out))
        });
    }
    text
}

/// Splits contractions that are written as one word, such as `cannot`.
fn contractions(text: &[char]) -> Vec<char> {
    const PAIRS: [(&str, &str); 8] = [
        ("can", "not"),
        ("d", "'ye"),
        ("gim", "me"),
        ("gon", "na"),
        ("got", "ta"),
        ("lem", "me"),
        ("more", "'n"),
        ("wan", "na"),
    ];
    let mut out = Vec::with_capacity(text.len());
    let mut i = 0;
    while i < text.len() {
        let boundary = i == 0 || !is_word(text[i - 1]);
        let pair = PAIRS.iter().find(|(first, second)| {
            let length = first.len() + second.len();
            boundary
                && starts_with(&text[i..], first)
                && starts_with(&text[i + first.len()..], second)
                && text.get(i + length).is_none_or(|c| !is_word(*c))
                && (*first != "wan" || text.get(i + length).is_some_and(|c| c.is_whitespace()))
        });
        if let Some((first, second)) = pair {
            let (first, rest) = text[i..].split_at(first.len());
            let second = &rest[..second.len()];
            out.extend([&[' '], first, &[' '], second, &[' ']].concat());
            i += first.len() + second.len();
        } else {
            out.push(text[i]);
            i += 1;
        }
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// True if `text` starts with `pattern`, which is in lower case; ignores case.
fn starts_with(text: &[char], pattern: &str) -> bool {
    let mut chars = text.iter();
    pattern.chars().all(|expected| chars.next().is_some_and(|c| c.eq_ignore_ascii_case(&expected)))
}

/// Puts spaces around every character for which `is` holds.
fn pad(text: &[char], is: impl Fn(char) -> bool) -> Vec<char> {
    let mut out = Vec::with_capacity(text.len() + 8);
    for &c in text {
        if is(c) { out.extend([' ', c, ' ']) } else { out.push(c) }
    }
    out
}

/// Puts spaces around every run of at least `least` characters `c`.
fn pad_runs(text: &[char], c: char, least: usize) -> Vec<char> {
    replace(text, |at| {
        let run = at.iter().take_while(|x| **x == c).count();
        (run >= least && run > 0).then(|| {
            let mut out = vec![' '];
            out.extend(&at[..run]);
            out.push(' ');
            (run, out)
        })
    })
}

/// Replaces from left to right. `rule` gets the rest of the text and returns the length of a match at its start and the
/// replacement.
fn replace(text: &[char], rule: impl Fn(&[char]) -> Option<(usize, Vec<char>)>) -> Vec<char> {
    let mut out = Vec::with_capacity(text.len() + 8);
    let mut i = 0;
    while i < text.len() {
        if let Some((length, replacement)) = rule(&text[i..]) {
            out.extend(replacement);
            i += length.max(1);
        } else {
            out.push(text[i]);
            i += 1;
        }
    }
    out
}

// Sentence splitter: Punkt (Kiss and Strunk, "Unsupervised Multilingual Sentence Boundary Detection", Computational
// Linguistics 32(4), 2006) without its learned statistics of capitalisation.
//
// For captions it decides only if a period inside the caption is separated from its word. Punkt's learned list of
// abbreviations is replaced by the few that occur in captions.

/// Abbreviations, whose period ends no sentence.
pub const ABBREVIATIONS: [&str; 20] = [
    "mr", "mrs", "ms", "dr", "st", "vs", "jr", "sr", "prof", "gen", "sgt", "lt", "col", "etc", "no", "mt", "ft", "u.s",
    "e.g", "i.e",
];

/// Splits `text` into sentences, without the white space around them.
///
/// A sentence ends after a word that ends with `?`, `!` or a single period. A period ends no sentence after an
/// abbreviation or a single letter, and after a number only if the next word starts with a capital.
#[must_use]
pub fn split_sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let end = word.as_ptr() as usize - text.as_ptr() as usize + word.len();
        let capital = words.peek().is_some_and(|next| next.starts_with(char::is_uppercase));
        if ends_sentence(word, capital) {
            found.push(text[start..end].trim());
            start = end;
        }
    }
    found.push(text[start..].trim());
    found.retain(|sentence| !sentence.is_empty());
    found
}

fn ends_sentence(word: &str, before_capital: bool) -> bool {
    if word.ends_with(['?', '!']) {
        return true;
    }
    let Some(stem) = word.strip_suffix('.') else { return false };
    if stem.is_empty() || stem.ends_with('.') {
        return stem.is_empty();
    }
    let stem = stem.rsplit(['(', '[', '{', '"', '*', '@', ':', ';', '?', '!', ')', ']', '}']).next().unwrap_or(stem);
    let mut letters = stem.chars();
    let single = letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none();
    let number = stem.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '-'))
        && stem.chars().any(|c| c.is_ascii_digit());
    let stem = stem.to_lowercase();
    let last = stem.rsplit('-').next().unwrap_or(&stem);
    !single && (!number || before_capital) && !ABBREVIATIONS.contains(&stem.as_str()) && !ABBREVIATIONS.contains(&last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_quotes_contractions_and_punctuation() {
        assert_eq!(tokenize("the dog's ball isn't red."), ["the", "dog", "'s", "ball", "is", "n't", "red", "."]);
        assert_eq!(tokenize("\"stop\", she said"), ["``", "stop", "''", ",", "she", "said"]);
        assert_eq!(tokenize("he can't, cannot: 3,000"), ["he", "ca", "n't", ",", "can", "not", ":", "3,000"]);
        assert_eq!(tokenize("u.s. flag (red)..."), ["u.s.", "flag", "(", "red", ")", "..."]);
        assert_eq!(
            tokenize("gimme more'n one 'cause 'tis"),
            ["gim", "me", "more", "'n", "one", "'", "cause", "'", "tis"]
        );
    }

    #[test]
    fn ends_at_periods_but_not_at_abbreviations() {
        assert_eq!(split_sentences("a dog runs. it is wet ."), ["a dog runs.", "it is wet ."]);
        assert_eq!(split_sentences("mr. smith has no. 5. a hat"), ["mr. smith has no. 5. a hat"]);
        assert_eq!(split_sentences("Mr. Smith runs. Dr. No too"), ["Mr. Smith runs.", "Dr. No too"]);
        assert_eq!(split_sentences("so... he j. runs ! ok"), ["so... he j. runs !", "ok"]);
        assert!(split_sentences("  ").is_empty());
    }
}
