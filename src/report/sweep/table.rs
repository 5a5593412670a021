//! Table of a sweep: statistics of every measure over the repetitions of a row, for one protocol, and the comparison of rows
//! with their baselines.

use std::collections::{BTreeMap, BTreeSet};

use super::measures::SweepMeasure;
use super::printed::{PrintedRemarks, PrintedRow};
use super::read::SweepRuns;
use super::settings::{BASELINE, BASELINES, ReportSweep};
use crate::page_data::ResultRow;
use pairloom_base::error::TruncatedList;
use pairloom_base::suggest::quoted_list;
use pairloom_retrieval::{PairedSeedTest, SeedStatistics};
use pairloom_stage::{Problem, matches_glob};

/// Results of one protocol.
#[derive(Debug)]
pub(super) struct SweepTable {
    pub(super) protocol: String,
    /// Number of images and of captions in the pool of one fold.
    pub(super) pool: (usize, usize),
    /// Recalls, rsum, and hs-sum if a row has it.
    pub(super) measures: Vec<SweepMeasure>,
    /// Ranks, if a row has them.
    pub(super) rank_measures: Vec<SweepMeasure>,
    /// NCS and its sums, if a row has them.
    pub(super) ncs_measures: Vec<SweepMeasure>,
    /// k-occurrences, if a row has them.
    pub(super) occurrence_measures: Vec<SweepMeasure>,
    pub(super) rows: Vec<SweepRow>,
    pub(super) remarks: PrintedRemarks,
}

/// Row of the table: the results of one method in all repetitions.
#[derive(Debug)]
pub(super) struct SweepRow {
    pub(super) row: String,
    /// Name of the method with its parameters, without the values of those that were chosen.
    pub(super) method: String,
    pub(super) transductive: bool,
    /// Results with their repetitions.
    pub(super) results: Vec<(Option<String>, ResultRow)>,
    /// True if hs-sum counts an image once for each of its captions, as papers do.
    pub(super) is_hs_sum_of_rows: bool,
    /// Values of all measures, also of those that the table leaves out.
    pub(super) values: Vec<(SweepMeasure, SweepValue)>,
    pub(super) printed: Option<PrintedRow>,
    /// Difference to the baseline; `None` for the baseline itself, and without repetitions in common.
    pub(super) comparison: Option<BaselineComparison>,
}

/// Value of a measure over the repetitions of a row.
#[derive(Debug, Clone, Copy)]
pub(super) struct SweepValue {
    /// `None` if a run has no value.
    pub(super) statistics: Option<SeedStatistics>,
    /// True if no row has a better mean, as shown. False in a table of one row.
    pub(super) is_best: bool,
}

/// Difference in rsum between a row and its baseline, over the repetitions that both have.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BaselineComparison {
    /// Name of the baseline.
    pub(super) baseline: String,
    /// Mean of the differences, row minus baseline.
    pub(super) difference: f64,
    /// Number of repetitions.
    pub(super) n: usize,
    /// Tests of the difference; `None` for one repetition.
    pub(super) test: Option<PairedSeedTest>,
}

impl SweepRow {
    /// Value of a measure.
    pub(super) fn value(&self, measure: SweepMeasure) -> Option<SweepValue> {
        self.values.iter().find(|(known, _)| *known == measure).map(|(_, value)| *value)
    }

    /// Statistics of rsum.
    pub(super) fn rsum(&self) -> Option<SeedStatistics> {
        self.value(SweepMeasure::Rsum)?.statistics
    }

    /// Mean rsum minus the printed one.
    pub(super) fn printed_difference(&self) -> Option<f64> {
        Some(self.rsum()?.mean - self.printed_value(SweepMeasure::Rsum)?)
    }

    /// Printed value of a measure.
    pub(super) fn printed_value(&self, measure: SweepMeasure) -> Option<f64> {
        self.printed.as_ref()?.value(measure)
    }

    /// True if the paper prints hs-sum of the row, and ours counts otherwise.
    pub(super) fn has_other_hs_sum(&self) -> bool {
        !self.is_hs_sum_of_rows && self.printed_value(SweepMeasure::HsSum).is_some()
    }

