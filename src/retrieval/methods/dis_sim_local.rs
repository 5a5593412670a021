//! DisSimLocal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::method::{LearnsFrom, RankingMethod, ScoreKind};
#[cfg(test)]
use super::reference_scores::ReferenceScores;
use crate::ranking::{DirectionCorrections, Ranker};
use crate::scores::ScoreSet;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::hubness::dis_sim_local::{self as kernel, squared_distance_to_centroid};
#[cfg(test)]
use pairloom_kernels::hubness::method::DenseScores;
use pairloom_kernels::hubness::method::{ParameterProblems, check_count};
use pairloom_kernels::top_k::ScoredItem;
use pairloom_search::{SearchProgress, SearchRequest};

/// Squared distances minus those to the centroid of the neighbours (Hara et al., 2016).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct DisSimLocal {
    /// Number of neighbours.
    pub k: usize,
}

impl Default for DisSimLocal {
    fn default() -> Self {
        Self { k: 5 }
    }
}

impl RankingMethod for DisSimLocal {
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
            let search = ranker.scores.search(items, items)?;
            let items = ranker.scores.vectors(items)?;
            let ask = SearchRequest { k: self.k + 1, ..SearchRequest::default() };
            let [near, _] = search.find(&ask, &SearchRequest::default(), progress)?;
            let centre = |(item, near): (usize, Vec<ScoredItem>)| {
                let others = near.iter().map(|near| near.item).filter(|&other| other != item).take(self.k);
                squared_distance_to_centroid(items.row(item), others.map(|other| items.row(other)))
            };
            let centres: Vec<f64> = near.top.into_iter().enumerate().map(centre).collect();
            Ok::<_, Error>(kernel::dis_sim_local_correction(&centres, &[]))
        };
        Ok(DirectionCorrections::Shifts([one(ScoreSet::Captions, progress)?, one(ScoreSet::Images, progress)?]))
    }

    fn problems(&self) -> ParameterProblems {
        check_count("k", self.k).into_iter().collect()
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        scores.between_items_refusal()
    }

    #[cfg(test)]
    fn reference_scores(&self, reference: &ReferenceScores<'_>) -> Option<DenseScores> {
        let flat = |rows: &[&[f32]]| -> Vec<f64> { rows.concat().into_iter().map(f64::from).collect() };
        let width = reference.items[0].len();
        let distances = kernel::dis_sim_local(&flat(&reference.queries), &flat(&reference.items), width, self.k);
        Some(DenseScores::from_fn(distances.queries, distances.items, |q, i| -distances.at(q, i)))
    }
}
