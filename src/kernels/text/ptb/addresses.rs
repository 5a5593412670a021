//! URLs, email addresses, handles, and HTML tags and entities.

use super::pattern_match::{PatternMatch, run_length, starts_with_ignoring_case, whole_match};

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