    /// True if the value beside the difference in rsum is a sum of the printed recalls.
    pub(super) fn has_computed_rsum(&self) -> bool {
        self.printed_difference().is_some() && self.printed.as_ref().is_some_and(PrintedRow::is_computed_rsum)
    }

    /// Name of the row, and of the method in brackets if the table has several.
    pub(super) fn full_name(&self, has_methods: bool) -> String {
        if has_methods { format!("{} ({})", self.row, self.method) } else { self.row.clone() }
    }
}

impl SweepTable {
    /// True if the rows are of several methods.
    pub(super) fn has_methods(&self) -> bool {
        self.rows.iter().any(|row| row.method != self.rows[0].method)
    }

    /// True if a row has several runs.
    pub(super) fn has_repetitions(&self) -> bool {
        self.rows.iter().any(|row| row.results.len() > 1)
    }

    /// True if a row has k-occurrences and the paper prints them.
    pub(super) fn has_printed_occurrences(&self) -> bool {
        let is_printed = |measure: &SweepMeasure| self.rows.iter().any(|row| row.printed_value(*measure).is_some());
        self.occurrence_measures.iter().any(is_printed)
    }

    /// True if the difference to a printed rsum is known for a row.
    pub(super) fn has_printed_rsum(&self) -> bool {
        self.rows.iter().any(|row| row.printed_difference().is_some())
    }

    /// True if a printed rsum is a sum of the printed recalls.
    pub(super) fn has_computed_rsum(&self) -> bool {
        self.rows.iter().any(SweepRow::has_computed_rsum)
    }

    /// True if hs-sum of a row counts an image once for each of its captions.
    pub(super) fn has_hs_sum_of_rows(&self) -> bool {
        self.rows.iter().any(|row| row.is_hs_sum_of_rows)
    }

    /// True if hs-sum of the row counts an image once, while that of another row counts it once for each of its captions.
    pub(super) fn is_other_hs_sum(&self, row: &SweepRow) -> bool {
        let has_value = row.value(SweepMeasure::HsSum).is_some_and(|value| value.statistics.is_some());
        has_value && !row.is_hs_sum_of_rows && self.has_hs_sum_of_rows()
    }

    /// True if the rows differ in their hs-sum.
    pub(super) fn has_other_hs_sums(&self) -> bool {
        self.rows.iter().any(|row| self.is_other_hs_sum(row))
    }

    /// Baselines that rows are compared with, in the order of the rows.
    pub(super) fn baselines(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for comparison in self.rows.iter().filter_map(|row| row.comparison.as_ref()) {
            if !names.contains(&comparison.baseline.as_str()) {
                names.push(&comparison.baseline);
            }
        }
        names
    }

    /// True if a row is compared with a baseline.
    pub(super) fn has_comparisons(&self) -> bool {
        self.rows.iter().any(|row| row.comparison.is_some())
    }

    /// Row with the largest mean rsum.
    pub(super) fn best(&self) -> Option<&SweepRow> {
        let mean = |row: &&SweepRow| row.rsum().map_or(f64::NEG_INFINITY, |rsum| rsum.mean);
        self.rows.iter().reduce(|best, row| if mean(&row) > mean(&best) { row } else { best })
    }
}

