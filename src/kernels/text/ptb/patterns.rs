//! Patterns of the PTB tokeniser: one function for each kind of token, such as words with apostrophes, abbreviations,
//! and addresses.

use super::classes::{DIGITS, LETTERS, MARKS, SYMBOLS};

/// A pattern: `None` if the text does not start with it.
type Pattern = fn(&[char]) -> Option<PatternMatch>;

/// All patterns. Among matches that examined equally many characters, the first one wins.
const PATTERNS: [Pattern; 29] = [
    fused_words,
    before_not,
    before_contraction,
    contraction,
    elision,
    name,
    word_with_periods,
    abbreviation,
    hyphenated,
    hyphenated_with_periods,
    word_before_comma,
    slashed,
    ampersand,
    acronym,
    file_name,
    number,
    address,
    mail,
    handle,
    dollars,
    tag,
    entity,
    smiley,
    run,
    quotes,
    quote_before_word,
    small_number,
    fraction,
    programming_language,
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

/// Letters, marks and digits, optionally joined by a period, question mark or exclamation mark without a space:
/// `shirt.The`.
fn word_with_periods(text: &[char]) -> Option<PatternMatch> {
    if !text.first().is_some_and(|&c| is_letter_or_mark(c)) {
        return None;
    }
    let mut length = run_length(text, is_word_character);
    while matches!(text.get(length..), Some(['.' | '!' | '?', c, ..]) if is_letter_or_mark(*c)) {
        length += 1 + run_length(&text[length + 1..], is_word_character);
    }
    whole_match(length)
}

/// Letters and digits, optionally with an elided prefix, joined by single hyphens or underscores: `black-and-white`,
/// `d'art-deco`.
fn hyphenated(text: &[char]) -> Option<PatternMatch> {
    let part = |text: &[char]| match text {
        ['d' | 'D' | 'o' | 'O' | 'l' | 'L', apostrophe, rest @ ..] if is_name_apostrophe(*apostrophe) => {
            let word = run_length(rest, is_letter_or_digit);
            if word > 1 { 2 + word } else { 1 }
        }
        _ => run_length(text, is_letter_or_digit),
    };
    let mut length = part(text);
    while length > 0 && matches!(text.get(length), Some('-' | '_' | '֊' | '‐' | '‑')) {
        let next = part(&text[length + 1..]);
        if next == 0 {
            break;
        }
        length += 1 + next;
    }
    whole_match(length)
}

/// Names of files with a known ending: `12.jpg`.
fn file_name(text: &[char]) -> Option<PatternMatch> {
    const ENDINGS: [&str; 35] = [
        "bat", "bmp", "c", "cgi", "class", "cpp", "dll", "doc", "docx", "exe", "gif", "gz", "h", "htm", "html", "jar",
        "java", "jpeg", "jpg", "mov", "mp3", "pdf", "php", "pl", "png", "ppt", "ps", "py", "sql", "tar", "txt", "wav",
        "x", "xml", "zip",
    ];
    let name = &text[..text.len().min(MAX_NAME_LENGTH)];
    let mut start = 0;
    let mut length = run_length(name, is_letter_or_digit);
    while length > start && matches!(name.get(length..), Some(['.', c, ..]) if is_letter_or_digit(*c)) {
        start = length + 1;
        length = start + run_length(&name[start..], is_letter_or_digit);
    }
    let ending = &name[start..length];
    let known = start > 0 && ENDINGS.iter().any(|e| e.len() == ending.len() && starts_with_ignoring_case(ending, &[e]));
    let ends = text.get(length).is_none_or(|&c| c.is_whitespace() || matches!(c, '.' | ',' | '!' | '?'));
    (known && ends).then_some(PatternMatch { examined: length + 1, token_length: length })
}

/// ASCII letters, digits, periods and commas, joined by hyphens to letters and digits: `1.5-inch`, `U.S.-led`.
fn hyphenated_with_periods(text: &[char]) -> Option<PatternMatch> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == SOFT_HYPHEN;
    let is_first = |c: char| is_part(c) || matches!(c, '.' | ',');
    let first =
        if is_part(*text.first()?) { run_length(&text[..text.len().min(MAX_NAME_LENGTH)], is_first) } else { 0 };
    let mut length = first;
    while length > 0 && matches!(text.get(length..), Some(['-', c, ..]) if is_part(*c)) {
        length += 1 + run_length(&text[length + 1..], is_part);
    }
    if length > first { whole_match(length) } else { None }
}

