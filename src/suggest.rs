//! Lists of names in messages, and the name that was probably meant.

/// The name of `names` that `got` is probably a slip of: by edit distance, letter case aside, or because one begins with
/// the other.
pub fn similar<'n>(got: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let lower = got.to_lowercase();
    let scored = names.into_iter().map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name));
    let (distance, name) = scored.min_by_key(|(distance, _)| *distance)?;
    let longest = got.chars().count().max(name.chars().count());
    let begins = lower.len() >= 3 && (name.starts_with(&lower) || lower.starts_with(name));
    (distance <= 1.max(longest / 3) || begins).then_some(name)
}

/// `` `a`, `b`, `c` ``.
pub fn quoted<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let names = ["epochs", "batch", "min_count"];
        assert_eq!(similar("epoch", names), Some("epochs"));
        assert_eq!(similar("ebochs", names), Some("epochs"));
        assert_eq!(similar("Batch", names), Some("batch"));
        assert_eq!(similar("margin", names), None);
        assert_eq!(similar("x", []), None);
    }
}
