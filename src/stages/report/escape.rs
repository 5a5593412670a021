//! Text in Markdown.

/// Text that Markdown shows as it is, on one line.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = escaped_within(text);
    // These mean something at the start of a line only, as in `- item` and `1. item`.
    let start = escaped.find(|c: char| !c.is_ascii_digit() && c != ' ').unwrap_or(0);
    if escaped[start..].starts_with(['-', '+', '.']) {
        escaped.insert(start, '\\');
    }
    escaped
}

/// The same for a place within a line, such as a cell.
pub(super) fn escaped_within(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        // `R@10` is no address.
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
    fn nothing_in_a_text_is_markup() {
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
