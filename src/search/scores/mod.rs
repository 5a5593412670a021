//! Sources of scores ([`Scores`]): vectors on the CPU, a stored table, a subset of another source. `model` adds vectors
//! on a GPU.

use std::fmt::Debug;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use pairloom_base::error::Result;
use pairloom_kernels::identity::IdentityWriter;
use pairloom_kernels::product::{TILE_COLUMNS, TILE_ROWS};

pub use score_function::ScoreFunction;
pub use table::ScoreTable;
pub use vector_matrix::{Duplicates, ScoredVectors, VectorMatrix};
pub(super) use vector_scores::ExactCache;
pub use vector_scores::VectorScores;

mod vector_matrix;
mod score_function;
mod vector_scores;
mod table;

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

/// Side of a score matrix: its rows or its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatrixSide {
    /// Rows.
    Rows,
    /// Columns.
    Columns,
}

impl MatrixSide {
    /// Returns the other side.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Rows => Self::Columns,
            Self::Columns => Self::Rows,
        }
    }

    /// Name of the side, for identities.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Columns => "columns",
        }
    }

    /// Index of the side in a `[rows, columns]` pair.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Rows => 0,
            Self::Columns => 1,
        }
    }
}

/// Bounds of the scores of one row with all columns, or of one column with all rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoreBound {
    /// Largest absolute difference of an approximate score and the exact one.
    pub error: f64,
    /// Largest absolute value of an exact score.
    pub largest: f64,
}

/// Source of the exact scores of some `queries` of `side`, as rows, with some `items` of the other side, as columns.
pub(super) fn subset<'s>(
    source: &'s dyn Scores,
    side: MatrixSide,
    queries: &[usize],
    items: &[usize],
) -> Result<Box<dyn Scores + 's>> {
    let own = source.subset(side, queries, items)?;
    Ok(own.unwrap_or_else(|| Box::new(SubsetScores { source, side, indices: [queries.to_vec(), items.to_vec()] })))
}

/// Generic subset of a source: it computes the exact score of every pair.
#[derive(Debug)]
struct SubsetScores<'s> {
    source: &'s dyn Scores,
    /// Side of the full source that the rows of the subset come from.
    side: MatrixSide,
    /// Indices of the rows and of the columns in the full source.
    indices: [Vec<usize>; 2],
}

impl Scores for SubsetScores<'_> {
    fn shape(&self) -> [usize; 2] {
        self.indices.each_ref().map(Vec::len)
    }

    fn cost(&self) -> u64 {
        self.source.cost()
    }

    fn bounds(&self, precision: ScorePrecision) -> [Vec<ScoreBound>; 2] {
        let mut bounds = self.source.bounds(precision);
        if self.side == MatrixSide::Columns {
            bounds.reverse();
        }
        [0, 1].map(|side: usize| {
            self.indices[side].iter().map(|&i| ScoreBound { error: 0.0, largest: bounds[side][i].largest }).collect()
        })
    }

    fn block_rows(&self, _precision: ScorePrecision) -> usize {
        rows_per_buffer(self.indices[1].len())
    }

    fn compute_block(
        &self,
        _precision: ScorePrecision,
        rows: Range<usize>,
        buffer: &mut Vec<PanelRow>,
        consume: ConsumePanel<'_>,
    ) -> Result<()> {
        let [queries, items] = &self.indices;
        let (mut all, mut scores) = (Vec::with_capacity(rows.len() * items.len()), Vec::new());
        for &query in &queries[rows] {
            self.source.exact_scores(self.side, query, items, &mut scores)?;
            all.append(&mut scores);
        }
        consume_row_major(&all, items.len(), buffer, consume)
    }

    fn exact_scores(&self, side: MatrixSide, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        let [query_side, item_side] = if side == MatrixSide::Rows { [0, 1] } else { [1, 0] };
        let items: Vec<usize> = items.iter().map(|&item| self.indices[item_side][item]).collect();
        let side = if side == MatrixSide::Rows { self.side } else { self.side.other() };
        self.source.exact_scores(side, self.indices[query_side][query], &items, scores)
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("subset");
        fields.write_text(self.side.name());
        self.indices.iter().for_each(|some| fields.write_usizes(some));
        self.source.identity(fields);
    }
}
