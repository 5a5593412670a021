//! One pass over all scores: who computes which, and in what order they are looked at.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::Watch;
use super::exact::Exact;
use super::packed::Packed;
use super::products::Products;
use super::rows::HELD;
use crate::error::Result;
use crate::kernels::product::{COLUMNS, Lanes, Left, ROWS};

/// Bytes of packed rows of a block: with a panel of columns they fit a processor's second cache.
const BLOCK_BYTES: usize = 400 << 10;
/// The longest block.
const LONGEST: usize = 16 * ROWS;
/// Rows of the shortest and of the longest stripe, and how many stripes there are in between.
const SHORTEST_STRIPE: usize = 16 * ROWS;
const LONGEST_STRIPE: usize = 64 * ROWS;
const STRIPES: usize = 64;

/// What looks at scores, on one thread.
///
/// It sees whole stripes, in rising order; of a stripe the rows in blocks, in rising order; of a block the panels of columns,
/// in rising order.
pub(super) trait Visitor: Send {
    /// A stripe begins.
    fn begin(&mut self, _stripe: usize) {}

    /// The scores of `rows` with the columns of panel `panel`, one row after the other. Scores beyond the last column mean
    /// nothing.
    fn panel(&mut self, rows: Range<usize>, panel: usize, scores: &[[f32; COLUMNS]]);

    /// All scores of these rows have been seen.
    fn block(&mut self, _rows: Range<usize>) {}

    /// A stripe ends.
    fn end(&mut self, _stripe: usize) {}

    /// Whether it has no use for more scores.
    fn is_over(&self) -> bool {
        false
    }
}

/// Rows that are one stripe: a function of their number alone, so that what is summed over the rows of a stripe, and then
/// over stripes, has the same bits for any number of threads.
pub(super) fn stripe_rows(rows: usize) -> usize {
    rows.div_ceil(STRIPES).clamp(SHORTEST_STRIPE, LONGEST_STRIPE).next_multiple_of(ROWS)
}

/// How many stripes there are.
pub(super) fn stripes(rows: usize) -> usize {
    rows.div_ceil(stripe_rows(rows))
}

/// The rows of these stripes, where there are `rows` in all.
pub(super) fn rows_of(stripes: &Range<usize>, rows: usize) -> Range<usize> {
    let stripe = stripe_rows(rows);
    rows.min(stripes.start * stripe)..rows.min(stripes.end * stripe)
}

/// Rows of a block.
fn block_rows(lanes: Lanes, width: usize) -> usize {
    let bytes = match lanes {
        Lanes::F32 => 4 * width,
        Lanes::Bf16 => 2 * width,
    };
    (BLOCK_BYTES / bytes.max(1) / ROWS * ROWS).clamp(ROWS, LONGEST)
}

/// What a pass runs on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ground<'s> {
    pub exact: Exact<'s>,
    pub packed: &'s Packed,
    /// What computes the scores in place of tiles of what is packed.
    pub products: Option<&'s dyn Products>,
    /// Rows of a block.
    pub block: usize,
}

impl<'s> Ground<'s> {
    /// `block`: rows of a block, where a test wants a certain number.
    pub fn new(exact: Exact<'s>, packed: &'s Packed, block: Option<usize>) -> Self {
        let block = block.unwrap_or_else(|| block_rows(packed.lanes, exact.rows.width()));
        Self { exact, packed, products: None, block }
    }

    /// With scores of `products`, in blocks as long as can be held, unless a test wants certain ones.
    pub fn by(self, products: &'s dyn Products, block: Option<usize>) -> Self {
        let block = block.unwrap_or_else(|| stripe_rows(self.exact.rows.len()));
        Self { products: Some(products), block, ..self }.holding(HELD)
    }

