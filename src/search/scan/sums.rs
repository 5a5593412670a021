//! Statistics that are sums over all scores of a row or a column (log-sum-exp, mean, standard deviation), in one pass.
//!
//! Parts of a sum arrive in any order, and are added in the order of their numbers, group by group.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::blocks::{Scan, ScoreVisitor, stripe_count};
use crate::checkpoint::{PayloadReader, PayloadWriter};
use crate::scores::{MatrixSide, PanelRow};
use crate::threads::parallel_ranges;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::hubness::method::Statistic;
use pairloom_kernels::product::TILE_COLUMNS;
use pairloom_kernels::score_panels::{
    ColumnLogSumExps, ColumnMoments, Moments, RunningLogSumExp, add_exp_columns, add_exp_rows, add_moments,
};

/// Sums that the requested statistics need, and the sums of the columns so far.
#[derive(Debug)]
pub struct SumStatistics {
    /// β of every log-sum-exp, for rows and for columns.
    betas: [Vec<f64>; 2],
    moments: bool,
    /// One score of each row and of each column, subtracted before squares are summed (shifted data, for a stable
    /// variance).
    moment_shifts: [Vec<f32>; 2],
    counts: [usize; 2],
    columns: Mutex<OrderedSum<ColumnTotals>>,
}

/// Returns true if the statistic is a sum over all scores.
pub fn is_sum_statistic(statistic: &Statistic) -> bool {
    !matches!(statistic, Statistic::MeanOfLargest { .. } | Statistic::KthLargest { .. })
}

/// Sums of all columns over the rows of a stripe.
#[derive(Debug, Clone, Default)]
pub struct ColumnTotals {
    /// Log-sum-exps, by β and panel.
    logs: Vec<Vec<ColumnLogSumExps>>,
    moments: Vec<ColumnMoments>,
}

impl ColumnTotals {
    fn write(&self, payload: &mut PayloadWriter) {
        for sums in self.logs.iter().flatten() {
            sums.references.iter().for_each(|&reference| payload.write_f32(reference));
            sums.sums.iter().for_each(|&sum| payload.write_f64(sum));
        }
        for moments in &self.moments {
            moments.sums.iter().chain(&moments.squares).for_each(|&sum| payload.write_f64(sum));
        }
    }
}

impl SumStatistics {
    /// Sums for the statistics of rows and columns; `None` if no statistic is a sum.
    ///
    /// # Errors
    /// A β that is negative or no finite f32, or the first error of the source.
    pub fn new(scan: &Scan<'_>, statistics: [&[Statistic]; 2]) -> Result<Option<Self>> {
        if !statistics.iter().any(|statistics| statistics.iter().any(is_sum_statistic)) {
            return Ok(None);
        }
        let mut betas = [Vec::new(), Vec::new()];
        for (betas, statistics) in betas.iter_mut().zip(statistics) {
            for statistic in statistics {
                if let Statistic::LogSumExp { beta } = *statistic {
                    if !(0.0..=f64::from(f32::MAX)).contains(&beta) {
                        return Err(Error::usage(format!("got β = {beta}, expected a finite f32 of at least 0")));
                    }
                    betas.push(beta);
                }
            }
        }
        let is_moment = |statistic: &Statistic| matches!(statistic, Statistic::Mean | Statistic::StandardDeviation);
        let moments = statistics.iter().any(|statistics| statistics.iter().any(is_moment));
        let counts = scan.scores.shape();
        let shift = |side: MatrixSide| -> Result<Vec<f32>> {
            let count = counts[side.index()];
            if counts.contains(&0) {
                return Ok(vec![0.0; count]);
            }
            let parts = parallel_ranges(scan.threads, count, |part| {
                let mut score = Vec::new();
                let mut first = |i: usize| scan.scores.exact_scores(side, i, &[0], &mut score).map(|()| score[0]);
                part.map(&mut first).collect::<Result<Vec<_>>>()
            });
            Ok(parts.into_iter().collect::<Result<Vec<_>>>()?.concat())
        };
        let shifts = [shift(MatrixSide::Rows)?, shift(MatrixSide::Columns)?];
        let columns = Mutex::new(OrderedSum::new(stripe_count(counts[0])));
        Ok(Some(Self { betas, moments, moment_shifts: shifts, counts, columns }))
    }

