//! What a token of the PTB-style tokeniser is, one function a kind.

use super::abbreviations::{abbreviation, acronym};
use super::addresses::{address, entity, handle, mail, tag};
use super::apostrophes::{before_contraction, before_not, before_vowel, contraction, elision, joined};
use super::found::{Found, is_letter, is_letter_or_digit, run_of, same, whole};

/// A pattern: nothing where the text does not start with it.
type Pattern = fn(&[char]) -> Option<Found>;

/// In the order of preference where two see equally far.
const PATTERNS: [Pattern; 21] = [
    joined,
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

/// Length of the token at the start of a text that does not start with white space, at least 1.
pub(super) fn longest(text: &[char]) -> usize {
    let mut best = Found { seen: 1, taken: 1 };
    for found in PATTERNS.iter().filter_map(|pattern| pattern(text)) {
        if found.seen > best.seen {
            best = found;
        }
    }
    best.taken
}

/// Letters and digits, perhaps with a period, question or exclamation mark between them and no space: `shirt.The`.
fn word_with_periods(text: &[char]) -> Option<Found> {
    if !text.first().is_some_and(|&c| is_letter(c)) {
        return None;
    }
    let mut length = run_of(text, is_letter_or_digit);
    while matches!(text.get(length..), Some(['.' | '!' | '?', c, ..]) if is_letter(*c)) {
        length += 1 + run_of(&text[length + 1..], is_letter_or_digit);
    }
    whole(length)
}

/// Letters and digits, or a decimal number, with single hyphens or underscores between them.
fn hyphenated(text: &[char]) -> Option<Found> {
    let mut length = run_of(text, is_letter_or_digit);
    if length == 0 {
        return None;
    }
    if let Some(['.' | ',', c, ..]) = text.get(length..) {
        let digits = run_of(&text[length + 1..], |c| c.is_ascii_digit());
        let decimal = c.is_ascii_digit() && text[..length].iter().all(char::is_ascii_digit);
        length += if decimal && text.get(length + 1 + digits) == Some(&'-') { 1 + digits } else { 0 };
    }
    while matches!(text.get(length..), Some(['-' | '_', c, ..]) if is_letter_or_digit(*c)) {
        length += 1 + run_of(&text[length + 1..], is_letter_or_digit);
    }
    whole(length)
}

/// `and/or`, `24/7`, `ski-jump/snow`: one or two slashes.
fn slashed(text: &[char]) -> Option<Found> {
    let part = |text: &[char]| {
        let mut length = run_of(text, |c| c.is_ascii_alphanumeric());
        for _ in 0..if length > 0 { 2 } else { 0 } {
            if matches!(text.get(length..), Some(['-', c, ..]) if c.is_ascii_alphabetic()) {
                length += 1 + run_of(&text[length + 1..], |c| c.is_ascii_alphabetic());
            }
        }
        if length > 0 && text[..length].iter().all(char::is_ascii_digit) && text.get(length) == Some(&'-') {
            let digits = run_of(&text[length + 1..], |c| c.is_ascii_digit());
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
    if slashes > 0 { whole(length) } else { None }
}

/// Capitals joined by `&` or `+`: `AT&T`.
fn ampersand(text: &[char]) -> Option<Found> {
    let mut length = run_of(text, |c| c.is_ascii_uppercase());
    let mut joins = 0;
    while length > 0 {
        let rest = &text[length..];
        let join = if same(rest, &["&amp;"]) { 5 } else { usize::from(matches!(rest.first(), Some('&' | '+'))) };
        let next = rest.get(join..).map_or(0, |rest| run_of(rest, |c| c.is_ascii_uppercase()));
        if join == 0 || next == 0 {
            break;
        }
        length += join + next;
        joins += 1;
    }
    if joins > 0 { whole(length) } else { None }
}

/// Digits with commas, periods or colons between them, perhaps with a sign: `1,000.50`, `10:30`, `.5`.
fn number(text: &[char]) -> Option<Found> {
    let sign = usize::from(matches!(text.first(), Some('+' | '-')));
    let digits = |text: &[char]| run_of(text, |c| c.is_ascii_digit());
    let mut length = sign + digits(&text[sign..]);
    while matches!(text.get(length..), Some(['.' | ',' | ':', c, ..]) if c.is_ascii_digit()) {
        length += 1 + digits(&text[length + 1..]);
    }
    if length > sign && text[sign] != ',' { whole(length) } else { None }
}

/// Dollars of a country: `US$`.
fn dollars(text: &[char]) -> Option<Found> {
    let letters = run_of(text, |c| c.is_ascii_uppercase());
    let known = ["US", "HK", "NZ", "C", "A", "M", "S"].iter().any(|w| w.len() == letters && same(text, &[w]));
    if known && text.get(letters) == Some(&'$') { whole(letters + 1) } else { None }
}

/// `:)`, `;-D`.
fn smiley(text: &[char]) -> Option<Found> {
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
    ends.then_some(Found { seen: length + 1, taken: length })
}

/// Runs of one mark, or of question and exclamation marks, or points with spaces between them.
fn run(text: &[char]) -> Option<Found> {
    let first = *text.first()?;
    match first {
        '-' | '*' | '#' | '_' => whole(run_of(text, |c| c == first)),
        '?' | '!' => whole(run_of(text, |c| matches!(c, '?' | '!'))),
        '.' => {
            let spaced = text.chunks(2).take(4).take_while(|pair| *pair == ['.', ' ']).count();
            let spaced = if text.get(2 * spaced) == Some(&'.') { 2 * spaced + 1 } else { (2 * spaced).max(1) - 1 };
            let points = run_of(text, |c| c == '.').min(5);
            if points > 2 {
                whole(points)
            } else if spaced > 4 {
                whole(spaced)
            } else {
                None
            }
        }
        '`' => whole(run_of(text, |c| c == '`').min(2)),
        '\'' => whole(run_of(text, |c| c == '\'').min(2)),
        _ => None,
    }
}
