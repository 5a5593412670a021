//! Some rows and some columns of another source.

use std::ops::Range;

use super::side::Side;
use super::source::{Bound, Consume, Lane, Precision, Scores, consume_rows, rows_held};
use crate::error::Result;
use crate::kernels::identity::Fields;

/// A source of the exact scores of some `queries` of `side`, as rows, with some `items` of the other side, as columns.
///
/// # Errors
/// As [`Scores::subset`].
pub(in crate::search) fn subset<'s>(
    of: &'s dyn Scores,
    side: Side,
    queries: &[usize],
    items: &[usize],
) -> Result<Box<dyn Scores + 's>> {
    let own = of.subset(side, queries, items)?;
    Ok(own.unwrap_or_else(|| Box::new(Pairs { of, side, some: [queries.to_vec(), items.to_vec()] })))
}

/// Subset of a source that has none of its own: it asks for the exact score of every pair.
#[derive(Debug)]
struct Pairs<'s> {
    of: &'s dyn Scores,
    /// Side of the other source that the rows are of.
    side: Side,
    /// The numbers that rows and columns have there.
    some: [Vec<usize>; 2],
}

impl Scores for Pairs<'_> {
    fn sizes(&self) -> [usize; 2] {
        self.some.each_ref().map(Vec::len)
    }

    fn cost(&self) -> u64 {
        self.of.cost()
    }

    fn bounds(&self, precision: Precision) -> [Vec<Bound>; 2] {
        let mut bounds = self.of.bounds(precision);
        if self.side == Side::Columns {
            bounds.reverse();
        }
        [0, 1].map(|side: usize| {
            self.some[side].iter().map(|&i| Bound { error: 0.0, largest: bounds[side][i].largest }).collect()
        })
    }

    fn block_rows(&self, _precision: Precision) -> usize {
        rows_held(self.some[1].len())
    }

    fn block(
        &self,
        _precision: Precision,
        rows: Range<usize>,
        buffer: &mut Vec<Lane>,
        consume: Consume<'_>,
    ) -> Result<()> {
        let [queries, items] = &self.some;
        let (mut all, mut scores) = (Vec::with_capacity(rows.len() * items.len()), Vec::new());
        for &query in &queries[rows] {
            self.of.exact(self.side, query, items, &mut scores)?;
            all.append(&mut scores);
        }
        consume_rows(&all, items.len(), buffer, consume)
    }

    fn exact(&self, side: Side, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        let [of_queries, of_items] = if side == Side::Rows { [0, 1] } else { [1, 0] };
        let items: Vec<usize> = items.iter().map(|&item| self.some[of_items][item]).collect();
        let side = if side == Side::Rows { self.side } else { self.side.other() };
        self.of.exact(side, self.some[of_queries][query], &items, scores)
    }

    fn identity(&self, fields: &mut Fields<'_>) {
        fields.text("subset");
        fields.text(self.side.name());
        self.some.iter().for_each(|some| fields.numbers(some));
        self.of.identity(fields);
    }
}
