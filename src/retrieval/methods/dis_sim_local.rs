//! DisSimLocal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
use super::method::{Learns, RankingMethod, ScoreKind};
use crate::error::{Error, Result};
use crate::kernels::hubness::dis_sim_local::{self as kernel, to_centre};
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::problems::{Problems, none};
use crate::kernels::top_k::Scored;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::retrieval::scores::Set;
use crate::search::{Ask, Progress};

/// Squared distances less those to the centre of neighbours (Hara et al., 2016).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct DisSimLocal {
    /// Neighbours.
    pub k: usize,
}

impl Default for DisSimLocal {
    fn default() -> Self {
        Self { k: 5 }
    }
}

impl RankingMethod for DisSimLocal {
    fn learns(&self) -> Learns {
        Learns::Nobody
    }

    fn corrections(&self, ranker: &Ranker<'_>, _: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        let one = |items: Set, progress: &mut dyn Progress| {
            let search = ranker.scores.search(items, items)?;
            let items = ranker.scores.vectors(items)?;
            let ask = Ask { k: self.k + 1, ..Ask::default() };
            let [near, _] = search.find(&ask, &Ask::default(), progress)?;
            let centre = |(item, near): (usize, Vec<Scored>)| {
                let others = near.iter().map(|near| near.item).filter(|&other| other != item).take(self.k);
                to_centre(items.row(item), others.map(|other| items.row(other)))
            };
            let centres: Vec<f64> = near.top.into_iter().enumerate().map(centre).collect();
            Ok::<_, Error>(kernel::correction(&centres, &[]))
        };
        Ok(Corrections::Shifts([one(Set::Captions, progress)?, one(Set::Images, progress)?]))
    }

    fn problems(&self) -> Problems {
        none("k", self.k).into_iter().collect()
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        scores.between_items_refusal()
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        let flat = |rows: &[&[f32]]| -> Vec<f64> { rows.concat().into_iter().map(f64::from).collect() };
        let width = sides.items[0].len();
        let distances = kernel::dis_sim_local(&flat(&sides.queries), &flat(&sides.items), width, self.k);
        Some(Matrix::from_fn(distances.queries, distances.items, |q, i| -distances.at(q, i)))
    }
}
