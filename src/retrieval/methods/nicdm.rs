//! NICDM.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
#[cfg(test)]
use super::method::Samples;
use super::method::{Learns, RankingMethod, ScoreKind};
use crate::error::Result;
#[cfg(test)]
use crate::kernels::hubness::distance::Distance;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::nicdm as kernel;
use crate::kernels::hubness::problems::{Problems, none};
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::search::Progress;

/// Distances over the mean distance of neighbours (Jégou et al., 2007).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Nicdm {
    /// Neighbours.
    pub k: usize,
    /// Whether queries are those of the bank.
    pub bank: bool,
}

impl Default for Nicdm {
    fn default() -> Self {
        Self { k: 10, bank: false }
    }
}

impl RankingMethod for Nicdm {
    fn learns(&self) -> Learns {
        Learns::from_bank(self.bank)
    }

    fn corrections(&self, ranker: &Ranker<'_>, across: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        let kernel = kernel::Nicdm { k: self.k, distance: ranker.distance()? };
        ranker.by_statistics(&kernel, self.bank, across, progress)
    }

    fn problems(&self) -> Problems {
        none("k", self.k).into_iter().collect()
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        scores.distance_refusal()
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        let settings = kernel::Nicdm { k: self.k, distance: Distance::Cosine };
        let distances = kernel::nicdm(&sides.test, sides.bank_if(self.bank), &settings);
        Some(Matrix::from_fn(distances.queries, distances.items, |q, i| -distances.at(q, i)))
    }
}

#[cfg(test)]
impl Samples for Nicdm {
    fn samples() -> Vec<Self> {
        [false, true].map(|bank| Self { k: 3, bank }).to_vec()
    }

    fn extremes(k: usize) -> Vec<Self> {
        [false, true].map(|bank| Self { k, bank }).to_vec()
    }
}
