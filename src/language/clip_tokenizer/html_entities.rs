//! Character references of HTML, as `ftfy` decodes them.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Character reference with its semicolon.
static REFERENCE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("&#?[0-9A-Za-z]{1,24};").expect("a valid regular expression"));

/// Length of the longest reference in bytes: `&#`, 24 letters or digits, and `;`.
const MAX_REFERENCE_BYTES: usize = 27;

/// Decodes character references that end in a semicolon, also names in capitals such as `&EACUTE;`.
pub(super) fn decode_terminated(text: &str) -> String {
    REFERENCE.replace_all(text, |found: &Captures<'_>| decode(&found[0])).into_owned()
}

/// Decodes as [`decode_terminated`] until no reference is left, also those that begin or end in a decoded one, such as
/// `&amp;lt;`.
///
/// Cost: linear. A reference has more characters than its text, and is looked for once for each semicolon.
pub(super) fn decode_nested(text: &str) -> String {
    let mut decoded = String::with_capacity(text.len());
    // Characters that follow, the next one last.
    let mut following: Vec<char> = text.chars().rev().collect();
    while let Some(character) = following.pop() {
        decoded.push(character);
        if character != ';' {
            continue;
        }
        let Some(start) = start_of_reference(&decoded) else { continue };
        let meant = decode(&decoded[start..]);
        if meant != decoded[start..] {
            decoded.truncate(start);
            following.extend(meant.chars().rev());
        }
    }
    decoded
}

/// Start of the reference that a text ends in.
fn start_of_reference(text: &str) -> Option<usize> {
    let from = text.len().saturating_sub(MAX_REFERENCE_BYTES);
    let start = from + text.as_bytes()[from..].iter().rposition(|&byte| byte == b'&')?;
    REFERENCE.find(&text[start..]).filter(|found| found.range() == (0..text.len() - start)).map(|_| start)
}

fn decode(reference: &str) -> String {
    let decoded = htmlize::unescape(reference);
    // A name that only begins with a name, such as `&notit;`, keeps its semicolon.
    if !decoded.contains(';') || reference == "&semi;" || reference == "&#59;" {
        return decoded.into_owned();
    }
    let lower = reference.to_lowercase();
    if !reference.starts_with("&#") && reference == reference.to_uppercase() && decoded == reference {
        let decoded = htmlize::unescape(lower.as_str());
        if !decoded.contains(';') {
            return decoded.to_uppercase();
        }
    }
    reference.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_in_references_are_decoded_as_by_repetition() {
        for (text, wanted) in [
            ("&amp;amp;amp;", "&"),
            ("Tom &amp;amp;lt; Jerry", "Tom < Jerry"),
            ("&amp&semi;lt&#59;", "<"),
            ("&#5&#57;;", ";"),
            ("&#5&#5&#57;;9;", "\u{5}9;"),
            ("é&#x26;#x26;EACUTE;", "éÉ"),
            ("&notit; &unknown; & &;", "&notit; &unknown; & &;"),
            ("&abcdefghijklmnopqrstuvwxyz;", "&abcdefghijklmnopqrstuvwxyz;"),
            ("", ""),
        ] {
            let mut repeated = text.to_owned();
            while decode_terminated(&repeated) != repeated {
                repeated = decode_terminated(&repeated);
            }
            assert_eq!(decode_nested(text), repeated, "{text}");
            assert_eq!(repeated, wanted, "{text}");
        }
    }
}