/// A word and a period before a comma, colon or semicolon: `etc.,`.
fn word_before_comma(text: &[char]) -> Option<PatternMatch> {
    let words: [Pattern; 4] = [word_with_periods, hyphenated, hyphenated_with_periods, name];
    let length = words.iter().filter_map(|pattern| pattern(text)).map(|found| found.token_length).max()?;
    let before = matches!(text.get(length..), Some(['.', ',' | ';' | ':', ..]));
    before.then_some(PatternMatch { examined: length + 2, token_length: length + 1 })
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
    let mut length = sign + run_length(&text[sign..], is_digit);
    while matches!(text.get(length..), Some(['.' | ',' | ':' | SOFT_HYPHEN | '٫' | '٬', c, ..]) if is_digit(*c)) {
        length += 1 + run_length(&text[length + 1..], is_digit);
    }
    if length > sign { whole_match(length) } else { None }
}

/// Fractions of up to four digits, optionally after a whole number: `3/4`, `1-3/4`, `3⁄4`.
fn fraction(text: &[char]) -> Option<PatternMatch> {
    let digits = |text: &[char]| run_length(&text[..text.len().min(4)], is_digit);
    let simple = |text: &[char]| {
        let above = digits(text);
        let below = match text.get(above..) {
            Some(['/' | '⁄', below @ ..]) => digits(below),
            _ => 0,
        };
        if above > 0 && below > 0 { above + 1 + below } else { 0 }
    };
    let whole = digits(text);
    let mixed = match text.get(whole..) {
        Some(['-' | '\u{a0}', rest @ ..]) if whole > 0 => simple(rest),
        _ => 0,
    };
    let length = if mixed > 0 { whole + 1 + mixed } else { simple(text) };
    if length > 0 { whole_match(length) } else { None }
}

/// Dollar sign with the letters of a country: `US$`.
fn dollars(text: &[char]) -> Option<PatternMatch> {
    let letters = run_length(text, |c| c.is_ascii_uppercase());
    if letters > 0 && text.get(letters) == Some(&'$') { whole_match(letters + 1) } else { None }
}

/// Smileys: `:)`, `;-D`, `^_^`.
fn smiley(text: &[char]) -> Option<PatternMatch> {
    let is_eye = |c: &char| matches!(c, '-' | '^' | 'x' | '=' | '~' | '<' | '>' | '\'');
    if matches!(text, [left, '_', right, ..] if is_eye(left) && is_eye(right)) {
        return whole_match(3);
    }
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
        '-' | '*' | '#' | '_' | '@' | '<' | '>' => whole_match(run_length(text, |c| c == first)),
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
        _ => None,
    }
}

/// One or two quotation marks: two straight single ones, or two of the other kinds.
fn quotes(text: &[char]) -> Option<PatternMatch> {
    let straight = run_length(text, |c| c == '\'');
    whole_match(straight.max(run_length(text, |c| c != '\'' && quote_text(c).is_some())).min(2))
}

/// Straight quotation mark before an ASCII letter and any other character, which is no apostrophe: `'a-b`.
fn quote_before_word(text: &[char]) -> Option<PatternMatch> {
    match text {
        ['\'', letter, c, ..] if letter.is_ascii_alphabetic() && !c.is_whitespace() => {
            Some(PatternMatch { examined: 3, token_length: 1 })
        }
        _ => None,
    }
}

/// The normalised text of a quotation mark, of any kind but the straight double one.
pub(super) fn quote_text(c: char) -> Option<&'static str> {
    Some(match c {
        '`' | '‘' | '‛' | '‹' | '\u{91}' => "`",
        '\'' | '’' | '›' | '\u{92}' => "'",
        '“' | '«' | '\u{93}' => "``",
        '”' | '»' | '\u{94}' => "''",
        '‚' => "‚",
        '„' => "„",
        '‟' => "‟",
        _ => return None,
    })
}

