//! Abbreviations and acronyms: tokens that include their period.

use super::pattern_match::{PatternMatch, is_letter_or_digit, run_length, starts_with_ignoring_case, whole_match};

/// Abbreviations in any case.
const ANY_CASE: [&str; 112] = [
    "adj", "adm", "adv", "al", "ala", "apr", "ariz", "ark", "assn", "assoc", "asst", "aug", "ave", "bldg", "blvd",
    "bros", "calif", "capt", "cf", "cmdr", "co", "col", "colo", "conn", "corp", "cpl", "ct", "dak", "dec", "dept",
    "dr", "drs", "esq", "est", "etc", "ext", "feb", "fla", "fri", "ft", "ga", "gen", "gov", "govs", "hon", "inc",
    "ind", "insp", "jan", "jr", "jul", "jun", "kan", "kans", "ky", "lt", "ltd", "maj", "mar", "md", "messrs", "mfg",
    "mich", "minn", "mo", "mon", "mont", "mr", "mrs", "ms", "mt", "neb", "nev", "nov", "oct", "okla", "penn", "pfc",
    "ph", "plc", "pres", "prof", "pvt", "rd", "rep", "reps", "rev", "sen", "sens", "sep", "sept", "seq", "sgt", "spc",
    "sq", "sr", "st", "ste", "supt", "tenn", "thu", "thurs", "treas", "tue", "tues", "univ", "va", "vs", "vt", "wed",
    "wis", "wyo",
];
/// Abbreviations only with a capital; in lower case they are words.
const CAPITAL: [&str; 13] =
    ["cos", "del", "ill", "intl", "la", "mass", "miss", "natl", "ore", "pa", "tel", "tex", "wash"];
/// Abbreviations only before a number.
const BEFORE_NUMBER: [&str; 10] = ["art", "ca", "fig", "figs", "no", "nos", "op", "pp", "prop", "props"];

/// Abbreviations: `Mr.`, `St.`, `etc.`, and `no.` before a number.
pub(super) fn abbreviation(text: &[char]) -> Option<PatternMatch> {
    let letters = run_length(text, is_letter_or_digit);
    if letters == 0 || text.get(letters) != Some(&'.') {
        return None;
    }
    if starts_with_ignoring_case(text, &["ph.d."]) {
        return whole_match(5);
    }
    let word: String = text[..letters].iter().collect::<String>().to_ascii_lowercase();
    let is = |list: &[&str]| list.contains(&word.as_str());
    let capital = text[0].is_ascii_uppercase();
    let after = &text[letters + 1..];
    let numbered = after.first().is_some_and(|c| c.is_whitespace()) && after.get(1).is_some_and(char::is_ascii_digit);
    let keeps = is(&ANY_CASE) || (capital && is(&CAPITAL)) || (numbered && is(&BEFORE_NUMBER));
    if keeps { whole_match(letters + 1) } else { None }
}

/// Acronyms, single letters each followed by a period: `U.S.`, `a.m.`, `J.`.
pub(super) fn acronym(text: &[char]) -> Option<PatternMatch> {
    let pairs = text.chunks(2).take_while(|pair| matches!(pair, [c, '.'] if c.is_ascii_alphabetic())).count();
    let ends = text[2 * pairs..].iter().all(|c| c.is_whitespace());
    // At the end of a caption, a single letter is a word, and the period ends the sentence.
    if pairs == 1 && ends { None } else { whole_match(2 * pairs) }
}
