//! Mean reciprocal rank.
//!
//! Voorhees, "The TREC-8 Question Answering Track Report", TREC-8, 1999.

use super::metric::{Metric, MetricName, MetricUnit, RankedMatches, RecordValue};

/// Metric `mrr`: [`reciprocal_rank`] of the best match, if its rank in the pool is known.
#[derive(Debug)]
pub struct Mrr;

impl Metric for Mrr {
    fn measure_matches(&self, matches: &RankedMatches<'_>, add: RecordValue<'_>) {
        if let Some(rank) = matches.rank {
            add(MetricName::new("mrr", MetricUnit::Share), reciprocal_rank(rank));
        }
    }
}

/// Reciprocal rank, `1 / (rank + 1)`, with the rank from 0.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "ranks are far below 2⁵³")]
pub fn reciprocal_rank(rank: usize) -> f64 {
    1.0 / (rank as f64 + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reciprocal_ranks_do_not_depend_on_the_list() {
        let mut values = Vec::new();
        for rank in [Some(0), Some(3), Some(99), None] {
            let matches = RankedMatches { hits: &[], relevant: 1, cutoffs: &[1], is_ranking: true, rank };
            Mrr.measure_matches(&matches, &mut |name, value| values.push((name.measure, value)));
        }
        assert_eq!(values, [("mrr", 1.0), ("mrr", 0.25), ("mrr", 0.01)]);
    }
}