    fn empty_totals(&self) -> ColumnTotals {
        let panels = self.counts[1].div_ceil(TILE_COLUMNS);
        ColumnTotals {
            logs: self.betas[1].iter().map(|_| vec![ColumnLogSumExps::EMPTY; panels]).collect(),
            moments: vec![ColumnMoments::EMPTY; if self.moments { panels } else { 0 }],
        }
    }

    /// Values of the statistics of `rows`, from the visitors of all threads; empty for a statistic that is no sum.
    pub fn row_statistics(
        &self,
        statistics: &[Statistic],
        rows: Range<usize>,
        visitors: Vec<SumVisitor<'_>>,
    ) -> Vec<Vec<f64>> {
        let mut row_totals: Vec<RowTotals> = visitors.into_iter().flat_map(|visitor| visitor.rows).collect();
        row_totals.sort_unstable_by_key(|totals| totals.row);
        let mut logs = 0..;
        let mut values = |statistic: &Statistic| -> Vec<f64> {
            let shifted = row_totals.iter().zip(&self.moment_shifts[0][rows.clone()]);
            let columns = self.counts[1];
            match *statistic {
                Statistic::LogSumExp { beta } => {
                    let number = logs.next().unwrap_or_default();
                    row_totals.iter().map(|totals| totals.logs[number].value(beta)).collect()
                }
                Statistic::Mean => shifted.map(|(totals, &shift)| totals.moments.mean(columns, shift)).collect(),
                Statistic::StandardDeviation => {
                    row_totals.iter().map(|totals| totals.moments.standard_deviation(columns)).collect()
                }
                Statistic::MeanOfLargest { .. } | Statistic::KthLargest { .. } => Vec::new(),
            }
        };
        statistics.iter().map(&mut values).collect()
    }

    /// Values of the statistics of every column; empty for a statistic that is no sum.
    pub fn column_statistics(&self, statistics: &[Statistic]) -> Vec<Vec<f64>> {
        let (columns, none) = (self.columns(), self.empty_totals());
        let columns = columns.total().unwrap_or(&none);
        let mut logs = columns.logs.iter();
        let mut values = |statistic: &Statistic| -> Vec<f64> {
            let moments = |j: usize| columns.moments[j / TILE_COLUMNS].column(j % TILE_COLUMNS);
            let all = 0..self.counts[1];
            match *statistic {
                Statistic::LogSumExp { beta } => {
                    let sums = logs.next().map_or(&[][..], Vec::as_slice);
                    all.map(|j| sums[j / TILE_COLUMNS].value(j % TILE_COLUMNS, beta)).collect()
                }
                Statistic::Mean => all.map(|j| moments(j).mean(self.counts[0], self.moment_shifts[1][j])).collect(),
                Statistic::StandardDeviation => all.map(|j| moments(j).standard_deviation(self.counts[0])).collect(),
                Statistic::MeanOfLargest { .. } | Statistic::KthLargest { .. } => Vec::new(),
            }
        };
        statistics.iter().map(&mut values).collect()
    }

    /// Writes the sums of the columns so far.
    pub fn write(&self, payload: &mut PayloadWriter) {
        self.columns().total().into_iter().for_each(|total| total.write(payload));
    }

    /// Writes the sums of the columns over each group of stripes.
    pub fn write_groups(&self, payload: &mut PayloadWriter) {
        self.columns().groups().iter().for_each(|group| group.write(payload));
    }

    /// Reads sums that were written; `None` if the payload is too short.
    pub fn read(&self, payload: &mut PayloadReader<'_>) -> Option<ColumnTotals> {
        let mut all = self.empty_totals();
        for sums in all.logs.iter_mut().flatten() {
            for reference in &mut sums.references {
                *reference = payload.read_f32()?;
            }
            for sum in &mut sums.sums {
                *sum = payload.read_f64()?;
            }
        }
        for moments in &mut all.moments {
            for sum in moments.sums.iter_mut().chain(&mut moments.squares) {
                *sum = payload.read_f64()?;
            }
        }
        Some(all)
    }

    /// Resumes from the sums of the stripes before `next`.
    pub fn resume(&self, columns: ColumnTotals, next: usize) {
        *self.columns() = OrderedSum::resume(columns, next, stripe_count(self.counts[0]));
    }

    /// Keeps the sums over each group of `stripes`, whole groups, in place of a total.
    pub fn keep_groups(&self, stripes: Range<usize>) {
        *self.columns() = OrderedSum::of_groups(stripes, stripe_count(self.counts[0]));
    }

