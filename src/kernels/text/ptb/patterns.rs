//! Patterns of the PTB tokeniser: one function for each kind of token, such as words with apostrophes, abbreviations,
//! and addresses.

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

/// Match of a pattern at the start of a text: the number of characters examined, and the length of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternMatch {
    pub(super) examined: usize,
    pub(super) token_length: usize,
}

pub(super) fn whole_match(length: usize) -> Option<PatternMatch> {
    (length > 0).then_some(PatternMatch { examined: length, token_length: length })
}

pub(super) fn run_length(text: &[char], is: impl Fn(char) -> bool) -> usize {
    text.iter().take_while(|&&c| is(c)).count()
}

/// True if `text` starts with the concatenation of `parts`; ignores case.
pub(super) fn starts_with_ignoring_case(text: &[char], parts: &[&str]) -> bool {
    let mut chars = text.iter();
    parts
        .iter()
        .flat_map(|part| part.chars())
        .all(|expected| chars.next().is_some_and(|c| c.eq_ignore_ascii_case(&expected)))
}

pub(super) fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’' | '\u{92}')
}

/// True for a letter or a combining mark. The tokeniser supports the first 65,536 code points only.
pub(super) fn is_letter(c: char) -> bool {
    u32::from(c) < 0x1_0000
        && (c.is_alphabetic()
            || matches!(c, '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{65f}'))
}

pub(super) fn is_letter_or_digit(c: char) -> bool {
    is_letter(c) || c.is_ascii_digit() || matches!(c, '٠'..='٩' | '۰'..='۹' | '०'..='९' | '０'..='９')
}

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

/// Maximum length of a host name. Bounds the cost of looking ahead.
const MAX_NAME_LENGTH: usize = 254;

/// URLs and host names.
pub(super) fn address(text: &[char]) -> Option<PatternMatch> {
    let outside = |c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>' | '|' | '(' | ')' | '{' | '}');
    let path = |text: &[char]| {
        let length = run_length(text, |c| !outside(c));
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

/// Email addresses.
pub(super) fn mail(text: &[char]) -> Option<PatternMatch> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    let name = run_length(&text[..text.len().min(MAX_NAME_LENGTH)], part);
    if name == 0 || text.get(name) != Some(&'@') {
        return None;
    }
    let host = run_length(&text[name + 1..], |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
    let end = text[name + 1..][..host].iter().rposition(char::is_ascii_alphanumeric)?;
    let host = &text[name + 1..][..=end];
    if host.contains(&'.') { whole_match(name + 1 + host.len()) } else { None }
}

/// Handles and hashtags: `@name`, `#topic`.
pub(super) fn handle(text: &[char]) -> Option<PatternMatch> {
    match text {
        ['@' | '#', c, ..] if c.is_ascii_alphabetic() => {
            whole_match(1 + run_length(&text[1..], |c| c.is_ascii_alphanumeric() || c == '_'))
        }
        _ => None,
    }
}

/// HTML tags: `<b>`, `</a>`, `<br/>`.
pub(super) fn tag(text: &[char]) -> Option<PatternMatch> {
    let letter = match text {
        ['<', '/' | '!' | '?', c, ..] | ['<', c, ..] => *c,
        _ => return None,
    };
    let inside = run_length(&text[1..], |c| !matches!(c, '<' | '>'));
    if letter.is_ascii_alphabetic() && text.get(1 + inside) == Some(&'>') { whole_match(inside + 2) } else { None }
}

/// HTML entities.
pub(super) fn entity(text: &[char]) -> Option<PatternMatch> {
    ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&nbsp;"]
        .iter()
        .find(|name| starts_with_ignoring_case(text, &[name]))
        .and_then(|name| whole_match(name.len()))
}
