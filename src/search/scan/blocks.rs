//! Scan over all scores: who computes which, and in what order they are looked at.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::stripes::{rows_of, stripe_rows};
use crate::error::Result;
use crate::search::checkpoint::Progress;
use crate::search::scores::{Lane, Precision, Scores, rows_held};

/// Visitor of scores, on one thread.
///
/// It sees whole stripes, in rising order; of a stripe the rows in blocks, in rising order; of a block the panels of columns,
/// in rising order.
pub trait Visitor: Send {
    /// True if it holds the scores of a block, so that blocks must not have more than [`rows_held`].
    const HOLDS_BLOCK: bool = false;

    /// A stripe begins.
    fn begin(&mut self, _stripe: usize) {}

    /// Takes the scores of `rows` with the columns of panel `panel`, one row after the other. Scores beyond the last column mean
    /// nothing.
    fn panel(&mut self, rows: Range<usize>, panel: usize, scores: &[Lane]) -> Result<()>;

    /// All scores of these rows have been seen.
    fn block(&mut self, _rows: Range<usize>) -> Result<()> {
        Ok(())
    }

    /// A stripe ends.
    fn end(&mut self, _stripe: usize) {}

    /// True if it has no use for more scores.
    fn is_over(&self) -> bool {
        false
    }
}

/// Scan of a source of scores by some threads.
#[derive(Debug, Clone, Copy)]
pub struct Scan<'s> {
    pub scores: &'s dyn Scores,
    pub threads: usize,
    pub forced: Forced,
}

/// How a scan is done where a test wants it so.
#[derive(Debug, Clone, Copy, Default)]
pub struct Forced {
    /// The precision of approximate scores, where the source has it and no sums are asked for; never given up.
    pub precision: Option<Precision>,
    /// Rows of a block.
    pub block: Option<usize>,
}

impl Scan<'_> {
    /// Multiply-adds of it.
    pub fn cost(&self) -> u128 {
        self.scores.sizes().map(|size| size as u128).into_iter().product::<u128>() * u128::from(self.scores.cost())
    }

    /// Rows of a block.
    fn block_rows(&self, precision: Precision, held: bool) -> usize {
        let block = self.forced.block.unwrap_or_else(|| self.scores.block_rows(precision));
        if held { block.min(rows_held(self.scores.sizes()[1])) } else { block }.max(1)
    }

    /// Shows all scores of these stripes to `visitors`, each on a thread of its own, and gives them back.
    ///
    /// # Errors
    /// The first one of `progress`, which is told on this thread, between blocks; or one of the source or of a visitor, on any
    /// thread.
    pub fn run<V: Visitor>(
        &self,
        precision: Precision,
        stripes: Range<usize>,
        visitors: Vec<V>,
        progress: &mut dyn Progress,
    ) -> Result<Vec<V>> {
        let rows = self.scores.sizes()[0];
        let block = self.block_rows(precision, V::HOLDS_BLOCK);
        let Range { start, end } = rows_of(&stripes, rows);
        let (next, done, stop) = (AtomicUsize::new(stripes.start), AtomicUsize::new(start), AtomicBool::new(false));
        let stripe = stripe_rows(rows);
        let work = |visitor: &mut V, told: &mut dyn FnMut() -> Result<()>| -> Result<()> {
            let mut buffer = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= stripes.end {
                    return Ok(());
                }
                let range = number * stripe..end.min((number + 1) * stripe);
                visitor.begin(number);
                for first in range.clone().step_by(block) {
                    if stop.load(Ordering::Relaxed) || visitor.is_over() {
                        return Ok(());
                    }
                    told()?;
                    let rows = first..range.end.min(first + block);
                    self.scores.block(precision, rows.clone(), &mut buffer, &mut |panel, scores| {
                        visitor.panel(rows.clone(), panel, scores)
                    })?;
                    visitor.block(rows.clone())?;
                    done.fetch_add(rows.len(), Ordering::Relaxed);
                }
                visitor.end(number);
            }
        };
        // One that fails ends the others.
        let work = |visitor: &mut V, told: &mut dyn FnMut() -> Result<()>| {
            let result = work(visitor, told);
            stop.fetch_or(result.is_err(), Ordering::Relaxed);
            result
        };
        let visitors =
            on_threads(visitors, &work, &mut || progress.report(done.load(Ordering::Relaxed) as u64, rows as u64))?;
        // Not where the visitors had enough before.
        if done.load(Ordering::Relaxed) == end {
            progress.report(end as u64, rows as u64)?;
        }
        Ok(visitors)
    }
}

/// Does `work` with every visitor, the first on this thread, where `report` is told, and each other on one of its own.
fn on_threads<V: Visitor>(
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
