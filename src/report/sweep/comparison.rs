//! Comparison of the rows of a sweep with their baselines.

use super::baselines::Baselines;
use super::measures::SweepMeasure;
use super::table::{BaselineComparison, SweepRow, SweepTable};
use pairloom_retrieval::{PairedSeedTest, SeedStatistics};

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
    let of_baseline: Vec<&SweepRow> = among.iter().filter(|other| other.row == baseline).collect();
    match of_baseline.as_slice() {
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
    let of = SeedStatistics::of(&differences)?;
    let test = PairedSeedTest::of(&own, &others);
    Some(BaselineComparison { baseline: baseline.row.clone(), difference: of.mean, n: of.n, test })
}
