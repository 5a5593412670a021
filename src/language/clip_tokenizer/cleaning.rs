//! Cleaning of a caption, as `open_clip` does it before it encodes: `ftfy.fix_text`, `html.unescape` twice, one space
//! for all white space, lower case.
//!
//! The repair of text that was decoded in the wrong encoding ("sÃ³" for "só") is left out: it is a guess of `ftfy`, and
//! such a text stays as it is.

use std::sync::LazyLock;

use icu_normalizer::{ComposingNormalizer, ComposingNormalizerBorrowed};
use regex::Regex;

use super::html_entities::{decode_nested, decode_terminated};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captions_are_cleaned() {
        for (text, wanted) in [
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
            assert_eq!(clean(text), wanted, "{text:?}");
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
}
