//! Pieces that patterns are made of, and what a pattern finds.

/// Match of a pattern at the start of a text: how far it looked, and how much of that is the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) seen: usize,
    pub(super) taken: usize,
}

pub(super) fn whole(length: usize) -> Option<Found> {
    (length > 0).then_some(Found { seen: length, taken: length })
}

pub(super) fn run_of(text: &[char], is: impl Fn(char) -> bool) -> usize {
    text.iter().take_while(|&&c| is(c)).count()
}

/// True if `text` starts with `parts`, in whatever case.
pub(super) fn same(text: &[char], parts: &[&str]) -> bool {
    let mut chars = text.iter();
    parts
        .iter()
        .flat_map(|part| part.chars())
        .all(|wanted| chars.next().is_some_and(|c| c.eq_ignore_ascii_case(&wanted)))
}

pub(super) fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’' | '\u{92}')
}

/// A letter or a mark on one. Those beyond the first 65,536 characters are unknown to the tokeniser.
pub(super) fn is_letter(c: char) -> bool {
    u32::from(c) < 0x1_0000
        && (c.is_alphabetic()
            || matches!(c, '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{591}'..='\u{5c7}' | '\u{610}'..='\u{65f}'))
}

pub(super) fn is_letter_or_digit(c: char) -> bool {
    is_letter(c) || c.is_ascii_digit() || matches!(c, '٠'..='٩' | '۰'..='۹' | '०'..='९' | '０'..='９')
}
