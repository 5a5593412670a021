//! Tokens that end with a period of their own.

use super::found::{Found, is_letter_or_digit, run_of, same, whole};

/// Abbreviations that keep their period in lower case too.
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
/// Abbreviations that need a capital, being words without.
const CAPITAL: [&str; 13] =
    ["cos", "del", "ill", "intl", "la", "mass", "miss", "natl", "ore", "pa", "tel", "tex", "wash"];
/// Abbreviations before a number only.
const BEFORE_NUMBER: [&str; 10] = ["art", "ca", "fig", "figs", "no", "nos", "op", "pp", "prop", "props"];

/// `Mr.`, `St.`, `etc.`, and `no.` before a number.
pub(super) fn abbreviation(text: &[char]) -> Option<Found> {
    let letters = run_of(text, is_letter_or_digit);
    if letters == 0 || text.get(letters) != Some(&'.') {
        return None;
    }
    if same(text, &["ph.d."]) {
        return whole(5);
    }
    let word: String = text[..letters].iter().collect::<String>().to_ascii_lowercase();
    let is = |list: &[&str]| list.contains(&word.as_str());
    let capital = text[0].is_ascii_uppercase();
    let after = &text[letters + 1..];
    let numbered = after.first().is_some_and(|c| c.is_whitespace()) && after.get(1).is_some_and(char::is_ascii_digit);
    let keeps = is(&ANY_CASE) || (capital && is(&CAPITAL)) || (numbered && is(&BEFORE_NUMBER));
    if keeps { whole(letters + 1) } else { None }
}

/// `U.S.`, `a.m.`, `J.`: single letters, each with a period.
pub(super) fn acronym(text: &[char]) -> Option<Found> {
    let pairs = text.chunks(2).take_while(|pair| matches!(pair, [c, '.'] if c.is_ascii_alphabetic())).count();
    let ends = text[2 * pairs..].iter().all(|c| c.is_whitespace());
    // A letter that ends a caption is a letter, and the period the caption's.
    if pairs == 1 && ends { None } else { whole(2 * pairs) }
}