/// Superscript or subscript digits, optionally with a sign: `²`, `⁻¹`.
fn small_number(text: &[char]) -> Option<PatternMatch> {
    let number = |signs: [char; 2], is_digit: fn(char) -> bool| {
        let sign = usize::from(text.first().is_some_and(|c| signs.contains(c)));
        let digits = run_length(&text[sign..], is_digit);
        if digits > 0 { whole_match(sign + digits) } else { None }
    };
    number(['⁺', '⁻'], |c| matches!(c, '²' | '³' | '¹' | '⁰' | '⁴'..='⁹'))
        .or_else(|| number(['₊', '₋'], |c| matches!(c, '₀'..='₉')))
}

/// Programming languages: `C++`, `C#`, `F#`.
fn programming_language(text: &[char]) -> Option<PatternMatch> {
    match text {
        ['C' | 'c', '+', '+', ..] => whole_match(3),
        ['C' | 'c' | 'F' | 'f', '#', ..] => whole_match(2),
        _ => None,
    }
}

/// Match of a pattern at the start of a text: the number of characters examined, and the length of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PatternMatch {
    examined: usize,
    token_length: usize,
}

fn whole_match(length: usize) -> Option<PatternMatch> {
    (length > 0).then_some(PatternMatch { examined: length, token_length: length })
}

fn run_length(text: &[char], is: impl Fn(char) -> bool) -> usize {
    text.iter().take_while(|&&c| is(c)).count()
}

/// True if `text` starts with the concatenation of `parts`; ignores case.
fn starts_with_ignoring_case(text: &[char], parts: &[&str]) -> bool {
    let mut chars = text.iter();
    parts
        .iter()
        .flat_map(|part| part.chars())
        .all(|expected| chars.next().is_some_and(|c| c.eq_ignore_ascii_case(&expected)))
}

/// Character that may break a word at the end of a line; the tokeniser deletes it.
pub(super) const SOFT_HYPHEN: char = '\u{ad}';

pub(super) fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’' | '\u{92}')
}

/// True for an apostrophe of names, where accents are typed as one too.
fn is_name_apostrophe(c: char) -> bool {
    is_apostrophe(c) || matches!(c, '`' | '‘' | '‛')
}

/// True for a letter.
fn is_letter(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_alphabetic() } else { is_in(&LETTERS, c) }
}

/// True for a letter or a mark.
fn is_letter_or_mark(c: char) -> bool {
    is_letter(c) || is_in(&MARKS, c)
}

/// True for a letter or a digit.
fn is_letter_or_digit(c: char) -> bool {
    is_letter(c) || is_digit(c)
}

/// True for a digit.
fn is_digit(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_digit() } else { is_in(&DIGITS, c) }
}

/// True for a letter, a mark, or a digit.
fn is_word_character(c: char) -> bool {
    is_letter_or_digit(c) || is_in(&MARKS, c)
}

/// True if a character can be a token by itself. Emoji and their joiners cannot.
pub(super) fn is_token_character(c: char) -> bool {
    if c.is_ascii() { c.is_ascii_graphic() } else { is_word_character(c) || is_in(&SYMBOLS, c) }
}

/// True if the class with these edges has `c`.
fn is_in(edges: &[u16], c: char) -> bool {
    u16::try_from(u32::from(c)).is_ok_and(|c| edges.partition_point(|&edge| edge <= c) % 2 == 1)
}

/// Words that are split without an apostrophe between them: `cannot`, `gonna`, `'tis`.
fn fused_words(text: &[char]) -> Option<PatternMatch> {
    const PAIRS: [(&str, &str); 6] =
        [("can", "not"), ("gon", "na"), ("got", "ta"), ("lem", "me"), ("gim", "me"), ("wan", "na")];
    let seen = run_length(text, is_letter_or_digit);
    let is = |(first, second): &&(&str, &str)| {
        first.len() + second.len() == seen && starts_with_ignoring_case(text, &[first, second])
    };
    let quote = text.first() == Some(&'\'');
    if quote && run_length(&text[1..], is_letter_or_digit) == 3 && starts_with_ignoring_case(&text[1..], &["tis"]) {
        return Some(PatternMatch { examined: 4, token_length: 2 });
    }
    if quote && run_length(&text[1..], is_letter_or_digit) == 4 && starts_with_ignoring_case(&text[1..], &["twas"]) {
        return Some(PatternMatch { examined: 5, token_length: 2 });
    }
    PAIRS.iter().find(is).map(|(first, _)| PatternMatch { examined: seen, token_length: first.len() })
}

