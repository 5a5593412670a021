//! Match of a pattern of the tokeniser, and helpers that the patterns share.

/// Match of a pattern at the start of a text: the number of characters examined, and the length of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternMatch {
    pub(super) examined: usize,
    pub(super) token_length: usize,
}

pub(super) fn whole_match(length: usize) -> Option<PatternMatch> {
    (length > 0).then_some(PatternMatch { examined: length, token_length: length })
}

pub(super) fn run_length(text: &[char], is: impl Fn(char) -> bool) -> usize {
    text.iter().take_while(|&&c| is(c)).count()
}

/// True if `text` starts with the concatenation of `parts`; ignores case.
pub(super) fn starts_with_ignoring_case(text: &[char], parts: &[&str]) -> bool {
    let mut chars = text.iter();
    parts
        .iter()
        .flat_map(|part| part.chars())
        .all(|wanted| chars.next().is_some_and(|c| c.eq_ignore_ascii_case(&wanted)))
}

pub(super) fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’' | '\u{92}')
}

/// True for a letter or a combining mark. The tokeniser supports the first 65,536 code points only.
pub(super) fn is_letter(c: char) -> bool {
    u32::from(c) < 0x1_0000
        && (c.is_alphabetic()
            || matches!(c, '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{65f}'))
}

pub(super) fn is_letter_or_digit(c: char) -> bool {
    is_letter(c) || c.is_ascii_digit() || matches!(c, '٠'..='٩' | '۰'..='۹' | '०'..='९' | '０'..='９')
}
