//! Statistics of all scores of every row and every column: sums, in one pass.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::blocks::{Scan, Visitor};
use super::in_order::InOrder;
use crate::error::{Error, Result};
use crate::kernels::hubness::statistic::Statistic;
use crate::kernels::product::COLUMNS;
use crate::kernels::scores::{
    ColumnMoments, ColumnSums, LogSum, Moments, add_along_columns, add_along_rows, add_moments,
};
use crate::search::checkpoint::{Reader, Writer};
use crate::search::scores::{Lane, Side};
use crate::search::threads::in_parts;

/// What is summed.
#[derive(Debug)]
pub struct Summed {
    /// β of every softmax, of rows and of columns.
    betas: [Vec<f64>; 2],
    moments: bool,
    /// A score of each row, and of each column.
    shifts: [Vec<f32>; 2],
    counts: [usize; 2],
    columns: Mutex<InOrder<OfColumns>>,
}

/// Whether it is a sum over all scores.
pub fn is_sum(statistic: &Statistic) -> bool {
    !matches!(statistic, Statistic::MeanOfLargest { .. } | Statistic::KthLargest { .. })
}

/// Of all columns of a stripe.
#[derive(Debug, Clone, Default)]
pub struct OfColumns {
    /// For every β, of every panel.
    logs: Vec<Vec<ColumnSums>>,
    moments: Vec<ColumnMoments>,
}

impl Summed {
    /// What the statistics of rows and columns need; `None` where they need no sums.
    ///
    /// # Errors
    /// A β that is negative or no finite f32, or the first one of the source.
    pub fn new(scan: &Scan<'_>, statistics: [&[Statistic]; 2]) -> Result<Option<Self>> {
        if !statistics.iter().any(|statistics| statistics.iter().any(is_sum)) {
            return Ok(None);
        }
        let mut betas = [Vec::new(), Vec::new()];
        for (betas, statistics) in betas.iter_mut().zip(statistics) {
            for statistic in statistics {
                if let Statistic::LogSumExp { beta } = *statistic {
                    if !(0.0..=f64::from(f32::MAX)).contains(&beta) {
                        return Err(Error::usage(format!("got β = {beta}, wanted a number from 0 that is an f32")));
                    }
                    betas.push(beta);
                }
            }
        }
        let is_moment = |statistic: &Statistic| matches!(statistic, Statistic::Mean | Statistic::StandardDeviation);
        let moments = statistics.iter().any(|statistics| statistics.iter().any(is_moment));
        let counts = scan.scores.sizes();
        let shift = |side: Side| -> Result<Vec<f32>> {
            let count = counts[side.index()];
            if counts.contains(&0) {
                return Ok(vec![0.0; count]);
            }
            let parts = in_parts(scan.threads, count, |part| {
                let mut score = Vec::new();
                let mut first = |i: usize| scan.scores.exact(side, i, &[0], &mut score).map(|()| score[0]);
                part.map(&mut first).collect::<Result<Vec<_>>>()
            });
            Ok(parts.into_iter().collect::<Result<Vec<_>>>()?.concat())
        };
        let shifts = [shift(Side::Rows)?, shift(Side::Columns)?];
        Ok(Some(Self { betas, moments, shifts, counts, columns: Mutex::default() }))
    }

    fn none(&self) -> OfColumns {
        let panels = self.counts[1].div_ceil(COLUMNS);
        OfColumns {
            logs: self.betas[1].iter().map(|_| vec![ColumnSums::EMPTY; panels]).collect(),
            moments: vec![ColumnMoments::EMPTY; if self.moments { panels } else { 0 }],
        }
    }

    /// The sums that were asked for of `rows`, from all threads; of other statistics, nothing.
    pub fn of_rows(&self, statistics: &[Statistic], rows: Range<usize>, visitors: Vec<Sums<'_>>) -> Vec<Vec<f64>> {
        let mut of_rows: Vec<OfRow> = visitors.into_iter().flat_map(|visitor| visitor.found).collect();
        of_rows.sort_unstable_by_key(|of| of.row);
        let mut logs = 0..;
        let mut values = |statistic: &Statistic| -> Vec<f64> {
            let shifted = of_rows.iter().zip(&self.shifts[0][rows.clone()]);
            let columns = self.counts[1];
            match *statistic {
                Statistic::LogSumExp { beta } => {
                    let number = logs.next().unwrap_or_default();
                    of_rows.iter().map(|of| of.logs[number].value(beta)).collect()
                }
                Statistic::Mean => shifted.map(|(of, &shift)| of.moments.mean(columns, shift)).collect(),
                Statistic::StandardDeviation => {
                    of_rows.iter().map(|of| of.moments.standard_deviation(columns)).collect()
                }
                Statistic::MeanOfLargest { .. } | Statistic::KthLargest { .. } => Vec::new(),
            }
        };
        statistics.iter().map(&mut values).collect()
    }

    /// The sums that were asked for of every column; of other statistics, nothing.
    pub fn of_columns(&self, statistics: &[Statistic]) -> Vec<Vec<f64>> {
        let (columns, none) = (self.columns(), self.none());
        let columns = columns.total().unwrap_or(&none);
        let mut logs = columns.logs.iter();
        let mut values = |statistic: &Statistic| -> Vec<f64> {
            let moments = |j: usize| columns.moments[j / COLUMNS].column(j % COLUMNS);
            let all = 0..self.counts[1];
            match *statistic {
                Statistic::LogSumExp { beta } => {
                    let sums = logs.next().map_or(&[][..], Vec::as_slice);
                    all.map(|j| sums[j / COLUMNS].value(j % COLUMNS, beta)).collect()
                }
                Statistic::Mean => all.map(|j| moments(j).mean(self.counts[0], self.shifts[1][j])).collect(),
                Statistic::StandardDeviation => all.map(|j| moments(j).standard_deviation(self.counts[0])).collect(),
                Statistic::MeanOfLargest { .. } | Statistic::KthLargest { .. } => Vec::new(),
            }
        };
        statistics.iter().map(&mut values).collect()
    }