    /// Adds the sums over the next group of stripes.
    pub fn add_group(&self, group: ColumnTotals) {
        self.columns().add_group(group, |total, part| self.merge(total, &part));
    }

    fn merge(&self, total: &mut ColumnTotals, part: &ColumnTotals) {
        for ((total, part), &beta) in total.logs.iter_mut().zip(&part.logs).zip(&self.betas[1]) {
            total.iter_mut().zip(part).for_each(|(total, part)| total.merge(part, to_f32(beta)));
        }
        total.moments.iter_mut().zip(&part.moments).for_each(|(total, part)| total.merge(part));
    }

    fn columns(&self) -> MutexGuard<'_, OrderedSum<ColumnTotals>> {
        self.columns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sums of one row.
#[derive(Debug, Clone)]
struct RowTotals {
    row: usize,
    /// Log-sum-exps, by β.
    logs: Vec<RunningLogSumExp>,
    moments: Moments,
}

/// Visitor that sums scores, on one thread.
#[derive(Debug)]
pub struct SumVisitor<'s> {
    statistics: &'s SumStatistics,
    /// Sums of the columns over the stripe.
    columns: ColumnTotals,
    /// Log-sum-exps of the rows of the block, by β and row.
    logs: Vec<Vec<RunningLogSumExp>>,
    moments: Vec<Moments>,
    zeros: Vec<f32>,
    rows: Vec<RowTotals>,
}

impl<'s> SumVisitor<'s> {
    pub fn new(statistics: &'s SumStatistics) -> Self {
        let columns = ColumnTotals { logs: Vec::new(), moments: Vec::new() };
        Self { statistics, columns, logs: Vec::new(), moments: Vec::new(), zeros: Vec::new(), rows: Vec::new() }
    }

    fn start(&mut self, rows: usize) {
        self.logs = self.statistics.betas[0].iter().map(|_| vec![RunningLogSumExp::EMPTY; rows]).collect();
        self.moments = vec![Moments::default(); rows];
        self.zeros = vec![0.0; rows];
    }
}

/// Rounds β to the precision of scores.
#[expect(clippy::cast_possible_truncation, reason = "exponents of f32 have its precision")]
pub fn to_f32(beta: f64) -> f32 {
    beta as f32
}

impl ScoreVisitor for SumVisitor<'_> {
    fn begin_stripe(&mut self, _stripe: usize) {
        self.columns = self.statistics.empty_totals();
    }

    fn visit_panel(&mut self, rows: Range<usize>, panel: usize, scores: &[PanelRow]) -> Result<()> {
        let statistics = self.statistics;
        if panel == 0 {
            self.start(rows.len());
        }
        let first = panel * TILE_COLUMNS;
        let used = (statistics.counts[1] - first).min(TILE_COLUMNS);
        let mut outside = [0.0; TILE_COLUMNS];
        outside[used..].fill(f32::NEG_INFINITY);
        for (&beta, sums) in statistics.betas[0].iter().zip(&mut self.logs) {
            add_exp_rows(to_f32(beta), scores, &outside, sums);
        }
        for (&beta, sums) in statistics.betas[1].iter().zip(&mut self.columns.logs) {
            add_exp_columns(to_f32(beta), scores, &self.zeros, &mut sums[panel]);
        }
        if statistics.moments {
            let mut shifts = [0.0; TILE_COLUMNS];
            shifts[..used].copy_from_slice(&statistics.moment_shifts[1][first..first + used]);
            let to = &mut self.columns.moments[panel];
            add_moments(scores, used, &statistics.moment_shifts[0][rows], &shifts, &mut self.moments, to);
        }
        Ok(())
    }

    fn end_block(&mut self, rows: Range<usize>) -> Result<()> {
        if self.statistics.counts[1] == 0 {
            self.start(rows.len());
        }
        let first = rows.start;
        self.rows.extend(rows.map(|row| RowTotals {
            row,
            logs: self.logs.iter().map(|sums| sums[row - first]).collect(),
            moments: self.moments[row - first],
        }));
        Ok(())
    }

    fn end_stripe(&mut self, stripe: usize) {
        let part = std::mem::replace(&mut self.columns, ColumnTotals { logs: Vec::new(), moments: Vec::new() });
        self.statistics.columns().add(stripe, part, |total, part| self.statistics.merge(total, &part));
    }
}