/// Tables of all protocols, in the order of their first results. `results` has those of each run.
pub(super) fn tables(cutoffs: &[usize], runs: &SweepRuns, results: &[Vec<ResultRow>]) -> Vec<SweepTable> {
    let mut tables: Vec<SweepTable> = Vec::new();
    for row in runs.rows() {
        let row_runs = runs.runs.iter().zip(results).filter(|(run, _)| run.row == row);
        for (run, result) in row_runs.flat_map(|(run, results)| results.iter().map(move |result| (run, result))) {
            let table = match tables.iter().position(|table| table.protocol == result.protocol) {
                Some(known) => &mut tables[known],
                None => {
                    tables.push(SweepTable {
                        protocol: result.protocol.clone(),
                        pool: (result.n_images, result.n_captions),
                        measures: Vec::new(),
                        rank_measures: Vec::new(),
                        ncs_measures: Vec::new(),
                        occurrence_measures: Vec::new(),
                        rows: Vec::new(),
                        remarks: PrintedRemarks::default(),
                    });
                    let new = tables.len() - 1;
                    &mut tables[new]
                }
            };
            let method = row_method(&result.method);
            let is_row = |known: &SweepRow| {
                let is_new = known.results.iter().all(|(other, _)| *other != run.repetition);
                known.row == row && known.method == method && is_new
            };
            let known = table.rows.iter().position(is_row);
            let result = (run.repetition.clone(), result.clone());
            match known {
                Some(known) => table.rows[known].results.push(result),
                None => table.rows.push(SweepRow::new(row, method, result)),
            }
        }
    }
    for table in &mut tables {
        table.summarise(cutoffs);
    }
    tables
}

/// Method of a row, without the values of parameters that were chosen on a validation split: seeds can differ in them.
fn row_method(method: &str) -> String {
    if !method.contains(", chosen on ") {
        return method.to_owned();
    }
    method.split(", ").filter(|part| !part.contains(" = ")).collect::<Vec<_>>().join(", ")
}

impl SweepRow {
    fn new(row: &str, method: String, first: (Option<String>, ResultRow)) -> Self {
        Self {
            row: row.to_owned(),
            method,
            transductive: first.1.transductive,
            results: vec![first],
            is_hs_sum_of_rows: false,
            values: Vec::new(),
            printed: None,
            comparison: None,
        }
    }

    /// Replaces hs-sum by that over rows if all runs have it. A matching has not.
    fn use_hs_sum_of_rows(&mut self) {
        self.is_hs_sum_of_rows = self.results.iter().all(|(_, result)| result.hs_sum_of_rows.is_some());
        for (_, result) in self.results.iter_mut().filter(|_| self.is_hs_sum_of_rows) {
            result.hs_sum = result.hs_sum_of_rows.unwrap_or(result.hs_sum);
        }
    }
}

impl SweepTable {
    /// Computes the values of all rows, and keeps the measures that have some.
    fn summarise(&mut self, cutoffs: &[usize]) {
        self.rows.iter_mut().for_each(SweepRow::use_hs_sum_of_rows);
        let mut kept = [
            SweepMeasure::recalls(cutoffs),
            SweepMeasure::ranks(),
            SweepMeasure::ncs(cutoffs),
            SweepMeasure::occurrence_rates(),
        ];
        for measure in kept.iter().flatten() {
            for row in &mut self.rows {
                let values: Vec<f64> = row.results.iter().map(|(_, result)| measure.value(result)).collect();
                let statistics = SeedStatistics::of(&values);
                row.values.push((*measure, SweepValue { statistics, is_best: false }));
            }
            self.mark_best(*measure);
        }
        let has_values = |measure: &SweepMeasure| {
            self.rows.iter().any(|row| row.value(*measure).is_some_and(|value| value.statistics.is_some()))
        };
        for measures in &mut kept {
            measures.retain(has_values);
        }
        [self.measures, self.rank_measures, self.ncs_measures, self.occurrence_measures] = kept;
    }

    /// Marks the best values of a measure: those of the least cost, as shown.
    fn mark_best(&mut self, measure: SweepMeasure) {
        let is_of_rows = self.has_hs_sum_of_rows();
        let cost = |row: &SweepRow| {
            // Different counts do not compare.
            let is_other = measure == SweepMeasure::HsSum && row.is_hs_sum_of_rows != is_of_rows;
            measure.cost(row.value(measure)?.statistics?.mean).filter(|_| !is_other)
        };
        let Some(least) = self.rows.iter().filter_map(cost).reduce(f64::min).filter(|_| self.rows.len() > 1) else {
            return;
        };
        for row in &mut self.rows {
            let is_best = cost(row).is_some_and(|cost| measure.text(cost) == measure.text(least));
            if let Some((_, value)) = row.values.iter_mut().find(|(known, _)| *known == measure) {
                value.is_best = is_best;
            }
        }
    }
}

