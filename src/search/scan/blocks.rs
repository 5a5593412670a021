//! Scan over all scores: its distribution over threads by stripes of rows, and the order in which visitors see scores.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::checkpoint::SearchProgress;
use crate::scores::{PanelRow, ScorePrecision, Scores, rows_per_buffer};
use pairloom_base::error::Result;
use pairloom_kernels::product::TILE_ROWS;

/// Visitor of scores, on one thread.
///
/// A visitor sees whole stripes of rows, a stripe in blocks of rows, and a block in panels of columns, all in ascending
/// order.
pub trait ScoreVisitor: Send {
    /// True if the visitor holds the scores of a block. Then blocks have at most [`rows_per_buffer`] rows.
    const HOLDS_BLOCK: bool = false;

    /// Begins a stripe.
    fn begin_stripe(&mut self, _stripe: usize) {}

    /// Visits the scores of `rows` with the columns of panel `panel`, row by row. Scores beyond the last column are
    /// undefined.
    fn visit_panel(&mut self, rows: Range<usize>, panel: usize, scores: &[PanelRow]) -> Result<()>;

    /// Ends a block: all scores of these rows have been visited.
    fn end_block(&mut self, _rows: Range<usize>) -> Result<()> {
        Ok(())
    }

    /// Ends a stripe.
    fn end_stripe(&mut self, _stripe: usize) {}

    /// Returns true if the visitor needs no more scores.
    fn is_done(&self) -> bool {
        false
    }
}

/// Scan of a source of scores on some threads.
#[derive(Debug, Clone, Copy)]
pub struct Scan<'s> {
    pub scores: &'s dyn Scores,
    pub threads: usize,
    pub overrides: ScanOverrides,
}

/// Settings of a scan that only tests change.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScanOverrides {
    /// Precision of approximate scores, if the source has it and no sums are requested. A coarse pass is then never
    /// abandoned.
    pub precision: Option<ScorePrecision>,
    /// Number of rows of a block.
    pub block_rows: Option<usize>,
}

impl Scan<'_> {
    /// Cost of the scan, in multiply-adds.
    pub fn cost(&self) -> u128 {
        self.scores.shape().map(|size| size as u128).into_iter().product::<u128>() * u128::from(self.scores.cost())
    }

    /// Number of rows of a block; `held` is true if visitors hold the scores of a block.
    fn block_rows(&self, precision: ScorePrecision, held: bool) -> usize {
        let block = self.overrides.block_rows.unwrap_or_else(|| self.scores.block_rows(precision));
        if held { block.min(rows_per_buffer(self.scores.shape()[1])) } else { block }.max(1)
    }

    /// Passes all scores of these stripes to `visitors`, each on a thread of its own, and returns the visitors.
    ///
    /// # Errors
    /// The first error of `progress`, which is called on this thread, between blocks; or an error of the source or of a
    /// visitor, on any thread.
    pub fn run<V: ScoreVisitor>(
        &self,
        precision: ScorePrecision,
        stripes: Range<usize>,
        visitors: Vec<V>,
        progress: &mut dyn SearchProgress,
    ) -> Result<Vec<V>> {
        let rows = self.scores.shape()[0];
        let block = self.block_rows(precision, V::HOLDS_BLOCK);
        let Range { start, end } = stripe_rows_range(&stripes, rows);
        let (next, done, stop) = (AtomicUsize::new(stripes.start), AtomicUsize::new(start), AtomicBool::new(false));
        let stripe = stripe_rows(rows);
        let work = |visitor: &mut V, report: &mut dyn FnMut() -> Result<()>| -> Result<()> {
            let mut buffer = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= stripes.end {
                    return Ok(());
                }
                let range = number * stripe..end.min((number + 1) * stripe);
                visitor.begin_stripe(number);
                for first in range.clone().step_by(block) {
                    if stop.load(Ordering::Relaxed) || visitor.is_done() {
                        return Ok(());
                    }
                    report()?;
                    let rows = first..range.end.min(first + block);
                    self.scores.compute_block(precision, rows.clone(), &mut buffer, &mut |panel, scores| {
                        visitor.visit_panel(rows.clone(), panel, scores)
                    })?;
                    visitor.end_block(rows.clone())?;
                    done.fetch_add(rows.len(), Ordering::Relaxed);
                }
                visitor.end_stripe(number);
            }
        };
        // The first failure stops all threads.
        let work = |visitor: &mut V, report: &mut dyn FnMut() -> Result<()>| {
            let result = work(visitor, report);
            stop.fetch_or(result.is_err(), Ordering::Relaxed);
            result
        };
        let visitors =
            on_threads(visitors, &work, &mut || progress.report(done.load(Ordering::Relaxed) as u64, rows as u64))?;
        // Visitors that are done early leave rows unvisited.
        if done.load(Ordering::Relaxed) == end {
            progress.report(end as u64, rows as u64)?;
        }
        Ok(visitors)
    }
}

