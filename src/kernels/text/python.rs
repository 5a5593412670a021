//! A text as Python 3 writes bytes: what `str(line)` gives when a file of captions was opened as bytes, and the published
//! training codes then cut into words.

/// The form `b'…'` of the UTF-8 bytes of `text`.
///
/// The quotes are double if the text has single ones and no double ones. A byte that is no printable ASCII character is
/// written as `\xe4`, a tab, line feed or carriage return as `\t`, `\n`, `\r`, a backslash doubled.
#[must_use]
pub fn bytes(text: &str) -> String {
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
    fn writes_what_python_writes() {
        // Each is what CPython 3.11 prints for `str(text.encode())`.
        assert_eq!(bytes("A man ."), r"b'A man .'");
        assert_eq!(bytes("a dog's ball"), r#"b"a dog's ball""#);
        assert_eq!(bytes("the \"dog\""), r#"b'the "dog"'"#);
        assert_eq!(bytes("dog's \"ball\""), r#"b'dog\'s "ball"'"#);
        assert_eq!(bytes("café\t\\\n\r\u{7f}\0"), r"b'caf\xc3\xa9\t\\\n\r\x7f\x00'");
        assert_eq!(bytes(""), "b''");
    }
}
