//! Addresses, handles, and what web pages leave in a text.

use super::found::{Found, run_of, same, whole};

/// Names of the internet are not longer; so no text makes the look ahead costly.
const LONGEST_NAME: usize = 254;

/// Addresses of the web.
pub(super) fn address(text: &[char]) -> Option<Found> {
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
pub(super) fn mail(text: &[char]) -> Option<Found> {
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
pub(super) fn handle(text: &[char]) -> Option<Found> {
    match text {
        ['@' | '#', c, ..] if c.is_ascii_alphabetic() => {
            whole(1 + run_of(&text[1..], |c| c.is_ascii_alphanumeric() || c == '_'))
        }
        _ => None,
    }
}

/// `<b>`, `</a>`, `<br/>`.
pub(super) fn tag(text: &[char]) -> Option<Found> {
    let letter = match text {
        ['<', '/' | '!' | '?', c, ..] | ['<', c, ..] => *c,
        _ => return None,
    };
    let inside = run_of(&text[1..], |c| !matches!(c, '<' | '>'));
    if letter.is_ascii_alphabetic() && text.get(1 + inside) == Some(&'>') { whole(inside + 2) } else { None }
}

/// Characters written with their names, as web pages have them.
pub(super) fn entity(text: &[char]) -> Option<Found> {
    ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&nbsp;"]
        .iter()
        .find(|name| same(text, &[name]))
        .and_then(|name| whole(name.len()))
}