    /// What has been summed of columns, for keeping.
    pub fn write(&self, payload: &mut Writer) {
        let columns = self.columns();
        let Some(total) = columns.total() else { return };
        for sums in total.logs.iter().flatten() {
            sums.references.iter().for_each(|&reference| payload.float(reference));
            sums.sums.iter().for_each(|&sum| payload.double(sum));
        }
        for moments in &total.moments {
            moments.sums.iter().chain(&moments.squares).for_each(|&sum| payload.double(sum));
        }
    }

    /// What was written; `None` where there is less.
    pub fn read(&self, payload: &mut Reader<'_>) -> Option<OfColumns> {
        let mut all = self.none();
        for sums in all.logs.iter_mut().flatten() {
            for reference in &mut sums.references {
                *reference = payload.float()?;
            }
            for sum in &mut sums.sums {
                *sum = payload.double()?;
            }
        }
        for moments in &mut all.moments {
            for sum in moments.sums.iter_mut().chain(&mut moments.squares) {
                *sum = payload.double()?;
            }
        }
        Some(all)
    }

    /// Goes on from the sums of the stripes before `next`.
    pub fn go_on(&self, columns: OfColumns, next: usize) {
        *self.columns() = InOrder::from(Some(columns), next);
    }

    fn columns(&self) -> MutexGuard<'_, InOrder<OfColumns>> {
        self.columns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Of one row.
#[derive(Debug, Clone)]
struct OfRow {
    row: usize,
    /// For every β.
    logs: Vec<LogSum>,
    moments: Moments,
}

/// What one thread has seen.
#[derive(Debug)]
pub struct Sums<'s> {
    summed: &'s Summed,
    /// Of the stripe.
    columns: OfColumns,
    /// Of the block: for every β, of every row.
    logs: Vec<Vec<LogSum>>,
    moments: Vec<Moments>,
    zeros: Vec<f32>,
    found: Vec<OfRow>,
}

impl<'s> Sums<'s> {
    pub fn new(summed: &'s Summed) -> Self {
        let columns = OfColumns { logs: Vec::new(), moments: Vec::new() };
        Self { summed, columns, logs: Vec::new(), moments: Vec::new(), zeros: Vec::new(), found: Vec::new() }
    }

    fn start(&mut self, rows: usize) {
        self.logs = self.summed.betas[0].iter().map(|_| vec![LogSum::EMPTY; rows]).collect();
        self.moments = vec![Moments::default(); rows];
        self.zeros = vec![0.0; rows];
    }
}

/// β as the scores are.
#[expect(clippy::cast_possible_truncation, reason = "exponents of f32 have its precision")]
pub fn narrow(beta: f64) -> f32 {
    beta as f32
}

impl Visitor for Sums<'_> {
    fn begin(&mut self, _stripe: usize) {
        self.columns = self.summed.none();
    }

    fn panel(&mut self, rows: Range<usize>, panel: usize, scores: &[Lane]) -> Result<()> {
        let summed = self.summed;
        if panel == 0 {
            self.start(rows.len());
        }
        let first = panel * COLUMNS;
        let used = (summed.counts[1] - first).min(COLUMNS);
        let mut outside = [0.0; COLUMNS];
        outside[used..].fill(f32::NEG_INFINITY);
        for (&beta, sums) in summed.betas[0].iter().zip(&mut self.logs) {
            add_along_rows(narrow(beta), scores, &outside, sums);
        }
        for (&beta, sums) in summed.betas[1].iter().zip(&mut self.columns.logs) {
            add_along_columns(narrow(beta), scores, &self.zeros, &mut sums[panel]);
        }
        if summed.moments {
            let mut shifts = [0.0; COLUMNS];
            shifts[..used].copy_from_slice(&summed.shifts[1][first..first + used]);
            let to = &mut self.columns.moments[panel];
            add_moments(scores, used, &summed.shifts[0][rows], &shifts, &mut self.moments, to);
        }
        Ok(())
    }

    fn block(&mut self, rows: Range<usize>) -> Result<()> {
        if self.summed.counts[1] == 0 {
            self.start(rows.len());
        }
        let first = rows.start;
        self.found.extend(rows.map(|row| OfRow {
            row,
            logs: self.logs.iter().map(|sums| sums[row - first]).collect(),
            moments: self.moments[row - first],
        }));
        Ok(())
    }

    fn end(&mut self, stripe: usize) {
        let part = std::mem::replace(&mut self.columns, OfColumns { logs: Vec::new(), moments: Vec::new() });
        let betas = &self.summed.betas[1];
        let merge = |total: &mut OfColumns, part: OfColumns| {
            for ((total, part), &beta) in total.logs.iter_mut().zip(&part.logs).zip(betas) {
                total.iter_mut().zip(part).for_each(|(total, part)| total.merge(part, narrow(beta)));
            }
            total.moments.iter_mut().zip(&part.moments).for_each(|(total, part)| total.merge(part));
        };
        self.summed.columns().add(stripe, part, merge);
    }
}
