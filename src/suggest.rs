//! Suggestions in messages: the known name that is closest to an unknown one, and lists of names.

/// Name of `names` that `got` is probably a misspelling of: the one at the smallest Damerau-Levenshtein distance
/// (case-insensitive), if that distance is small or one of the two is a prefix of the other.
pub fn closest_name<'n>(got: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    // A number that is not there is another number, not a misspelling.
    if got.parse::<f64>().is_ok() {
        return None;
    }
    let lower = got.to_lowercase();
    let scored = names.into_iter().map(|name| (strsim::damerau_levenshtein(&lower, &name.to_lowercase()), name));
    let (distance, name) = scored.min_by_key(|(distance, _)| *distance)?;
    let longest = got.chars().count().max(name.chars().count());
    let begins = lower.len() >= 3 && (name.starts_with(&lower) || lower.starts_with(name));
    (distance <= 1.max(longest / 3) || begins).then_some(name)
}

/// Formats names as `` `a`, `b`, `c` ``.
pub fn quoted_list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspellings_are_recognised_and_other_words_are_not() {
        let names = ["epochs", "batch", "min_count"];
        assert_eq!(closest_name("epoch", names), Some("epochs"));
        assert_eq!(closest_name("ebochs", names), Some("epochs"));
        assert_eq!(closest_name("Batch", names), Some("batch"));
        assert_eq!(closest_name("margin", names), None);
        assert_eq!(closest_name("9", ["1", "2"]), None);
        assert_eq!(closest_name("x", []), None);
    }
}