    /// With blocks whose scores have no more than so many bytes, or of [`ROWS`] rows.
    pub fn holding(self, bytes: usize) -> Self {
        let rows = bytes / (4 * self.exact.columns.len()).max(1) / ROWS * ROWS;
        Self { block: self.block.min(rows.max(ROWS)), ..self }
    }

    /// Shows all scores of these stripes to `visitors`, each on a thread of its own, and gives them back.
    ///
    /// # Errors
    /// The first one of `watch`, which is told on this thread, between blocks; or one of computing scores, on any thread.
    pub fn pass<V: Visitor>(&self, stripes: Range<usize>, visitors: Vec<V>, watch: Watch<'_>) -> Result<Vec<V>> {
        let rows = self.exact.rows.len();
        let Range { start, end } = rows_of(&stripes, rows);
        let (next, done, stop) = (AtomicUsize::new(stripes.start), AtomicUsize::new(start), AtomicBool::new(false));
        let stripe = stripe_rows(rows);
        let work = |visitor: &mut V, told: &mut dyn FnMut() -> Result<()>| -> Result<()> {
            let mut scores = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= stripes.end {
                    return Ok(());
                }
                let range = number * stripe..end.min((number + 1) * stripe);
                visitor.begin(number);
                for first in range.clone().step_by(self.block) {
                    if stop.load(Ordering::Relaxed) || visitor.is_over() {
                        return Ok(());
                    }
                    told()?;
                    let rows = first..range.end.min(first + self.block);
                    self.block(rows.clone(), &mut scores, visitor)?;
                    done.fetch_add(rows.len(), Ordering::Relaxed);
                }
                visitor.end(number);
            }
        };
        // One that fails ends the others.
        let work = &|visitor: &mut V, told: &mut dyn FnMut() -> Result<()>| {
            let result = work(visitor, told);
            stop.fetch_or(result.is_err(), Ordering::Relaxed);
            result
        };
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
                result = work(&mut visitor, &mut || watch.tell(done.load(Ordering::Relaxed) as u64, rows as u64));
                visitors.push(visitor);
            }
            for other in others {
                let (visitor, of_other) = other.join().expect("no thread of a search panics");
                visitors.push(visitor);
                result = result.and(of_other);
            }
            result?;
            // Not where the visitors had enough before.
            if done.load(Ordering::Relaxed) == end {
                watch.tell(end as u64, rows as u64)?;
            }
            Ok(visitors)
        })
    }

    fn block(&self, rows: Range<usize>, scores: &mut Vec<[f32; COLUMNS]>, visitor: &mut impl Visitor) -> Result<()> {
        let Exact { rows: vectors, columns, scoring } = self.exact;
        let panels = columns.len().div_ceil(COLUMNS);
        if let Some(products) = self.products {
            scores.resize(panels * rows.len(), [0.0; COLUMNS]);
            products.scores(rows.clone(), scores)?;
            for (panel, scores) in scores.chunks_exact(rows.len()).enumerate() {
                visitor.panel(rows.clone(), panel, scores);
            }
            visitor.block(rows);
            return Ok(());
        }
        let left = Left::from_rows(self.packed.lanes, rows.len(), vectors.width(), |i| vectors.row(rows.start + i));
        scores.resize(rows.len(), [0.0; COLUMNS]);
        for panel in 0..panels {
            let right = self.packed.panel(panel);
            for (scores, (_, left)) in scores.chunks_mut(ROWS).zip(left.panels()) {
                scoring.tile(self.packed.lanes, left, right, scores);
            }
            visitor.panel(rows.clone(), panel, scores);
        }
        visitor.block(rows);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_and_blocks_are_whole_tiles() {
        assert_eq!([0, 1, 5000, 20_000, 200_000].map(stripe_rows), [192, 192, 192, 324, 768]);
        assert_eq!(block_rows(Lanes::F32, 1024), 96);
        assert_eq!([1, 1024, 100_000].map(|width| block_rows(Lanes::Bf16, width)), [192, 192, ROWS]);
    }
}
