//! Words that are cut at an apostrophe, and words that have one.

use super::found::{Found, is_apostrophe, is_letter, is_letter_or_digit, run_of, same, whole};

/// `cannot` and its like are two words.
pub(super) fn joined(text: &[char]) -> Option<Found> {
    const PAIRS: [(&str, &str); 6] =
        [("can", "not"), ("gon", "na"), ("got", "ta"), ("lem", "me"), ("gim", "me"), ("wan", "na")];
    let seen = run_of(text, is_letter_or_digit);
    let is = |(first, second): &&(&str, &str)| first.len() + second.len() == seen && same(text, &[first, second]);
    let quote = text.first().is_some_and(|&c| is_apostrophe(c));
    if quote && run_of(&text[1..], is_letter_or_digit) == 3 && same(&text[1..], &["tis"]) {
        return Some(Found { seen: 4, taken: 2 });
    }
    if quote && run_of(&text[1..], is_letter_or_digit) == 4 && same(&text[1..], &["twas"]) {
        return Some(Found { seen: 5, taken: 2 });
    }
    PAIRS.iter().find(is).map(|(first, _)| Found { seen, taken: first.len() })
}

/// `is` of `isn't`.
pub(super) fn before_not(text: &[char]) -> Option<Found> {
    let letters = run_of(text, |c| c.is_ascii_alphabetic());
    let [apostrophe, t, ..] = text.get(letters..)? else { return None };
    let n = |back: usize| letters >= back && text[letters - back].eq_ignore_ascii_case(&'n');
    let not = is_apostrophe(*apostrophe) && t.eq_ignore_ascii_case(&'t') && n(1);
    (not && letters > 1 && !n(2)).then(|| Found { seen: letters + 2, taken: letters - 1 })
}

/// `dog` of `dog's`.
pub(super) fn before_contraction(text: &[char]) -> Option<Found> {
    let letters = run_of(text, is_letter_or_digit);
    let ending = if letters > 0 { contraction_length(&text[letters..])? } else { return None };
    Some(Found { seen: letters + ending, taken: letters })
}

/// `'s` and `n't` by themselves.
pub(super) fn contraction(text: &[char]) -> Option<Found> {
    if text.len() > 2 && same(text, &["n"]) && is_apostrophe(text[1]) && same(&text[2..], &["t"]) {
        return text.get(3).is_none_or(|c| !c.is_ascii_alphabetic()).then_some(Found { seen: 4, taken: 3 });
    }
    contraction_length(text).map(|length| Found { seen: length + 1, taken: length })
}

/// Length of a contraction that no letter follows.
fn contraction_length(text: &[char]) -> Option<usize> {
    if !is_apostrophe(*text.first()?) {
        return None;
    }
    let letters = run_of(&text[1..], |c| c.is_ascii_alphabetic());
    let known = ["s", "m", "d", "re", "ve", "ll"].iter().any(|e| e.len() == letters && same(&text[1..], &[e]));
    known.then_some(letters + 1)
}

/// Words that have lost a letter: `'n'`, `'em`, `'80s`, `ol'`, `y'`.
pub(super) fn elision(text: &[char]) -> Option<Found> {
    let letters = run_of(text, is_letter_or_digit);
    if letters > 0 {
        let apostrophe = text.get(letters).is_some_and(|&c| is_apostrophe(c));
        if apostrophe && letters == 1 && matches!(text[0].to_ascii_lowercase(), 'd' | 'j' | 'l') {
            return whole(2);
        }
        let known =
            ["ol", "somethin", "dunkin", "nothin", "y"].iter().find(|w| w.len() == letters && same(text, &[w]))?;
        let after = text.get(letters + 1).is_some_and(|&c| is_letter(c));
        return if apostrophe && (*known != "y" || after) { whole(letters + 1) } else { None };
    }
    if !is_apostrophe(*text.first()?) {
        return None;
    }
    let rest = &text[1..];
    let word = run_of(rest, is_letter_or_digit);
    let digits = run_of(rest, |c| c.is_ascii_digit());
    let ends = |length: usize| rest.get(length).is_none_or(|c| c.is_whitespace());
    match word {
        1 if same(rest, &["n"]) => whole(2 + usize::from(rest.get(1).is_some_and(|&c| is_apostrophe(c)))),
        2 if digits == 2 && ends(2) => whole(3),
        3 if digits == 2 && matches!(rest[..3], ['2'..='9', '0', 's']) => whole(4),
        _ => ["em", "til", "till", "cause"]
            .iter()
            .find(|w| w.len() == word && same(rest, &[w]))
            .map(|_| word + 1)
            .and_then(whole),
    }
}

/// An apostrophe inside of a word: `o'clock`, `l'avion`, `O'Neill`, `ma'am`, `c'mon`.
pub(super) fn before_vowel(text: &[char]) -> Option<Found> {
    let before = run_of(text, is_letter);
    if before == 0 || !text.get(before).is_some_and(|&c| is_apostrophe(c)) {
        return None;
    }
    let after = &text[before + 1..];
    let (letters, word) = (run_of(after, is_letter), run_of(after, is_letter_or_digit));
    let last = text[before - 1];
    let short = before == 1 && matches!(last, 'd' | 'D' | 'o' | 'O' | 'l' | 'L') && word > 0;
    let name = before == 1 && matches!(last, 'A'..='H' | 'J'..='X' | 'Z' | 'n') && letters >= 2;
    let vowels = matches!(last.to_ascii_lowercase(), 'a' | 'e' | 'i' | 'o' | 'u' | 'y')
        && (before > 1 || same(text, &["e"]))
        && matches!(after.first(), Some('a' | 'e' | 'i' | 'o' | 'u' | 'A'..='Z'));
    let come_on = before == 1 && same(text, &["c"]) && letters == 3 && same(after, &["mon"]);
    if short || name || come_on {
        whole(before + 1 + word)
    } else if vowels {
        whole(before + 1 + letters)
    } else {
        None
    }
}
