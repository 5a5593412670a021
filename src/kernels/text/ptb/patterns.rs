//! Patterns of the PTB tokeniser: one function for each kind of token.

use super::abbreviations::{abbreviation, acronym};
use super::addresses::{address, entity, handle, mail, tag};
use super::apostrophes::{before_contraction, before_not, before_vowel, contraction, elision, fused_words};
use super::pattern_match::{
    PatternMatch, is_letter, is_letter_or_digit, run_length, starts_with_ignoring_case, whole_match,
};

/// A pattern: `None` if the text does not start with it.
type Pattern = fn(&[char]) -> Option<PatternMatch>;

/// All patterns. Among matches that examined equally many characters, the first one wins.
const PATTERNS: [Pattern; 21] = [
    fused_words,
    before_not,
    before_contraction,
    contraction,
    elision,
    before_vowel,
    word_with_periods,
    hyphenated,
    slashed,
    ampersand,
    acronym,
    abbreviation,
    number,
    address,
    mail,
    handle,
    dollars,
    tag,
    entity,
    smiley,
    run,
];

/// Length of the token at the start of a text that does not start with white space; at least 1.
pub(super) fn longest_token(text: &[char]) -> usize {
    let mut best = PatternMatch { examined: 1, token_length: 1 };
    for found in PATTERNS.iter().filter_map(|pattern| pattern(text)) {
        if found.examined > best.examined {
            best = found;
        }
    }
    best.token_length
}

/// Letters and digits, optionally joined by a period, question mark or exclamation mark without a space: `shirt.The`.
fn word_with_periods(text: &[char]) -> Option<PatternMatch> {
    if !text.first().is_some_and(|&c| is_letter(c)) {
        return None;
    }
    let mut length = run_length(text, is_letter_or_digit);
    while matches!(text.get(length..), Some(['.' | '!' | '?', c, ..]) if is_letter(*c)) {
        length += 1 + run_length(&text[length + 1..], is_letter_or_digit);
    }
    whole_match(length)
}

/// Letters and digits, or a decimal number, joined by single hyphens or underscores.
fn hyphenated(text: &[char]) -> Option<PatternMatch> {
    let mut length = run_length(text, is_letter_or_digit);
    if length == 0 {
        return None;
    }
    if let Some(['.' | ',', c, ..]) = text.get(length..) {
        let digits = run_length(&text[length + 1..], |c| c.is_ascii_digit());
        let decimal = c.is_ascii_digit() && text[..length].iter().all(char::is_ascii_digit);
        length += if decimal && text.get(length + 1 + digits) == Some(&'-') { 1 + digits } else { 0 };
    }
    while matches!(text.get(length..), Some(['-' | '_', c, ..]) if is_letter_or_digit(*c)) {
        length += 1 + run_length(&text[length + 1..], is_letter_or_digit);
    }
    whole_match(length)
}

/// Words joined by one or two slashes: `and/or`, `24/7`, `ski-jump/snow`.
fn slashed(text: &[char]) -> Option<PatternMatch> {
    let part = |text: &[char]| {
        let mut length = run_length(text, |c| c.is_ascii_alphanumeric());
        for _ in 0..if length > 0 { 2 } else { 0 } {
            if matches!(text.get(length..), Some(['-', c, ..]) if c.is_ascii_alphabetic()) {
                length += 1 + run_length(&text[length + 1..], |c| c.is_ascii_alphabetic());
            }
        }
        if length > 0 && text[..length].iter().all(char::is_ascii_digit) && text.get(length) == Some(&'-') {
            let digits = run_length(&text[length + 1..], |c| c.is_ascii_digit());
            if digits > 0 && text.get(length + 1 + digits) == Some(&'/') {
                length += 1 + digits;
            }
        }
        length
    };
    let mut length = part(text);
    let mut slashes = 0;
    while length > 0 && slashes < 2 && text.get(length) == Some(&'/') && part(&text[length + 1..]) > 0 {
        length += 1 + part(&text[length + 1..]);
        slashes += 1;
    }
    if slashes > 0 { whole_match(length) } else { None }
}

