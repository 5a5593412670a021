//! Subset of the rows and columns of another source.

use std::ops::Range;

use super::score_bound::ScoreBound;
use super::side::MatrixSide;
use super::source::{ConsumePanel, PanelRow, ScorePrecision, Scores, consume_row_major, rows_per_buffer};
use pairloom_base::error::Result;
use pairloom_kernels::identity::IdentityWriter;

/// Source of the exact scores of some `queries` of `side`, as rows, with some `items` of the other side, as columns.
///
/// # Errors
/// As [`Scores::subset`].
pub(crate) fn subset<'s>(
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
        let [of_queries, of_items] = if side == MatrixSide::Rows { [0, 1] } else { [1, 0] };
        let items: Vec<usize> = items.iter().map(|&item| self.indices[of_items][item]).collect();
        let side = if side == MatrixSide::Rows { self.side } else { self.side.other() };
        self.source.exact_scores(side, self.indices[of_queries][query], &items, scores)
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("subset");
        fields.write_text(self.side.name());
        self.indices.iter().for_each(|some| fields.write_usizes(some));
        self.source.identity(fields);
    }
}
