//! Interface of a source of scores, which computes or holds the scores of rows with columns.

use std::fmt::Debug;
use std::ops::Range;

use super::duplicates::Duplicates;
use super::score_bound::ScoreBound;
use super::scored_vectors::ScoredVectors;
use super::side::MatrixSide;
use pairloom_base::error::Result;
use pairloom_kernels::identity::IdentityWriter;
use pairloom_kernels::product::{TILE_COLUMNS, TILE_ROWS};

/// Scores of a row with the [`TILE_COLUMNS`] consecutive columns of a panel.
pub type PanelRow = [f32; TILE_COLUMNS];

/// Consumer of approximate scores. It is called with the number of a panel of [`TILE_COLUMNS`] consecutive columns, and
/// the scores of the panel, one [`PanelRow`] for each row of a block.
pub type ConsumePanel<'c> = &'c mut dyn FnMut(usize, &[PanelRow]) -> Result<()>;

/// Bytes of scores that a thread of a search holds at a time. It holds at least [`TILE_ROWS`] rows, even if they need
/// more.
pub const SCORE_BUFFER_BYTES: usize = 32 << 20;

/// Number of rows of `columns` scores that fit into [`SCORE_BUFFER_BYTES`]: a multiple of [`TILE_ROWS`], and at least
/// that.
#[must_use]
pub fn rows_per_buffer(columns: usize) -> usize {
    (SCORE_BUFFER_BYTES / (4 * columns).max(1) / TILE_ROWS * TILE_ROWS).max(TILE_ROWS)
}

/// Precision of approximate scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScorePrecision {
    /// Faster and less precise. Sums over scores are never computed from coarse scores.
    Coarse,
    /// More precise. Every source has fine scores.
    Fine,
}

/// Source of the scores of rows with columns. A search never holds all of them.
///
/// A search scans approximate scores in blocks of rows ([`Scores::compute_block`]), and then computes the exact scores
/// of the uncertain pairs ([`Scores::exact_scores`]). The exact score of a pair must be the same at every call. Lists,
/// ranks and matchings depend on exact scores alone.
///
/// All methods are called from several threads at once.
pub trait Scores: Debug + Send + Sync {
    /// Number of rows and of columns, both below 2³².
    fn shape(&self) -> [usize; 2];

    /// Multiply-adds of one approximate score. They determine if a search is long enough for checkpoints.
    fn cost(&self) -> u64;

    /// Returns true if scores of [`ScorePrecision::Coarse`] are faster than fine ones.
    fn has_coarse(&self) -> bool {
        false
    }

    /// Returns true if approximate scores are the exact ones. A search then asks for the exact scores of positives only,
    /// and not of the pairs of which it has seen the scores.
    fn is_exact(&self) -> bool {
        false
    }

    /// Proven bounds for every row and for every column.
    fn bounds(&self, precision: ScorePrecision) -> [Vec<ScoreBound>; 2];

    /// Maximum number of rows of a block; for a source that computes in batches, the batch size. A block ends at the
    /// end of its stripe of rows at the latest, so some blocks have fewer rows.
    ///
    /// The number bounds the memory of [`Scores::compute_block`]: a panel that fits the caches of a CPU, or all scores
    /// of the block, at most [`SCORE_BUFFER_BYTES`] ([`rows_per_buffer`]).
    fn block_rows(&self, precision: ScorePrecision) -> usize;

    /// Computes the approximate scores of `rows` with all columns, and passes them to `consume` panel by panel, in
    /// ascending order. Values beyond the last column are undefined.
    ///
    /// `buffer` is memory of the calling thread. It may hold values of an earlier block.
    ///
    /// # Errors
    /// The first error of `consume`, or a failure of the source; either ends the search.
    fn compute_block(
        &self,
        precision: ScorePrecision,
        rows: Range<usize>,
        buffer: &mut Vec<PanelRow>,
        consume: ConsumePanel<'_>,
    ) -> Result<()>;

    /// Replaces `scores` by the exact scores of `query`, of `side`, with `items` of the other side. All are finite.
    ///
    /// # Errors
    /// A failure of the source, which ends the search.
    fn exact_scores(&self, side: MatrixSide, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()>;

    /// Duplicate rows and columns, if there are enough that a cache of exact scores pays off. A search calls this when
    /// many pairs are uncertain, as with a collapsed model.
    fn duplicates(&self) -> Option<&Duplicates> {
        None
    }

    /// Source of the same exact scores for some `queries` of `side`, as rows, and some `items` of the other side, as
    /// columns; `None` if it would be no faster than [`Scores::exact_scores`] of all pairs.
    ///
    /// # Errors
    /// As [`Scores::exact_scores`].
    fn subset(&self, _side: MatrixSide, _queries: &[usize], _items: &[usize]) -> Result<Option<Box<dyn Scores + '_>>> {
        Ok(None)
    }

    /// The vectors that the scores are computed from on the CPU, so that other processes can compute them as well; `None`
    /// for scores of other sources.
    fn as_vectors(&self) -> Option<ScoredVectors<'_>> {
        None
    }

    /// Writes everything that exact and approximate scores depend on: first a name of the type of source, then its
    /// fields, data as a digest of its bytes. Sources with the same identity have the same scores; the bits of
    /// approximate scores may differ between CPUs.
    fn identity(&self, fields: &mut IdentityWriter<'_>);
}

/// Passes the row-major scores `[rows, columns]` of a block to `consume`, panel by panel. For sources that compute or
/// hold whole rows.
///
/// # Errors
/// The first error of `consume`.
pub fn consume_row_major(
    scores: &[f32],
    columns: usize,
    buffer: &mut Vec<PanelRow>,
    consume: ConsumePanel<'_>,
) -> Result<()> {
    for panel in 0..columns.div_ceil(TILE_COLUMNS) {
        let first = panel * TILE_COLUMNS;
        let used = (columns - first).min(TILE_COLUMNS);
        buffer.clear();
        buffer.extend(scores.chunks_exact(columns).map(|row| {
            let mut lane = [0.0; TILE_COLUMNS];
            lane[..used].copy_from_slice(&row[first..first + used]);
            lane
        }));
        consume(panel, buffer)?;
    }
    Ok(())
}
