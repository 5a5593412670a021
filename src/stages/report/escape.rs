//! Text in Markdown.

/// Text that Markdown shows as it is, on one line.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            escaped.push(' ');
            continue;
        }
        // These mean something at the start of a line only, as in `- item` and `1. item`.
        let starts_a_list = matches!(c, '-' | '+' | '.') && escaped.chars().all(|c| c.is_ascii_digit() || c == ' ');
        let plain = matches!(c, '.' | ',' | '-' | '+' | '\'' | '"' | '?' | ':' | ';' | '/' | '%');
        if starts_a_list || (c.is_ascii_punctuation() && !plain) {
            escaped.push('\\');
        }
        escaped.push(c);
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
    }
}
