//! Suggestions in messages: the known name that is closest to an unknown one, and lists of names.

/// Maximum length in bytes of names that are compared. The cost of a comparison is the product of two lengths.
const MAX_COMPARED_BYTES: usize = 256;

/// Maximum number of names that one is compared with.
const MAX_COMPARED_NAMES: usize = 1000;

/// Number of mistakes of a file for which a close name is looked for.
pub const MAX_SUGGESTIONS: usize = 100;

/// Number of names that a list in a message shows. A stage has fewer settings.
const LISTED_NAMES: usize = 100;

/// Name of `names` that `got` is probably a misspelling of: the one at the smallest Damerau-Levenshtein distance
/// (case-insensitive), if that distance is small or one of the two is a prefix of the other.
///
/// Names of more than 256 bytes are not compared, and only the first 1,000 are, so that a hostile file cannot keep this busy.
pub fn closest_name<'n>(got: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    // A number that is not there is another number, not a misspelling.
    if got.parse::<f64>().is_ok() {
        return None;
    }
    let lower = got.to_lowercase();
    let names = names.into_iter().take(MAX_COMPARED_NAMES);
    let scored = names.filter_map(|name| Some((name_distance(&lower, name)?, name)));
    let (distance, name) = scored.min_by_key(|(distance, _)| *distance)?;
    let longest = got.chars().count().max(name.chars().count());
    let begins = lower.len() >= 3 && (name.starts_with(&lower) || lower.starts_with(name));
    (distance <= 1.max(longest / 3) || begins).then_some(name)
}

/// Damerau-Levenshtein distance between a name in lower case and another in any case; `None` if one of them has more than 256
/// bytes.
pub fn name_distance(lower: &str, name: &str) -> Option<usize> {
    let is_short = lower.len().max(name.len()) <= MAX_COMPARED_BYTES;
    is_short.then(|| strsim::damerau_levenshtein(lower, &name.to_lowercase()))
}

/// Formats names as `` `a`, `b`, `c` ``, the first 100 and the number of the others.
pub fn quoted_list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    let mut names = names.into_iter();
    let mut list: Vec<String> = names.by_ref().take(LISTED_NAMES).map(|name| format!("`{name}`")).collect();
    let more = names.count();
    if more > 0 {
        list.push(format!("and {more} more"));
    }
    list.join(", ")
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
        let long = "a".repeat(257);
        assert_eq!(closest_name(&long, ["b"]), None);
        assert_eq!(closest_name("b", [long.as_str(), "bb"]), Some("bb"));
    }
}