/// The word before `n't`: `is` in `isn't`.
fn before_not(text: &[char]) -> Option<PatternMatch> {
    let letters = run_length(text, |c| c.is_ascii_alphabetic());
    let [apostrophe, t, ..] = text.get(letters..)? else { return None };
    let n = |back: usize| letters >= back && text[letters - back].eq_ignore_ascii_case(&'n');
    let not = is_apostrophe(*apostrophe) && t.eq_ignore_ascii_case(&'t') && n(1);
    (not && letters > 1 && !n(2)).then(|| PatternMatch { examined: letters + 2, token_length: letters - 1 })
}

/// The word before a contraction, whatever follows it: `dog` in `dog's`.
fn before_contraction(text: &[char]) -> Option<PatternMatch> {
    let letters = run_length(text, is_letter_or_digit);
    let ending = if letters > 0 { contraction_start(&text[letters..])? } else { return None };
    Some(PatternMatch { examined: letters + ending, token_length: letters })
}

/// The contraction itself: `'s`, `n't`.
fn contraction(text: &[char]) -> Option<PatternMatch> {
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
    let whole = contraction_length(text).map(|length| PatternMatch { examined: length + 1, token_length: length });
    // A straight apostrophe before a word is a quotation mark. Others are apostrophes even there.
    let attached = if text.first() == Some(&'\'') { None } else { contraction_start(text) };
    whole.or_else(|| attached.and_then(whole_match))
}

/// True if all of `token` is a contraction.
pub(super) fn is_contraction(token: &[char]) -> bool {
    contraction(token).is_some_and(|found| found.token_length == token.len())
}

/// Contractions, without their apostrophe.
const CONTRACTIONS: [&str; 6] = ["s", "m", "d", "re", "ve", "ll"];

/// Length of a contraction at the start of `text`, whatever follows it.
fn contraction_start(text: &[char]) -> Option<usize> {
    let [apostrophe, rest @ ..] = text else { return None };
    let ending = CONTRACTIONS.iter().find(|ending| starts_with_ignoring_case(rest, &[ending]))?;
    is_apostrophe(*apostrophe).then_some(1 + ending.len())
}

/// Length of a contraction at the start of `text`, if no letter follows it.
fn contraction_length(text: &[char]) -> Option<usize> {
    if !is_apostrophe(*text.first()?) {
        return None;
    }
    let letters = run_length(&text[1..], |c| c.is_ascii_alphabetic());
    let known = CONTRACTIONS.iter().any(|e| e.len() == letters && starts_with_ignoring_case(&text[1..], &[e]));
    known.then_some(letters + 1)
}

/// Words with an elided letter: `'n'`, `'em`, `'80s`, `ol'`, `y'`. They end there: `'emb` has two words.
fn elision(text: &[char]) -> Option<PatternMatch> {
    let letters = run_length(text, is_letter_or_digit);
    if letters > 0 {
        let apostrophe = text.get(letters).is_some_and(|&c| is_apostrophe(c));
        if apostrophe && letters == 1 && matches!(text[0].to_ascii_lowercase(), 'd' | 'j' | 'l') {
            return whole_match(2);
        }
        let known = ["ol", "somethin", "dunkin", "y"]
            .iter()
            .find(|w| w.len() == letters && starts_with_ignoring_case(text, &[w]))?;
        let after = text.get(letters + 1).is_some_and(|&c| is_letter(c));
        return if apostrophe && (*known != "y" || after) { whole_match(letters + 1) } else { None };
    }
    if !is_apostrophe(*text.first()?) {
        return None;
    }
    let rest = &text[1..];
    match rest {
        ['n' | 'N', c, ..] if is_apostrophe(*c) => whole_match(3),
        ['n' | 'N', ..] => whole_match(2),
        ['2'..='9', '0', 's' | 'S', ..] => whole_match(4),
        [tens, ones, after @ ..] if tens.is_ascii_digit() && ones.is_ascii_digit() => {
            if after.first().is_none_or(|c| c.is_whitespace()) { whole_match(3) } else { None }
        }
        _ => ["till", "til", "em", "cause"]
            .iter()
            .find(|word| starts_with_ignoring_case(rest, &[word]))
            .and_then(|word| whole_match(1 + word.len())),
    }
}