/// Capitals joined by `&` or `+`: `AT&T`.
fn ampersand(text: &[char]) -> Option<PatternMatch> {
    let mut length = run_length(text, |c| c.is_ascii_uppercase());
    let mut joins = 0;
    while length > 0 {
        let rest = &text[length..];
        let join = if starts_with_ignoring_case(rest, &["&amp;"]) {
            5
        } else {
            usize::from(matches!(rest.first(), Some('&' | '+')))
        };
        let next = rest.get(join..).map_or(0, |rest| run_length(rest, |c| c.is_ascii_uppercase()));
        if join == 0 || next == 0 {
            break;
        }
        length += join + next;
        joins += 1;
    }
    if joins > 0 { whole_match(length) } else { None }
}

/// Digits joined by commas, periods or colons, optionally with a sign: `1,000.50`, `10:30`, `.5`.
fn number(text: &[char]) -> Option<PatternMatch> {
    let sign = usize::from(matches!(text.first(), Some('+' | '-')));
    let digits = |text: &[char]| run_length(text, |c| c.is_ascii_digit());
    let mut length = sign + digits(&text[sign..]);
    while matches!(text.get(length..), Some(['.' | ',' | ':', c, ..]) if c.is_ascii_digit()) {
        length += 1 + digits(&text[length + 1..]);
    }
    if length > sign && text[sign] != ',' { whole_match(length) } else { None }
}

/// Dollar sign with the letters of a country: `US$`.
fn dollars(text: &[char]) -> Option<PatternMatch> {
    let letters = run_length(text, |c| c.is_ascii_uppercase());
    let known = ["US", "HK", "NZ", "C", "A", "M", "S"]
        .iter()
        .any(|w| w.len() == letters && starts_with_ignoring_case(text, &[w]));
    if known && text.get(letters) == Some(&'$') { whole_match(letters + 1) } else { None }
}

/// Smileys: `:)`, `;-D`.
fn smiley(text: &[char]) -> Option<PatternMatch> {
    let hat = usize::from(matches!(text.first(), Some('<' | '>')));
    if !matches!(text.get(hat), Some(':' | ';' | '=')) {
        return None;
    }
    let nose = usize::from(matches!(text.get(hat + 1), Some('-' | 'o' | '*' | '\'')));
    let mouth = |at: usize| {
        matches!(text.get(at), Some('(' | ')' | 'D' | 'P' | 'd' | 'p' | 'O' | '\\' | '{' | '@' | '|' | '[' | ']'))
    };
    let length = if nose > 0 && mouth(hat + 2) {
        hat + 3
    } else if mouth(hat + 1) {
        hat + 2
    } else {
        return None;
    };
    let ends = text.get(length).is_none_or(|c| !c.is_ascii_alphanumeric());
    ends.then_some(PatternMatch { examined: length + 1, token_length: length })
}

/// Runs of the same mark, of question and exclamation marks, or of periods separated by spaces.
fn run(text: &[char]) -> Option<PatternMatch> {
    let first = *text.first()?;
    match first {
        '-' | '*' | '#' | '_' => whole_match(run_length(text, |c| c == first)),
        '?' | '!' => whole_match(run_length(text, |c| matches!(c, '?' | '!'))),
        '.' => {
            let spaced = text.chunks(2).take(4).take_while(|pair| *pair == ['.', ' ']).count();
            let spaced = if text.get(2 * spaced) == Some(&'.') { 2 * spaced + 1 } else { (2 * spaced).max(1) - 1 };
            let points = run_length(text, |c| c == '.').min(5);
            if points > 2 {
                whole_match(points)
            } else if spaced > 4 {
                whole_match(spaced)
            } else {
                None
            }
        }
        '`' => whole_match(run_length(text, |c| c == '`').min(2)),
        '\'' => whole_match(run_length(text, |c| c == '\'').min(2)),
        _ => None,
    }
}