/// Largest number of groups.
const MAX_GROUPS: usize = 64;

/// Number of parts of a group, if there are `parts` in all.
pub fn parts_per_group(parts: usize) -> usize {
    parts.div_ceil(MAX_GROUPS).max(1)
}

/// Sum of numbered parts. The parts of a group are added in their order, then the sums of groups in theirs.
///
/// Groups depend on the number of all parts alone. So the sums of groups can be computed in several processes, and have
/// the bits of one.
#[derive(Debug)]
pub struct OrderedSum<T> {
    per_group: usize,
    next: usize,
    end: usize,
    waiting: BTreeMap<usize, T>,
    /// Sum of the parts of an unfinished group.
    group: Option<T>,
    /// Sums of finished groups, or their total alone.
    sums: Vec<T>,
    keeps_groups: bool,
}

impl<T> OrderedSum<T> {
    /// Total of `parts` parts.
    pub fn new(parts: usize) -> Self {
        let per_group = parts_per_group(parts);
        Self {
            per_group,
            next: 0,
            end: parts,
            waiting: BTreeMap::new(),
            group: None,
            sums: vec![],
            keeps_groups: false,
        }
    }

    /// Sum of each group of `range`, whole groups of `parts` parts.
    pub fn of_groups(range: Range<usize>, parts: usize) -> Self {
        Self { next: range.start, end: range.end, keeps_groups: true, ..Self::new(parts) }
    }

    /// Resumes from the total of the parts before `next`, whole groups.
    pub fn resume(total: T, next: usize, parts: usize) -> Self {
        Self { next, sums: vec![total], ..Self::new(parts) }
    }

    /// Takes a part; `merge` adds a later part to the sum of the earlier ones.
    pub fn add(&mut self, number: usize, part: T, merge: impl Fn(&mut T, T)) {
        self.waiting.insert(number, part);
        while let Some(part) = self.waiting.remove(&self.next) {
            match &mut self.group {
                Some(group) => merge(group, part),
                None => self.group = Some(part),
            }
            self.next += 1;
            if (self.next.is_multiple_of(self.per_group) || self.next == self.end)
                && let Some(group) = self.group.take()
            {
                self.add_group(group, &merge);
            }
        }
    }

    /// Takes the sum of the next group.
    pub fn add_group(&mut self, group: T, merge: impl Fn(&mut T, T)) {
        match self.sums.last_mut() {
            Some(total) if !self.keeps_groups => merge(total, group),
            _ => self.sums.push(group),
        }
    }

    /// Returns the total of all finished groups; `None` if there are none.
    pub fn total(&self) -> Option<&T> {
        self.sums.first().filter(|_| !self.keeps_groups)
    }

    /// Returns the sum of each group.
    pub fn groups(&self) -> &[T] {
        &self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(total: &mut String, part: String) {
        *total = format!("({total}{part})");
    }

    #[test]
    fn parts_are_added_in_order_and_by_group() {
        let mut sum = OrderedSum::new(4);
        assert_eq!(sum.total(), None);
        for number in [2, 0, 3, 1] {
            sum.add(number, number.to_string(), append);
        }
        assert_eq!(sum.total().map(String::as_str), Some("(((01)2)3)"));
        // Above 64 parts a group has two, and the last one what remains.
        let mut sum = OrderedSum::new(65);
        (0..65).rev().for_each(|number| sum.add(number, format!("{number},"), append));
        let total = sum.total().expect("all parts");
        assert!(total.ends_with("(60,61,))(62,63,))64,)") && total.contains("((0,1,)(2,3,))"), "{total}");
        let mut resumed = OrderedSum::new(65);
        (0..10).for_each(|number| resumed.add(number, format!("{number},"), append));
        let mut resumed = OrderedSum::resume(resumed.total().expect("five groups").clone(), 10, 65);
        (10..65).for_each(|number| resumed.add(number, format!("{number},"), append));
        assert_eq!(resumed.total(), Some(total));
        // Sums of groups, added elsewhere.
        let mut merged = OrderedSum::new(65);
        for range in [0..30, 30..65] {
            let mut groups = OrderedSum::of_groups(range.clone(), 65);
            range.rev().for_each(|number| groups.add(number, format!("{number},"), append));
            assert_eq!(groups.total(), None);
            groups.groups().iter().for_each(|group| merged.add_group(group.clone(), append));
        }
        assert_eq!(merged.total(), Some(total));
    }
}
