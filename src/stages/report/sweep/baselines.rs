//! Baselines of the rows of a sweep.

use std::collections::{BTreeMap, BTreeSet};

use super::settings::{BASELINE, BASELINES, ReportSweep};
use crate::error::TruncatedList;
use crate::stage::Problem;
use crate::suggest::quoted_list;

/// Sign that stands for any characters in the name of a row.
const ANY: char = '*';

/// Baseline of each row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Baselines<'s> {
    /// Baseline of rows that have none of their own.
    common: Option<&'s str>,
    /// Baselines by the name of a row, or by a pattern.
    of_rows: &'s BTreeMap<String, String>,
}

impl<'s> Baselines<'s> {
    /// Baseline of a row: that of its name, of the longest pattern that it matches, or the common one.
    pub(super) fn of(&self, row: &str) -> Option<&'s str> {
        let matching = self.of_rows.iter().filter(|(pattern, _)| matches(pattern, row));
        let nearest = matching.max_by_key(|(pattern, _)| (pattern.as_str() == row, pattern.len()));
        nearest.map(|(_, baseline)| baseline.as_str()).or(self.common)
    }
}

impl ReportSweep {
    /// Baselines of the rows.
    pub(super) fn baselines(&self) -> Baselines<'_> {
        Baselines { common: self.baseline.as_deref(), of_rows: &self.baselines }
    }

    /// Checks that baselines are rows, and that each name in `baselines` means one. A part of a matrix may lack many of them,
    /// so one message names all.
    pub(super) fn check_baselines(&self) -> Vec<Problem> {
        let runs = self.runs();
        let rows = runs.rows();
        if rows.is_empty() {
            return Vec::new();
        }
        let there: TruncatedList = rows.iter().map(|row| format!("`{row}`")).collect();
        let hint = format!("its rows are {}", there.join(", "));
        let warning = |setting: &str, message: String| Problem::warning(setting, message).hint(&hint);
        let unknown = |row: &String| format!("got `{row}`, which is no row of the sweep");
        let is_missing = |row: &&String| !rows.contains(&row.as_str());
        let mut problems: Vec<Problem> =
            self.baseline.iter().filter(is_missing).map(|row| warning(BASELINE, unknown(row))).collect();
        let is_used = |(pattern, _): &(&String, &String)| rows.iter().any(|row| matches(pattern, row));
        let (used, unused): (Vec<_>, Vec<_>) = self.baselines.iter().partition(is_used);
        if !unused.is_empty() {
            let patterns = quoted_list(unused.iter().map(|(pattern, _)| pattern.as_str()));
            problems.push(warning(BASELINES, format!("no row of the sweep matches {patterns}")));
        }
        let baselines: BTreeSet<&String> = used.into_iter().map(|(_, baseline)| baseline).collect();
        problems.extend(baselines.into_iter().filter(is_missing).map(|row| warning(BASELINES, unknown(row))));
        problems
    }
}

/// True if `name` matches a pattern in which `*` stands for any characters.
fn matches(pattern: &str, name: &str) -> bool {
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
            assert_eq!(matches(pattern, name), is_match, "{pattern} {name}");
        }
    }

    #[test]
    fn the_nearest_name_counts() {
        let of_rows = [("sgr*", "sgr"), ("sgr_hal", "own"), ("s*", "scan"), ("*", "any")];
        let of_rows = of_rows.map(|(pattern, row)| (pattern.to_owned(), row.to_owned())).into();
        let baselines = Baselines { common: Some("sum"), of_rows: &of_rows };
        let of = |row| baselines.of(row).unwrap_or_default();
        assert_eq!([of("sgr_sam"), of("sgr_hal"), of("saf"), of("1")], ["sgr", "own", "scan", "any"]);
        let none = BTreeMap::new();
        assert_eq!(Baselines { common: Some("sum"), of_rows: &none }.of("1"), Some("sum"));
        assert_eq!(Baselines { common: None, of_rows: &none }.of("1"), None);
    }
}
