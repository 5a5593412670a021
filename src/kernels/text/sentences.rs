//! Where a sentence of a caption ends, after Punkt (Kiss and Strunk, "Unsupervised Multilingual Sentence Boundary
//! Detection", Computational Linguistics 32(4), 2006), as it is without what it learns about capitals.
//!
//! It matters little: it decides only whether a period in the middle of a caption stays on its word. Punkt's learned
//! list of abbreviations is replaced by the few that captions use.

/// Words that keep their period.
pub const ABBREVIATIONS: [&str; 20] = [
    "mr", "mrs", "ms", "dr", "st", "vs", "jr", "sr", "prof", "gen", "sgt", "lt", "col", "etc", "no", "mt", "ft", "u.s",
    "e.g", "i.e",
];

/// The sentences of `text`, without the white space around them.
///
/// A sentence ends after a word that ends with `?`, `!` or one period; not after an abbreviation or a single letter, and
/// after a number with a period only before a capital.
#[must_use]
pub fn sentences(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let end = word.as_ptr() as usize - text.as_ptr() as usize + word.len();
        let capital = words.peek().is_some_and(|next| next.starts_with(char::is_uppercase));
        if ends_sentence(word, capital) {
            found.push(text[start..end].trim());
            start = end;
        }
    }
    found.push(text[start..].trim());
    found.retain(|sentence| !sentence.is_empty());
    found
}

fn ends_sentence(word: &str, before_capital: bool) -> bool {
    if word.ends_with(['?', '!']) {
        return true;
    }
    let Some(stem) = word.strip_suffix('.') else { return false };
    if stem.is_empty() || stem.ends_with('.') {
        return stem.is_empty();
    }
    let stem = stem.rsplit(['(', '[', '{', '"', '*', '@', ':', ';', '?', '!', ')', ']', '}']).next().unwrap_or(stem);
    let mut letters = stem.chars();
    let single = letters.next().is_some_and(char::is_alphabetic) && letters.next().is_none();
    let number = stem.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | ',' | '-'))
        && stem.chars().any(|c| c.is_ascii_digit());
    let stem = stem.to_lowercase();
    let last = stem.rsplit('-').next().unwrap_or(&stem);
    !single && (!number || before_capital) && !ABBREVIATIONS.contains(&stem.as_str()) && !ABBREVIATIONS.contains(&last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_at_periods_but_not_at_abbreviations() {
        assert_eq!(sentences("a dog runs. it is wet ."), ["a dog runs.", "it is wet ."]);
        assert_eq!(sentences("mr. smith has no. 5. a hat"), ["mr. smith has no. 5. a hat"]);
        assert_eq!(sentences("Mr. Smith runs. Dr. No too"), ["Mr. Smith runs.", "Dr. No too"]);
        assert_eq!(sentences("so... he j. runs ! ok"), ["so... he j. runs !", "ok"]);
        assert!(sentences("  ").is_empty());
    }
}
