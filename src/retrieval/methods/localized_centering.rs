//! Localized centering.
//!
//! Hara, Suzuki, Shimbo, Kobayashi, Fukumizu, Radovanović, "Localized Centering: Reducing Hubness in Large-Sample
//! Data", AAAI 2015.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::method::{LearnsFrom, RankingMethod, ScoreKind};
#[cfg(test)]
use super::reference_scores::ReferenceScores;
use crate::ranking::{DirectionCorrections, Ranker};
use crate::scores::ScoreSet;
use pairloom_base::error::{Error, Result};
#[cfg(test)]
use pairloom_kernels::hubness::method::DenseScores;
use pairloom_kernels::hubness::method::{ParameterProblems, ShiftCorrection, check_count, check_weight};
use pairloom_kernels::top_k::ScoredItem;
use pairloom_search::{SearchProgress, SearchRequest};

/// Subtracts the affinity of an item to the centroid of its neighbours among the items (Hara et al., AAAI 2015):
/// `s'(q, i) = s(q, i) − a(i)^γ`, where a(i) is the mean score of the item with its `k` nearest other items, at least
/// 0. Needs only the items; no bank and no queries.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct LocalizedCentering {
    /// Number of neighbours.
    pub k: usize,
    /// Exponent, γ.
    pub gamma: f64,
}

impl Default for LocalizedCentering {
    fn default() -> Self {
        Self { k: 10, gamma: 1.0 }
    }
}

impl RankingMethod for LocalizedCentering {
    fn learns_from(&self) -> LearnsFrom {
        LearnsFrom::Nothing
    }

    fn corrections(
        &self,
        ranker: &Ranker<'_>,
        _: bool,
        progress: &mut dyn SearchProgress,
    ) -> Result<DirectionCorrections> {
        let one = |items: ScoreSet, progress: &mut dyn SearchProgress| {
            let ask = SearchRequest { k: self.k.saturating_add(1), ..SearchRequest::default() };
            let [near, _] = ranker.scores.search(items, items)?.find(&ask, &SearchRequest::default(), progress)?;
            let affinity = |(item, near): (usize, &Vec<_>)| self.power(mean(item, near, self.k));
            Ok::<_, Error>(ShiftCorrection::new(near.top.iter().enumerate().map(affinity).collect(), Vec::new()))
        };
        Ok(DirectionCorrections::Shifts([one(ScoreSet::Captions, progress)?, one(ScoreSet::Images, progress)?]))
    }

    fn problems(&self) -> ParameterProblems {
        check_count("k", self.k).into_iter().chain(check_weight("gamma", self.gamma)).collect()
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        scores.between_items_refusal()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    #[cfg(test)]
    fn reference_scores(&self, reference: &ReferenceScores<'_>) -> Option<DenseScores> {
        Some(self.of_matrices(&reference.test, &reference.among_items()))
    }
}

impl LocalizedCentering {
    fn power(&self, affinity: f64) -> f64 {
        affinity.max(0.0).powf(self.gamma)
    }
}

/// Mean score of an item with its `k` nearest other items; 0 if there are none.
#[expect(clippy::cast_precision_loss, reason = "neighbours are few")]
fn mean(item: usize, near: &[ScoredItem], k: usize) -> f64 {
    let others: Vec<f64> = near.iter().filter(|near| near.item != item).take(k).map(|near| near.score.into()).collect();
    if others.is_empty() { 0.0 } else { others.iter().sum::<f64>() / others.len() as f64 }
}

#[cfg(test)]
mod tests {
    use test_data::hubness::{assert_digest, golden, size, vectors};

    use super::*;

    impl LocalizedCentering {
        /// The definition, on scores of queries with items and of items with items.
        #[expect(clippy::cast_precision_loss, reason = "neighbours are few")]
        pub(super) fn of_matrices(&self, scores: &DenseScores, among: &DenseScores) -> DenseScores {
            let affinity = |item: usize| {
                let mut others: Vec<f64> =
                    among.row(item).enumerate().filter(|&(other, _)| other != item).map(|(_, score)| score).collect();
                others.sort_by(|a, b| b.total_cmp(a));
                others.truncate(self.k);
                self.power(others.iter().sum::<f64>() / others.len().max(1) as f64)
            };
            let affinities: Vec<f64> = (0..among.items).map(affinity).collect();
            DenseScores::from_fn(scores.queries, scores.items, |query, item| scores.at(query, item) - affinities[item])
        }
    }

    #[test]
    fn corrected_scores_equal_those_of_numpy() {
        for (number, case) in (1u32..).zip(golden()["cases"].as_array().expect("a list")) {
            let (queries, items) = (size(case, "queries"), size(case, "items"));
            let [q, i] = [(5, queries), (6, items)].map(|(seed, rows)| vectors(1000 * number + seed, rows, 5));
            let product = |a: &[f64], b: &[f64]| {
                DenseScores::from_fn(a.len() / 5, b.len() / 5, |x, y| (0..5).map(|z| a[x * 5 + z] * b[y * 5 + z]).sum())
            };
            let expected = case["methods"]["localized_centering"].as_array().expect("a list");
            for ((k, gamma), expected) in [(1, 1.0), (3, 2.0), (50, 0.5)].into_iter().zip(expected) {
                let got = LocalizedCentering { k, gamma }.of_matrices(&product(&q, &i), &product(&i, &i));
                assert_digest(&got.values, expected, &format!("{} {k}", case["name"]));
            }
        }
    }
}
