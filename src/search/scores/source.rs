//! Source of scores: what a search asks of whatever computes or holds the scores of rows with columns.

use std::fmt::Debug;
use std::ops::Range;

use super::duplicates::Duplicates;
use super::side::Side;
use crate::error::Result;
use crate::kernels::identity::Fields;
use crate::kernels::product::{COLUMNS, ROWS};

/// The scores of a row with [`COLUMNS`] columns that follow each other.
pub type Lane = [f32; COLUMNS];

/// Consumer of approximate scores: called with the number of a panel, [`COLUMNS`] columns that follow each other, and its
/// scores, one [`Lane`] for each row of a block.
pub type Consume<'c> = &'c mut dyn FnMut(usize, &[Lane]) -> Result<()>;

/// Bytes of scores that a thread of a search holds at a time, or [`ROWS`] rows of them where those are more.
pub const HELD: usize = 32 << 20;

/// How many rows of so many columns fit into [`HELD`] bytes: a multiple of [`ROWS`], and at least that.
#[must_use]
pub fn rows_held(columns: usize) -> usize {
    (HELD / (4 * columns).max(1) / ROWS * ROWS).max(ROWS)
}

/// Precision of approximate scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Precision {
    /// Faster, and farther from the exact scores. Sums over scores are never made of these.
    Coarse,
    /// Precision that every source has.
    Fine,
}

/// Bounds of the scores of one row with all columns, or of one column with all rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// The largest distance of an approximate score from the exact one.
    pub error: f64,
    /// The largest absolute value of an exact score.
    pub largest: f64,
}

/// Source of the scores of rows with columns, none of which a search ever holds all.
///
/// A search goes over all scores in blocks of rows, approximately ([`Scores::block`]), and asks again for the exact scores of
/// the pairs that these leave in doubt ([`Scores::exact`]). The exact score of a pair is whatever the source says, as long as
/// it always says the same; lists, ranks and matchings follow from it alone.
///
/// All methods are called from several threads at once.
pub trait Scores: Debug + Send + Sync {
    /// Numbers of rows and columns, both below 2³².
    fn sizes(&self) -> [usize; 2];

    /// Multiply-adds of one approximate score: what decides whether a search is long enough for checkpoints.
    fn cost(&self) -> u64;

    /// True if scores of [`Precision::Coarse`] take less time than the others.
    fn has_coarse(&self) -> bool {
        false
    }

    /// Proven bounds for every row and for every column.
    fn bounds(&self, precision: Precision) -> [Vec<Bound>; 2];

    /// The most rows of a block; a source that computes in batches names the rows of a batch. Blocks end where stripes of rows
    /// end, so that some have fewer.
    ///
    /// With these rows [`Scores::block`] keeps in memory what suits the source: a panel in the caches of a processor, or all
    /// scores of the block, at most [`HELD`] bytes ([`rows_held`]).
    fn block_rows(&self, precision: Precision) -> usize;

    /// Gives `consume` the approximate scores of `rows` with all columns, panel by panel, in rising order. Lanes beyond the
    /// last column may hold anything.
    ///
    /// The source goes over the columns as suits it, and each panel is consumed as soon as it is there. `buffer` is memory of
    /// the calling thread, with whatever the last block left in it.
    ///
    /// # Errors
    /// The first one of `consume`, or what keeps the source from computing the scores; the search ends with it.
    fn block(
        &self,
        precision: Precision,
        rows: Range<usize>,
        buffer: &mut Vec<Lane>,
        consume: Consume<'_>,
    ) -> Result<()>;

    /// Replaces `scores` by the exact scores of `query`, of `side`, with `items` of the other side, all of them finite.
    ///
    /// # Errors
    /// Failure of the source to compute them; the search ends with it.
    fn exact(&self, side: Side, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()>;

    /// Rows that have equal scores with everything, and columns that have, where so many are known that computing equal scores
    /// once is worth looking them up. Asked when many scores are in doubt, as those of a collapsed model all are.
    fn duplicates(&self) -> Option<&Duplicates> {
        None
    }

    /// A source of the same exact scores for some `queries` of `side`, as rows, with some `items` of the other side, as
    /// columns, if it can be faster than asking for the exact scores of all these pairs.
    ///
    /// # Errors
    /// As [`Scores::exact`].
    fn subset(&self, _side: Side, _queries: &[usize], _items: &[usize]) -> Result<Option<Box<dyn Scores + '_>>> {
        Ok(None)
    }

    /// Writes everything that the scores follow from, exact and approximate: a name of the kind of source first, then its
    /// fields, data as a digest of its bytes. Sources with the same identity have the same scores, but for the bits of
    /// approximate ones on different processors.
    fn identity(&self, fields: &mut Fields<'_>);
}

/// Gives `consume` row-major scores `[rows, columns]` of a block, panel by panel: for sources that compute or hold whole rows.
///
/// # Errors
/// The first one of `consume`.
pub fn consume_rows(scores: &[f32], columns: usize, buffer: &mut Vec<Lane>, consume: Consume<'_>) -> Result<()> {
    for panel in 0..columns.div_ceil(COLUMNS) {
        let first = panel * COLUMNS;
        let used = (columns - first).min(COLUMNS);
        buffer.clear();
        buffer.extend(scores.chunks_exact(columns).map(|row| {
            let mut lane = [0.0; COLUMNS];
            lane[..used].copy_from_slice(&row[first..first + used]);
            lane
        }));
        consume(panel, buffer)?;
    }
    Ok(())
}
