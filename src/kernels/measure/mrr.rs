//! Mean reciprocal rank.
//!
//! Voorhees, "The TREC-8 Question Answering Track Report", TREC-8, 1999.

use super::metric::{Add, Matches, Metric, Name, Unit};

/// `mrr`: the mean over queries of 1 over the place of the best match, from 1; where its place in the pool is known.
#[derive(Debug)]
pub struct Mrr;

impl Metric for Mrr {
    fn of_matches(&self, matches: &Matches<'_>, add: Add<'_>) {
        if let Some(rank) = matches.rank {
            add(Name::new("mrr", Unit::Share), reciprocal_rank(rank));
        }
    }
}

/// `1 / (rank + 1)`, with the rank from 0.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "ranks are far below 2⁵³")]
pub fn reciprocal_rank(rank: usize) -> f64 {
    1.0 / (rank as f64 + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_match_that_is_not_in_the_list_counts_by_its_rank() {
        let mut values = Vec::new();
        for rank in [Some(0), Some(3), Some(99), None] {
            let matches = Matches { hits: &[], relevant: 1, cutoffs: &[1], ranking: true, rank };
            Mrr.of_matches(&matches, &mut |name, value| values.push((name.measure, value)));
        }
        assert_eq!(values, [("mrr", 1.0), ("mrr", 0.25), ("mrr", 0.01)]);
    }
}
