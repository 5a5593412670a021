//! Localized centering.
//!
//! Hara, Suzuki, Shimbo, Kobayashi, Fukumizu, Radovanović, "Localized Centering: Reducing Hubness in Large-Sample Data",
//! AAAI 2015.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
use super::method::{Learns, RankingMethod, ScoreKind};
use crate::error::{Error, Result};
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::problems::{Problems, none, not_a_weight};
use crate::kernels::hubness::shift::Shift;
use crate::kernels::top_k::Scored;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::retrieval::scores::Set;
use crate::search::{Ask, Progress};

/// The affinity of an item to the centre of its neighbours, among the items, is taken off (Hara et al., AAAI 2015):
/// `s'(q, i) = s(q, i) − a(i)^γ`, where a is the mean score of the item with its `k` nearest other items, at least 0. Needs
/// the items alone: no bank, no queries.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct LocalizedCentering {
    /// Neighbours whose centre is taken.
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
    fn learns(&self) -> Learns {
        Learns::Nobody
    }

    fn corrections(&self, ranker: &Ranker<'_>, _: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        let one = |items: Set, progress: &mut dyn Progress| {
            let ask = Ask { k: self.k.saturating_add(1), ..Ask::default() };
            let [near, _] = ranker.scores.search(items, items)?.find(&ask, &Ask::default(), progress)?;
            let affinity = |(item, near): (usize, &Vec<_>)| self.power(mean(item, near, self.k));
            Ok::<_, Error>(Shift::new(near.top.iter().enumerate().map(affinity).collect(), Vec::new()))
        };
        Ok(Corrections::Shifts([one(Set::Captions, progress)?, one(Set::Images, progress)?]))
    }

    fn problems(&self) -> Problems {
        none("k", self.k).into_iter().chain(not_a_weight("gamma", self.gamma)).collect()
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        scores.between_items_refusal()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        Some(self.of_matrices(&sides.test, &sides.among_items()))
    }
}

impl LocalizedCentering {
    fn power(&self, affinity: f64) -> f64 {
        affinity.max(0.0).powf(self.gamma)
    }
}

/// The mean score of an item with its `k` nearest others; 0 where there are none.
#[expect(clippy::cast_precision_loss, reason = "neighbours are few")]
fn mean(item: usize, near: &[Scored], k: usize) -> f64 {
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
        pub(super) fn of_matrices(&self, scores: &Matrix, among: &Matrix) -> Matrix {
            let affinity = |item: usize| {
                let mut others: Vec<f64> =
                    among.row(item).enumerate().filter(|&(other, _)| other != item).map(|(_, score)| score).collect();
                others.sort_by(|a, b| b.total_cmp(a));
                others.truncate(self.k);
                self.power(others.iter().sum::<f64>() / others.len().max(1) as f64)
            };
            let affinities: Vec<f64> = (0..among.items).map(affinity).collect();
            Matrix::from_fn(scores.queries, scores.items, |query, item| scores.at(query, item) - affinities[item])
        }
    }

    #[test]
    fn it_is_that_of_numpy() {
        for (number, case) in (1u32..).zip(golden()["cases"].as_array().expect("a list")) {
            let (queries, items) = (size(case, "queries"), size(case, "items"));
            let [q, i] = [(5, queries), (6, items)].map(|(seed, rows)| vectors(1000 * number + seed, rows, 5));
            let product = |a: &[f64], b: &[f64]| {
                Matrix::from_fn(a.len() / 5, b.len() / 5, |x, y| (0..5).map(|z| a[x * 5 + z] * b[y * 5 + z]).sum())
            };
            let wanted = case["methods"]["localized_centering"].as_array().expect("a list");
            for ((k, gamma), wanted) in [(1, 1.0), (3, 2.0), (50, 0.5)].into_iter().zip(wanted) {
                let got = LocalizedCentering { k, gamma }.of_matrices(&product(&q, &i), &product(&i, &i));
                assert_digest(&got.values, wanted, &format!("{} {k}", case["name"]));
            }
        }
    }
}
