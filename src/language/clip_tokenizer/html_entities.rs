//! Character references of HTML, as `ftfy` decodes them.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// Character reference with its semicolon.
static REFERENCE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("&#?[0-9A-Za-z]{1,24};").expect("a valid regular expression"));

/// Decodes character references that end in a semicolon, also names in capitals such as `&EACUTE;`.
pub(super) fn decode_terminated(text: &str) -> String {
    REFERENCE.replace_all(text, |found: &Captures<'_>| decode(&found[0])).into_owned()
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