/// Words with an apostrophe inside: `O'Neill`, `ma'am`, `e'er`, `c'mon`, `c'est`.
fn name(text: &[char]) -> Option<PatternMatch> {
    let before = run_length(text, is_letter);
    if before == 0 || !text.get(before).is_some_and(|&c| is_name_apostrophe(c)) {
        return None;
    }
    let after = &text[before + 1..];
    let letters = run_length(after, is_letter);
    let last = text[before - 1];
    let name = before == 1 && matches!(last, 'A'..='H' | 'J'..='X' | 'Z' | 'n') && letters > 1;
    let vowels = before > 1
        && matches!(last.to_ascii_lowercase(), 'a' | 'e' | 'i' | 'o' | 'u' | 'y')
        && matches!(after.first(), Some('a' | 'e' | 'i' | 'o' | 'u' | 'A'..='Z'));
    if name || vowels {
        whole_match(before + 1 + letters)
    } else if starts_with_ignoring_case(text, &["e'er"]) {
        whole_match(4)
    } else if starts_with_ignoring_case(text, &["c'mon"])
        || (text[0] == 'c' && is_apostrophe(text[1]) && after.starts_with(&['e', 's', 't']))
    {
        whole_match(5)
    } else {
        None
    }
}

/// Abbreviations in any case, even before a letter: `rd.x`.
const ABBREVIATIONS: [&str; 79] = [
    "al", "ala", "apr", "ariz", "assn", "aug", "bhd", "bldg", "blvd", "bros", "calif", "co", "colo", "conn", "corp",
    "cos", "ct", "dak", "dec", "esq", "est", "etc", "ext", "feb", "fla", "fri", "ga", "inc", "ind", "intl", "jan",
    "jr", "jul", "jun", "kan", "kans", "ky", "ltd", "mar", "md", "mich", "minn", "mo", "mon", "mont", "neb", "nev",
    "nov", "oct", "okla", "penn", "plc", "ppte", "ppty", "pte", "ptes", "pty", "ptys", "rd", "rt", "sep", "sept",
    "seq", "sq", "sr", "sys", "tel", "tenn", "thu", "thurs", "tue", "tues", "univ", "va", "vt", "wed", "wis", "wisc",
    "wyo",
];
/// Abbreviations in any case that belong to the next word. Before a letter they are parts of a word.
const TITLES: [&str; 61] = [
    "adj", "adm", "adv", "alex", "assoc", "asst", "atty", "ave", "brig", "capt", "cf", "cie", "cmdr", "col", "cpl",
    "dept", "det", "dr", "drs", "elec", "ens", "ft", "gen", "gov", "govs", "hon", "insp", "invt", "jos", "lt", "maj",
    "messrs", "mfg", "mlle", "mme", "mr", "mrs", "ms", "msgr", "mt", "mtg", "natl", "pfc", "ph", "pres", "prof", "pvt",
    "rep", "reps", "rev", "sen", "sens", "sfc", "sgt", "spc", "st", "ste", "supt", "treas", "vs", "wm",
];
/// Abbreviations only with a capital; in lower case they are words.
const CAPITAL: [&str; 11] = ["ark", "az", "del", "ill", "la", "mass", "miss", "ore", "pa", "tex", "wash"];
/// Abbreviations only before a number.
const BEFORE_NUMBER: [&str; 9] = ["art", "ca", "fig", "figs", "no", "nos", "op", "pp", "prop"];

/// Abbreviations: `Mr.`, `St.`, `etc.`, and `no.` before a number.
fn abbreviation(text: &[char]) -> Option<PatternMatch> {
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
    let after = match &text[letters + 1..] {
        [space, after @ ..] if space.is_whitespace() => after,
        after => after,
    };
    let numbered = after.first().is_some_and(|&c| is_digit(c));
    if is(&ABBREVIATIONS) || (capital && is(&CAPITAL)) {
        Some(PatternMatch { examined: letters + 3, token_length: letters + 1 })
    } else if is(&TITLES) || (numbered && is(&BEFORE_NUMBER)) {
        whole_match(letters + 1)
    } else {
        None
    }
}