/// Calls `work` for every visitor: for the first one on this thread, which calls `report`, for each other on its own
/// thread.
fn on_threads<V: ScoreVisitor>(
    visitors: Vec<V>,
    work: &(impl Fn(&mut V, &mut dyn FnMut() -> Result<()>) -> Result<()> + Sync),
    report: &mut dyn FnMut() -> Result<()>,
) -> Result<Vec<V>> {
    std::thread::scope(|scope| {
        let mut visitors = visitors.into_iter();
        let first = visitors.next();
        let others: Vec<_> = visitors
            .map(|mut visitor| {
                scope.spawn(move || {
                    let result = work(&mut visitor, &mut || Ok(()));
                    (visitor, result)
                })
            })
            .collect();
        let mut result = Ok(());
        let mut visitors = Vec::new();
        if let Some(mut visitor) = first {
            result = work(&mut visitor, report);
            visitors.push(visitor);
        }
        for other in others {
            let (visitor, other_result) = other.join().expect("no thread of a search panics");
            visitors.push(visitor);
            result = result.and(other_result);
        }
        result.map(|()| visitors)
    })
}

/// Minimum and maximum number of rows of a stripe, and the number of stripes between these limits.
const MIN_STRIPE_ROWS: usize = 16 * TILE_ROWS;
const MAX_STRIPE_ROWS: usize = 64 * TILE_ROWS;
const TARGET_STRIPES: usize = 64;

/// Number of rows of a stripe. It depends on the number of all rows alone, so sums over the rows of a stripe, and then
/// over stripes, have the same bits for any number of threads.
pub fn stripe_rows(rows: usize) -> usize {
    rows.div_ceil(TARGET_STRIPES).clamp(MIN_STRIPE_ROWS, MAX_STRIPE_ROWS).next_multiple_of(TILE_ROWS)
}

/// Number of stripes.
pub fn stripe_count(rows: usize) -> usize {
    rows.div_ceil(stripe_rows(rows))
}

/// Rows of a range of stripes, if there are `rows` in all.
pub fn stripe_rows_range(stripes: &Range<usize>, rows: usize) -> Range<usize> {
    let stripe = stripe_rows(rows);
    rows.min(stripes.start * stripe)..rows.min(stripes.end * stripe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_are_whole_tiles_and_hold_every_row_once() {
        for rows in [0, 1, 192, 193, 5_000, 20_000, 31_014, 123_287, 1_000_003] {
            let (stripe, count) = (stripe_rows(rows), stripe_count(rows));
            assert_eq!(stripe % TILE_ROWS, 0, "{rows}");
            assert!(count <= TARGET_STRIPES || stripe == MAX_STRIPE_ROWS, "{rows}");
            let each = (0..count).map(|number| stripe_rows_range(&(number..number + 1), rows));
            assert!(each.clone().all(|stripe| !stripe.is_empty()), "{rows}");
            assert!(each.flatten().eq(0..rows), "{rows}");
            assert_eq!(stripe_rows_range(&(0..count), rows), 0..rows);
        }
    }
}
