//! Baselines of the rows of a sweep.

use std::collections::{BTreeMap, BTreeSet};

use super::settings::{BASELINE, BASELINES, ReportSweep};
use pairloom_base::error::TruncatedList;
use pairloom_base::suggest::quoted_list;
use pairloom_stage::{Problem, matches_glob};

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
        let matching = self.of_rows.iter().filter(|(pattern, _)| matches_glob(pattern, row));
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
        let is_used = |(pattern, _): &(&String, &String)| rows.iter().any(|row| matches_glob(pattern, row));
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

#[cfg(test)]
mod tests {
    use super::*;

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
