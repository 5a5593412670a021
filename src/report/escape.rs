//! Escaping of text in Markdown.

/// Escapes a text at the start of a line, so that Markdown shows it literally and on one line.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = escaped_within(text);
    // List markers, as in `- item` and `1. item`, have a meaning at the start of a line only.
    let start = escaped.find(|c: char| !c.is_ascii_digit() && c != ' ').unwrap_or(0);
    if escaped[start..].starts_with(['-', '+', '.']) {
        escaped.insert(start, '\\');
    }
    escaped
}

/// Escapes a text within a line, such as a cell.
pub(super) fn escaped_within(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        // The `@` of `R@10` is not that of an e-mail address.
        let after = || text[at + 1..].trim_start_matches(|c: char| c.is_ascii_digit());
        let cutoff = c == '@' && (after().is_empty() || after().starts_with([' ', ',']));
        let plain = cutoff || matches!(c, '.' | ',' | '-' | '+' | '\'' | '"' | '?' | ':' | ';' | '/' | '%');
        if c.is_ascii_punctuation() && !plain {
            escaped.push('\\');
        }
        escaped.push(if c.is_control() { ' ' } else { c });
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_markup_remains_in_an_escaped_text() {
        assert_eq!(escaped("a man, 3 dogs - well-fed. Really?"), "a man, 3 dogs - well-fed. Really?");
        assert_eq!(
            escaped("<b>|*x*_y_`z`[q](http://a)\n# h"),
            "\\<b\\>\\|\\*x\\*\\_y\\_\\`z\\`\\[q\\]\\(http://a\\) \\# h"
        );
        assert_eq!(escaped("- x"), "\\- x");
        assert_eq!(escaped("12. x"), "12\\. x");
        assert_eq!(escaped_within("-1.5 | R@10 a@1.b"), "-1.5 \\| R@10 a\\@1.b");
    }
}