/// Compares each row of a table with its baseline: of the same method, or if the baseline has one method only, of that
/// one.
pub(super) fn compare(table: &mut SweepTable, baselines: &Baselines<'_>) {
    let compared = |row: &SweepRow| {
        let baseline = baselines.of(&row.row).filter(|baseline| *baseline != row.row)?;
        comparison(row, counterpart(row, &table.rows, baseline)?)
    };
    let comparisons: Vec<Option<BaselineComparison>> = table.rows.iter().map(compared).collect();
    for (row, comparison) in table.rows.iter_mut().zip(comparisons) {
        row.comparison = comparison;
    }
}

/// Row of the baseline that a row is compared with.
fn counterpart<'r>(row: &SweepRow, among: &'r [SweepRow], baseline: &str) -> Option<&'r SweepRow> {
    let baseline_rows: Vec<&SweepRow> = among.iter().filter(|other| other.row == baseline).collect();
    match baseline_rows.as_slice() {
        [one] => Some(*one),
        several => several.iter().find(|other| other.method == row.method).copied(),
    }
}

fn comparison(row: &SweepRow, baseline: &SweepRow) -> Option<BaselineComparison> {
    let rsum = |result| SweepMeasure::Rsum.value(result);
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for (repetition, result) in &row.results {
        if let Some((_, other)) = baseline.results.iter().find(|(other, _)| other == repetition) {
            own.push(rsum(result));
            others.push(rsum(other));
        }
    }
    let differences: Vec<f64> = own.iter().zip(&others).map(|(own, other)| own - other).collect();
    let statistics = SeedStatistics::of(&differences)?;
    let test = PairedSeedTest::of(&own, &others);
    Some(BaselineComparison { baseline: baseline.row.clone(), difference: statistics.mean, n: statistics.n, test })
}

/// Baseline of each row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Baselines<'s> {
    /// Baseline of rows that have none of their own.
    common: Option<&'s str>,
    /// Baselines by the name of a row, or by a pattern.
    row_patterns: &'s BTreeMap<String, String>,
}

impl<'s> Baselines<'s> {
    /// Baseline of a row: that of its name, of the longest pattern that it matches, or the common one.
    pub(super) fn of(&self, row: &str) -> Option<&'s str> {
        let matching = self.row_patterns.iter().filter(|(pattern, _)| matches_glob(pattern, row));
        let nearest = matching.max_by_key(|(pattern, _)| (pattern.as_str() == row, pattern.len()));
        nearest.map(|(_, baseline)| baseline.as_str()).or(self.common)
    }
}

impl ReportSweep {
    /// Baselines of the rows.
    pub(super) fn baselines(&self) -> Baselines<'_> {
        Baselines { common: self.baseline.as_deref(), row_patterns: &self.baselines }
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

/// Difference with its sign and one decimal.
pub(super) fn signed(difference: f64) -> String {
    format!("{difference:+.1}")
}

/// p-value with three decimals.
pub(super) fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { format!("{p:.3}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_counts() {
        let row_patterns = [("sgr*", "sgr"), ("sgr_hal", "own"), ("s*", "scan"), ("*", "any")];
        let row_patterns = row_patterns.map(|(pattern, row)| (pattern.to_owned(), row.to_owned())).into();
        let baselines = Baselines { common: Some("sum"), row_patterns: &row_patterns };
        let baseline = |row| baselines.of(row).unwrap_or_default();
        assert_eq!(
            [baseline("sgr_sam"), baseline("sgr_hal"), baseline("saf"), baseline("1")],
            ["sgr", "own", "scan", "any"]
        );
        let none = BTreeMap::new();
        assert_eq!(Baselines { common: Some("sum"), row_patterns: &none }.of("1"), Some("sum"));
        assert_eq!(Baselines { common: None, row_patterns: &none }.of("1"), None);
    }
}
