//! Cleaning of a caption, as `open_clip` does it before it encodes: `ftfy.fix_text`, `html.unescape` twice, one space
//! for all white space, lower case.
//!
//! The repair of text that was decoded in the wrong encoding ("sÃ³" for "só") is left out: it is a guess of `ftfy`, and
//! such a text stays as it is.

use std::sync::LazyLock;

use icu_normalizer::{ComposingNormalizer, ComposingNormalizerBorrowed};
use regex::{Captures, Regex};

/// Number of times that a line is fixed as `ftfy` does it, and then at most as often again with all references that are in
/// others. A caption of 16 KB can be made to change 4,000 times.
const FIXES: usize = 16;

/// Escape sequence of a terminal.
static TERMINAL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("\u{1b}\\[((?:[0-9]|;)*)([a-zA-Z])").expect("a valid regular expression"));

const NFC: ComposingNormalizerBorrowed<'static> = ComposingNormalizer::new_nfc();
const NFKC: ComposingNormalizerBorrowed<'static> = ComposingNormalizer::new_nfkc();

/// Cleans a caption.
#[must_use]
pub fn clean(text: &str) -> String {
    let fixed = fix_text(text);
    let unescaped = htmlize::unescape(fixed.as_str());
    let unescaped = htmlize::unescape(unescaped.as_ref());
    let words: Vec<&str> = unescaped.split(is_white_space).filter(|word| !word.is_empty()).collect();
    words.join(" ").to_lowercase()
}

/// True for the white space of Python, which has four control characters more than Unicode.
fn is_white_space(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}

/// Fixes each line, until nothing changes, or 32 times. From the first line with a `<` on, the text counts as HTML, whose
/// character references are meant.
fn fix_text(text: &str) -> String {
    let mut decode = true;
    let mut fixed = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        decode = decode && !line.contains('<');
        let mut line = line.to_owned();
        for number in 0..2 * FIXES {
            let decode_references = if number < FIXES { decode_terminated } else { decode_nested };
            let next = fix_line(if decode { decode_references(&line) } else { line.clone() });
            if next == line {
                break;
            }
            line = next;
        }
        fixed.push_str(&line);
    }
    fixed
}

/// Fixes the characters of a line whose references are decoded.
fn fix_line(decoded: String) -> String {
    if decoded.is_ascii() && !decoded.contains(|character: char| character.is_ascii_control()) {
        return decoded;
    }
    let mut replaced = String::with_capacity(decoded.len());
    for character in decoded.chars() {
        replace(character, &mut replaced);
    }
    let lines = replaced.replace("\r\n", "\n").replace(['\r', '\u{2028}', '\u{2029}', '\u{85}'], "\n");
    let shown = TERMINAL.replace_all(&lines, "");
    let shown: String = shown.chars().filter(|&character| !is_control(character)).collect();
    NFC.normalize(&shown).into_owned()
}

/// Appends the replacement of a character: C1 controls are those of Windows-1252, ligatures are letters, wide and narrow
/// forms are usual ones, and curly quotes are straight.
fn replace(character: char, text: &mut String) {
    let character = match character {
        '\u{80}'..='\u{9f}' => windows_1252(character),
        other => other,
    };
    match character {
        'Ĳ' => text.push_str("IJ"),
        'ĳ' => text.push_str("ij"),
        // An apostrophe of its own, which is then straightened.
        'ŉ' => text.push_str("'n"),
        'Ǳ' => text.push_str("DZ"),
        'ǲ' => text.push_str("Dz"),
        'ǳ' => text.push_str("dz"),
        'Ǆ' => text.push_str("DŽ"),
        'ǅ' => text.push_str("Dž"),
        'ǆ' => text.push_str("dž"),
        'Ǉ' => text.push_str("LJ"),
        'ǈ' => text.push_str("Lj"),
        'ǉ' => text.push_str("lj"),
        'Ǌ' => text.push_str("NJ"),
        'ǋ' => text.push_str("Nj"),
        'ǌ' => text.push_str("nj"),
        'ﬀ' => text.push_str("ff"),
        'ﬁ' => text.push_str("fi"),
        'ﬂ' => text.push_str("fl"),
        'ﬃ' => text.push_str("ffi"),
        'ﬄ' => text.push_str("ffl"),
        'ﬅ' => text.push_str("ſt"),
        'ﬆ' => text.push_str("st"),
        '\u{3000}' => text.push(' '),
        '\u{ff01}'..='\u{ffef}' => text.push_str(&NFKC.normalize(character.encode_utf8(&mut [0; 4]))),
        '\u{2bc}' | '\u{2018}'..='\u{201b}' => text.push('\''),
        '\u{201c}'..='\u{201f}' => text.push('"'),
        other => text.push(other),
    }
}

/// Character that Windows-1252 has in place of a C1 control; five places have none.
fn windows_1252(control: char) -> char {
    const CHARACTERS: [char; 32] = [
        '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
        '\u{2018}', '\u{2019}', '\u{201c}', '\u{201d}', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
    ];
    usize::try_from(u32::from(control) - 0x80).ok().and_then(|place| CHARACTERS.get(place)).copied().unwrap_or(control)
}

/// True for control characters that are removed: those of ASCII without white space, and marks of old formats.
fn is_control(character: char) -> bool {
    matches!(
        character,
        '\0'..='\u{8}'
            | '\u{b}'
            | '\u{e}'..='\u{1f}'
            | '\u{7f}'
            | '\u{206a}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffc}'
    )
}

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
    fn captions_are_cleaned() {
        for (text, expected) in [
            ("  A  Dog\truns.\n", "a dog runs."),
            ("A man\u{2019}s \u{201c}big\u{201d} dog", "a man's \"big\" dog"),
            ("Tom &amp;amp; Jerry &amp; Co", "tom & jerry & co"),
            ("caf\u{65}\u{301}", "café"),
            ("ﬁve Ｄｏｇｓ", "five dogs"),
            ("P&EACUTE;REZ", "pérez"),
            ("a \u{7f}dog\u{0}\u{1b}[31m", "a dog"),
            ("<b>&lt;</b>", "<b><</b>"),
            ("", ""),
        ] {
            assert_eq!(clean(text), expected, "{text:?}");
        }
    }

    /// Each fix took one `amp;` or semicolon away, and there were thousands of fixes of 16 KB.
    #[test]
    fn references_in_references_are_decoded_at_any_depth() {
        for depth in [1, 15, 16, 17, 31, 32, 33, 4090] {
            assert_eq!(clean(&format!("a &{}b", "amp;".repeat(depth))), "a &b", "{depth}");
            assert_eq!(clean(&format!("&{}lt; é", "#38;".repeat(depth))), "< é", "{depth}");
            assert_eq!(clean(&format!("a{};", "&semi".repeat(depth))), "a;", "{depth}");
        }
        // References around characters that a fix removes are followed for 32 fixes.
        assert_eq!(clean(&format!("{}1;{}", "&#".repeat(20), "1;".repeat(19))), "");
        let _ = clean(&format!("{}1;{}", "&#".repeat(4000), "1;".repeat(4000)));
    }

    #[test]
    fn references_in_references_are_decoded_as_by_repetition() {
        for (text, expected) in [
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
            assert_eq!(repeated, expected, "{text}");
        }
    }
}
