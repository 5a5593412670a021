//! Sentence splitter: Punkt (Kiss and Strunk, "Unsupervised Multilingual Sentence Boundary Detection", Computational
//! Linguistics 32(4), 2006) without its learned statistics of capitalisation.
//!
//! For captions it decides only if a period inside the caption is separated from its word. Punkt's learned list of
//! abbreviations is replaced by the few that occur in captions.

/// Abbreviations, whose period ends no sentence.
pub const ABBREVIATIONS: [&str; 20] = [
    "mr", "mrs", "ms", "dr", "st", "vs", "jr", "sr", "prof", "gen", "sgt", "lt", "col", "etc", "no", "mt", "ft", "u.s",
    "e.g", "i.e",
];

/// Splits `text` into sentences, without the white space around them.
///
/// A sentence ends after a word that ends with `?`, `!` or a single period. A period ends no sentence after an
/// abbreviation or a single letter, and after a number only if the next word starts with a capital.
#[must_use]
pub fn split_sentences(text: &str) -> Vec<&str> {
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
        assert_eq!(split_sentences("a dog runs. it is wet ."), ["a dog runs.", "it is wet ."]);
        assert_eq!(split_sentences("mr. smith has no. 5. a hat"), ["mr. smith has no. 5. a hat"]);
        assert_eq!(split_sentences("Mr. Smith runs. Dr. No too"), ["Mr. Smith runs.", "Dr. No too"]);
        assert_eq!(split_sentences("so... he j. runs ! ok"), ["so... he j. runs !", "ok"]);
        assert!(split_sentences("  ").is_empty());
    }
}
