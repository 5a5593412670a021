//! Patterns of names.

/// Sign that stands for any characters of a name.
const ANY: char = '*';

/// True if `name` matches a pattern in which `*` stands for any characters.
pub fn matches_glob(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once(ANY) else { return pattern == name };
    let Some(mut left) = name.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = rest.split(ANY).collect();
    let last = parts.pop().unwrap_or_default();
    for part in parts {
        match left.find(part) {
            Some(at) => left = &left[at + part.len()..],
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters() {
        for (pattern, name, is_match) in [
            ("sgr", "sgr", true),
            ("sgr", "sgr_sam", false),
            ("sgr*", "sgr", true),
            ("*, coco", "2.9, coco", true),
            ("*, coco", "2.9, f30k", false),
            ("a*b*c", "axxbyyc", true),
            ("a*b*c", "acb", false),
            ("ab*ba", "aba", false),
            ("*", "", true),
        ] {
            assert_eq!(matches_glob(pattern, name), is_match, "{pattern} {name}");
        }
    }
}
