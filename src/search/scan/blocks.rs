//! Scan over all scores: its distribution over threads, and the order in which visitors see scores.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::stripes::{stripe_rows, stripe_rows_range};
use crate::checkpoint::SearchProgress;
use crate::scores::{PanelRow, ScorePrecision, Scores, rows_per_buffer};
use pairloom_base::error::Result;

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
            let (visitor, of_other) = other.join().expect("no thread of a search panics");
            visitors.push(visitor);
            result = result.and(of_other);
        }
        result.map(|()| visitors)
    })
}
