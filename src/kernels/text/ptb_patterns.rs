//! What a token of the PTB-style tokeniser is, one function a kind.

/// What a pattern found at the start of a text: how far it looked, and how much of that is the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Found {
    seen: usize,
    taken: usize,
}

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

fn whole(length: usize) -> Option<Found> {
    (length > 0).then_some(Found { seen: length, taken: length })
}

/// `cannot` and its like are two words.
fn joined(text: &[char]) -> Option<Found> {
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
fn before_not(text: &[char]) -> Option<Found> {
    let letters = run_of(text, |c| c.is_ascii_alphabetic());
    let [apostrophe, t, ..] = text.get(letters..)? else { return None };
    let n = |back: usize| letters >= back && text[letters - back].eq_ignore_ascii_case(&'n');
    let not = is_apostrophe(*apostrophe) && t.eq_ignore_ascii_case(&'t') && n(1);
    (not && letters > 1 && !n(2)).then(|| Found { seen: letters + 2, taken: letters - 1 })
}

/// `dog` of `dog's`.
fn before_contraction(text: &[char]) -> Option<Found> {
    let letters = run_of(text, is_letter_or_digit);
    let ending = if letters > 0 { contraction_length(&text[letters..])? } else { return None };
    Some(Found { seen: letters + ending, taken: letters })
}

/// `'s` and `n't` by themselves.
fn contraction(text: &[char]) -> Option<Found> {
    if text.len() > 2 && same(text, &["n"]) && is_apostrophe(text[1]) && same(&text[2..], &["t"]) {
        return text.get(3).is_none_or(|c| !c.is_ascii_alphabetic()).then_some(Found { seen: 4, taken: 3 });
    }
    contraction_length(text).map(|length| Found { seen: length + 1, taken: length })
}

fn contraction_length(text: &[char]) -> Option<usize> {
    if !is_apostrophe(*text.first()?) {
        return None;
    }
    let letters = run_of(&text[1..], |c| c.is_ascii_alphabetic());
    let known = ["s", "m", "d", "re", "ve", "ll"].iter().any(|e| e.len() == letters && same(&text[1..], &[e]));
    known.then_some(letters + 1)
}

/// Words that have lost a letter: `'n'`, `'em`, `'80s`, `ol'`, `y'`.
fn elision(text: &[char]) -> Option<Found> {
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
fn before_vowel(text: &[char]) -> Option<Found> {
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

/// `U.S.`, `a.m.`, `J.`: single letters, each with a period.
fn acronym(text: &[char]) -> Option<Found> {
    let pairs = text.chunks(2).take_while(|pair| matches!(pair, [c, '.'] if c.is_ascii_alphabetic())).count();
    let ends = text[2 * pairs..].iter().all(|c| c.is_whitespace());
    // A letter that ends a caption is a letter, and the period the caption's.
    if pairs == 1 && ends { None } else { whole(2 * pairs) }
}

/// Abbreviations that keep their period in lower case too.
const ANY_CASE: [&str; 92] = [
    "adj", "adm", "adv", "al", "ala", "apr", "ariz", "ark", "assn", "assoc", "asst", "aug", "ave", "bldg", "blvd",
    "bros", "calif", "capt", "cf", "cmdr", "co", "col", "colo", "conn", "corp", "cpl", "ct", "dak", "dec", "dept",
    "dr", "drs", "esq", "est", "etc", "ext", "feb", "fla", "fri", "ft", "ga", "gen", "gov", "govs", "hon", "inc",
    "ind", "insp", "jan", "jr", "jul", "jun", "kan", "kans", "ky", "lt", "ltd", "maj", "mar", "md", "messrs", "mfg",
    "mich", "minn", "mo", "mon", "mont", "mr", "mrs", "ms", "mt", "neb", "nev", "nov", "oct", "okla", "penn", "pfc",
    "ph", "plc", "pres", "prof", "pvt", "rd", "rep", "reps", "rev", "sen", "sens", "sep", "sept", "seq",
];
/// The same, the second half of the alphabet.
const ANY_CASE_FROM_SGT: [&str; 19] = [
    "sgt", "spc", "sq", "sr", "st", "ste", "supt", "tenn", "thu", "thurs", "treas", "tue", "tues", "univ", "va", "vs",
    "vt", "wed", "wis",
];
/// Abbreviations that need a capital, being words without.
const CAPITAL: [&str; 14] =
    ["cos", "del", "ill", "intl", "la", "mass", "miss", "natl", "ore", "pa", "tel", "tex", "wash", "wyo"];
/// Abbreviations before a number only.
const BEFORE_NUMBER: [&str; 10] = ["art", "ca", "fig", "figs", "no", "nos", "op", "pp", "prop", "props"];

/// `Mr.`, `St.`, `etc.`, and `no.` before a number.
fn abbreviation(text: &[char]) -> Option<Found> {
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
    let keeps = is(&ANY_CASE)
        || is(&ANY_CASE_FROM_SGT)
        || word == "wyo"
        || (capital && is(&CAPITAL))
        || (numbered && is(&BEFORE_NUMBER));
    if keeps { whole(letters + 1) } else { None }
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

/// Names of the internet are not longer; so no text makes the look ahead costly.
const LONGEST_NAME: usize = 254;

/// Addresses of the web.
fn address(text: &[char]) -> Option<Found> {
    let outside = |c: char| c.is_whitespace() || matches!(c, '"' | '<' | '>' | '|' | '(' | ')' | '{' | '}');
    let path = |text: &[char]| {
        let length = run_of(text, |c| !outside(c));
        let end = text[..length].iter().rposition(|c| !matches!(c, '.' | '!' | '?' | ',' | '-' | ';' | ':' | '\''));
        end.map_or(0, |last| last + 1)
    };
    for scheme in ["http://", "https://"] {
        if same(text, &[scheme]) {
            return whole(scheme.len() + path(&text[scheme.len()..]));
        }
    }
    let host = run_of(&text[..text.len().min(LONGEST_NAME)], |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
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
    whole(host.len() + if rest.first() == Some(&'/') { path(rest) } else { 0 })
}

/// Addresses of electronic mail.
fn mail(text: &[char]) -> Option<Found> {
    let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+');
    let name = run_of(&text[..text.len().min(LONGEST_NAME)], part);
    if name == 0 || text.get(name) != Some(&'@') {
        return None;
    }
    let host = run_of(&text[name + 1..], |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
    let end = text[name + 1..][..host].iter().rposition(char::is_ascii_alphanumeric)?;
    let host = &text[name + 1..][..=end];
    if host.contains(&'.') { whole(name + 1 + host.len()) } else { None }
}

/// `@name` and `#topic`.
fn handle(text: &[char]) -> Option<Found> {
    match text {
        ['@' | '#', c, ..] if c.is_ascii_alphabetic() => {
            whole(1 + run_of(&text[1..], |c| c.is_ascii_alphanumeric() || c == '_'))
        }
        _ => None,
    }
}

/// Dollars of a country: `US$`.
fn dollars(text: &[char]) -> Option<Found> {
    let letters = run_of(text, |c| c.is_ascii_uppercase());
    let known = ["US", "HK", "NZ", "C", "A", "M", "S"].iter().any(|w| w.len() == letters && same(text, &[w]));
    if known && text.get(letters) == Some(&'$') { whole(letters + 1) } else { None }
}

/// `<b>`, `</a>`, `<br/>`.
fn tag(text: &[char]) -> Option<Found> {
    let letter = match text {
        ['<', '/' | '!' | '?', c, ..] | ['<', c, ..] => *c,
        _ => return None,
    };
    let inside = run_of(&text[1..], |c| !matches!(c, '<' | '>'));
    if letter.is_ascii_alphabetic() && text.get(1 + inside) == Some(&'>') { whole(inside + 2) } else { None }
}

/// Characters written with their names, as web pages have them.
fn entity(text: &[char]) -> Option<Found> {
    ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&nbsp;"]
        .iter()
        .find(|name| same(text, &[name]))
        .and_then(|name| whole(name.len()))
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

fn run_of(text: &[char], is: impl Fn(char) -> bool) -> usize {
    text.iter().take_while(|&&c| is(c)).count()
}

/// Whether `text` starts with `parts`, in whatever case.
fn same(text: &[char], parts: &[&str]) -> bool {
    let mut chars = text.iter();
    parts
        .iter()
        .flat_map(|part| part.chars())
        .all(|wanted| chars.next().is_some_and(|c| c.eq_ignore_ascii_case(&wanted)))
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’' | '\u{92}')
}

/// A letter or a mark on one. Those beyond the first 65,536 characters are unknown to the tokeniser.
fn is_letter(c: char) -> bool {
    u32::from(c) < 0x1_0000
        && (c.is_alphabetic()
            || matches!(c, '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{65f}'))
}

fn is_letter_or_digit(c: char) -> bool {
    is_letter(c)
        || c.is_ascii_digit()
        || (u32::from(c) < 0x1_0000
            && c.is_numeric()
            && c.to_digit(36).is_none()
            && !matches!(c, '²' | '³' | '¹' | '¼'..='¾' | '⅐'..='⅟' | '⁰'..='₉' | '①'..='⓿' | '❶'..='➓'))
}