/// Acronyms, single letters each followed by a period: `U.S.`, `a.m.`, `J.`.
fn acronym(text: &[char]) -> Option<PatternMatch> {
    let pairs = text.chunks(2).take_while(|pair| matches!(pair, [c, '.'] if c.is_ascii_alphabetic())).count();
    let ends = text[2 * pairs..].iter().all(|c| c.is_whitespace());
    // At the end of a caption, a single letter is a word, and the period ends the sentence.
    if pairs == 1 && ends { None } else { whole_match(2 * pairs) }
}

/// Maximum length of an address, of a file name, and of the like. Bounds the cost of looking ahead.
const MAX_NAME_LENGTH: usize = 254;

/// True for a character that no address contains.
fn is_outside_address(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '<' | '>' | '|' | '(' | ')' | '{' | '}')
}

/// URLs and host names.
fn address(text: &[char]) -> Option<PatternMatch> {
    let path = |text: &[char]| {
        let length = run_length(text, |c| !is_outside_address(c));
        let end = text[..length].iter().rposition(|c| !matches!(c, '.' | '!' | '?' | ',' | '-' | ';' | ':' | '\''));
        end.map_or(0, |last| last + 1)
    };
    for scheme in ["http://", "https://"] {
        if starts_with_ignoring_case(text, &[scheme]) {
            return whole_match(scheme.len() + path(&text[scheme.len()..]));
        }
    }
    let host =
        run_length(&text[..text.len().min(MAX_NAME_LENGTH)], |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
    let host: String = text[..host].iter().collect();
    let host = host.trim_end_matches(['.', '-']);
    let parts: Vec<&str> = host.split('.').collect();
    let last = parts.last().map_or("", |last| *last).to_ascii_lowercase();
    let web = parts.len() > 2 && parts[0].eq_ignore_ascii_case("www") && (2..=4).contains(&last.len());
    let domain = parts.len() > 1 && matches!(last.as_str(), "com" | "net" | "org" | "edu");
    if parts.contains(&"") || !(web || domain) {
        return None;
    }
    let rest = &text[host.len()..];
    whole_match(host.len() + if rest.first() == Some(&'/') { path(rest) } else { 0 })
}

/// Email addresses, and all else with an `@` inside. A period before the end is not part of it.
fn mail(text: &[char]) -> Option<PatternMatch> {
    let start = usize::from(text.first() == Some(&'<'));
    if !text.get(start)?.is_ascii_alphanumeric() {
        return None;
    }
    let text = &text[..text.len().min(MAX_NAME_LENGTH)];
    let length = start + run_length(&text[start..], |c| !is_outside_address(c));
    let at = text[..length].iter().position(|&c| c == '@')?;
    let host = &text[at + 1..length];
    let end = host.iter().rposition(|&c| c != '.').filter(|_| host[0] != '.')?;
    let after = at + 2 + end;
    whole_match(after + usize::from(text.get(after) == Some(&'>')))
}

/// Handles and hashtags: `@name`, `#topic`.
fn handle(text: &[char]) -> Option<PatternMatch> {
    match text {
        ['@', c, ..] if c.is_ascii_alphabetic() || *c == '_' => {
            whole_match(1 + run_length(&text[1..], |c| c.is_ascii_alphanumeric() || c == '_'))
        }
        ['#', c, ..] if is_letter(*c) => whole_match(1 + run_length(&text[1..], is_letter)),
        _ => None,
    }
}

/// HTML tags: `<b>`, `</a>`, `<br/>`.
fn tag(text: &[char]) -> Option<PatternMatch> {
    let letter = match text {
        ['<', '/' | '!' | '?', c, ..] | ['<', c, ..] => *c,
        _ => return None,
    };
    let inside = run_length(&text[1..], |c| !matches!(c, '<' | '>'));
    if letter.is_ascii_alphabetic() && text.get(1 + inside) == Some(&'>') { whole_match(inside + 2) } else { None }
}

/// HTML entities.
fn entity(text: &[char]) -> Option<PatternMatch> {
    ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&nbsp;"]
        .iter()
        .find(|name| starts_with_ignoring_case(text, &[name]))
        .and_then(|name| whole_match(name.len()))
}
