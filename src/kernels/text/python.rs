//! Python 3's `str` of a bytes object. Published training code tokenises this form if it opens a file of captions as
//! bytes and calls `str(line)`.

/// Formats the UTF-8 bytes of `text` as `b'…'`.
///
/// The quotes are double if the text has single quotes and no double quotes. Tab, line feed and carriage return become
/// `\t`, `\n` and `\r`, and a backslash is doubled. Other bytes that are not printable ASCII are written as `\xe4`.
#[must_use]
pub fn bytes_repr(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut out = format!("b{quote}");
    for byte in text.bytes() {
        match byte {
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\\' => out.push_str("\\\\"),
            b'\'' if quote == '\'' => out.push_str("\\'"),
            b' '..=b'~' => out.push(char::from(byte)),
            _ => out.push_str(&format!("\\x{byte:02x}")),
        }
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_python() {
        // CPython 3.11 prints these for `str(text.encode())`.
        assert_eq!(bytes_repr("A man ."), r"b'A man .'");
        assert_eq!(bytes_repr("a dog's ball"), r#"b"a dog's ball""#);
        assert_eq!(bytes_repr("the \"dog\""), r#"b'the "dog"'"#);
        assert_eq!(bytes_repr("dog's \"ball\""), r#"b'dog\'s "ball"'"#);
        assert_eq!(bytes_repr("café\t\\\n\r\u{7f}\0"), r"b'caf\xc3\xa9\t\\\n\r\x7f\x00'");
        assert_eq!(bytes_repr(""), "b''");
    }
}
