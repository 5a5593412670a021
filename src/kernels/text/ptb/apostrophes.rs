//! Contractions and other words with apostrophes.

use super::pattern_match::{
    PatternMatch, is_apostrophe, is_letter, is_letter_or_digit, run_length, starts_with_ignoring_case, whole_match,
};

/// Words that are split without an apostrophe between them: `cannot`, `gonna`, `'tis`.
pub(super) fn fused_words(text: &[char]) -> Option<PatternMatch> {
    const PAIRS: [(&str, &str); 6] =
        [("can", "not"), ("gon", "na"), ("got", "ta"), ("lem", "me"), ("gim", "me"), ("wan", "na")];
    let seen = run_length(text, is_letter_or_digit);
    let is = |(first, second): &&(&str, &str)| {
        first.len() + second.len() == seen && starts_with_ignoring_case(text, &[first, second])
    };
    let quote = text.first().is_some_and(|&c| is_apostrophe(c));
    if quote && run_length(&text[1..], is_letter_or_digit) == 3 && starts_with_ignoring_case(&text[1..], &["tis"]) {
        return Some(PatternMatch { examined: 4, token_length: 2 });
    }
    if quote && run_length(&text[1..], is_letter_or_digit) == 4 && starts_with_ignoring_case(&text[1..], &["twas"]) {
        return Some(PatternMatch { examined: 5, token_length: 2 });
    }
    PAIRS.iter().find(is).map(|(first, _)| PatternMatch { examined: seen, token_length: first.len() })
}

/// The word before `n't`: `is` in `isn't`.
pub(super) fn before_not(text: &[char]) -> Option<PatternMatch> {
    let letters = run_length(text, |c| c.is_ascii_alphabetic());
    let [apostrophe, t, ..] = text.get(letters..)? else { return None };
    let n = |back: usize| letters >= back && text[letters - back].eq_ignore_ascii_case(&'n');
    let not = is_apostrophe(*apostrophe) && t.eq_ignore_ascii_case(&'t') && n(1);
    (not && letters > 1 && !n(2)).then(|| PatternMatch { examined: letters + 2, token_length: letters - 1 })
}

/// The word before a contraction: `dog` in `dog's`.
pub(super) fn before_contraction(text: &[char]) -> Option<PatternMatch> {
    let letters = run_length(text, is_letter_or_digit);
    let ending = if letters > 0 { contraction_length(&text[letters..])? } else { return None };
    Some(PatternMatch { examined: letters + ending, token_length: letters })
}

/// The contraction itself: `'s`, `n't`.
pub(super) fn contraction(text: &[char]) -> Option<PatternMatch> {
    if text.len() > 2
        && starts_with_ignoring_case(text, &["n"])
        && is_apostrophe(text[1])
        && starts_with_ignoring_case(&text[2..], &["t"])
    {
        return text
            .get(3)
            .is_none_or(|c| !c.is_ascii_alphabetic())
            .then_some(PatternMatch { examined: 4, token_length: 3 });
    }
    contraction_length(text).map(|length| PatternMatch { examined: length + 1, token_length: length })
}

/// Length of a contraction at the start of `text`, if no letter follows it.
fn contraction_length(text: &[char]) -> Option<usize> {
    if !is_apostrophe(*text.first()?) {
        return None;
    }
    let letters = run_length(&text[1..], |c| c.is_ascii_alphabetic());
    let known = ["s", "m", "d", "re", "ve", "ll"]
        .iter()
        .any(|e| e.len() == letters && starts_with_ignoring_case(&text[1..], &[e]));
    known.then_some(letters + 1)
}

/// Words with an elided letter: `'n'`, `'em`, `'80s`, `ol'`, `y'`.
pub(super) fn elision(text: &[char]) -> Option<PatternMatch> {
    let letters = run_length(text, is_letter_or_digit);
    if letters > 0 {
        let apostrophe = text.get(letters).is_some_and(|&c| is_apostrophe(c));
        if apostrophe && letters == 1 && matches!(text[0].to_ascii_lowercase(), 'd' | 'j' | 'l') {
            return whole_match(2);
        }
        let known = ["ol", "somethin", "dunkin", "nothin", "y"]
            .iter()
            .find(|w| w.len() == letters && starts_with_ignoring_case(text, &[w]))?;
        let after = text.get(letters + 1).is_some_and(|&c| is_letter(c));
        return if apostrophe && (*known != "y" || after) { whole_match(letters + 1) } else { None };
    }
    if !is_apostrophe(*text.first()?) {
        return None;
    }
    let rest = &text[1..];
    let word = run_length(rest, is_letter_or_digit);
    let digits = run_length(rest, |c| c.is_ascii_digit());
    let ends = |length: usize| rest.get(length).is_none_or(|c| c.is_whitespace());
    match word {
        1 if starts_with_ignoring_case(rest, &["n"]) => {
            whole_match(2 + usize::from(rest.get(1).is_some_and(|&c| is_apostrophe(c))))
        }
        2 if digits == 2 && ends(2) => whole_match(3),
        3 if digits == 2 && matches!(rest[..3], ['2'..='9', '0', 's']) => whole_match(4),
        _ => ["em", "til", "till", "cause"]
            .iter()
            .find(|w| w.len() == word && starts_with_ignoring_case(rest, &[w]))
            .map(|_| word + 1)
            .and_then(whole_match),
    }
}

/// Words with an apostrophe inside: `o'clock`, `l'avion`, `O'Neill`, `ma'am`, `c'mon`.
pub(super) fn before_vowel(text: &[char]) -> Option<PatternMatch> {
    let before = run_length(text, is_letter);
    if before == 0 || !text.get(before).is_some_and(|&c| is_apostrophe(c)) {
        return None;
    }
    let after = &text[before + 1..];
    let (letters, word) = (run_length(after, is_letter), run_length(after, is_letter_or_digit));
    let last = text[before - 1];
    let short = before == 1 && matches!(last, 'd' | 'D' | 'o' | 'O' | 'l' | 'L') && word > 0;
    let name = before == 1 && matches!(last, 'A'..='H' | 'J'..='X' | 'Z' | 'n') && letters >= 2;
    let vowels = matches!(last.to_ascii_lowercase(), 'a' | 'e' | 'i' | 'o' | 'u' | 'y')
        && (before > 1 || starts_with_ignoring_case(text, &["e"]))
        && matches!(after.first(), Some('a' | 'e' | 'i' | 'o' | 'u' | 'A'..='Z'));
    let come_on = before == 1
        && starts_with_ignoring_case(text, &["c"])
        && letters == 3
        && starts_with_ignoring_case(after, &["mon"]);
    if short || name || come_on {
        whole_match(before + 1 + word)
    } else if vowels {
        whole_match(before + 1 + letters)
    } else {
        None
    }
}
