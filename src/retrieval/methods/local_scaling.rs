//! Local scaling.

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
use crate::kernels::hubness::local_scaling as kernel;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::problems::{Problems, none};
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::search::Progress;

/// Distances over those of the k-th neighbours (Zelnik-Manor, Perona, 2005).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct LocalScaling {
    /// Which neighbour.
    pub k: usize,
    /// Whether queries are those of the bank.
    pub bank: bool,
}

impl Default for LocalScaling {
    fn default() -> Self {
        Self { k: 10, bank: false }
    }
}

impl RankingMethod for LocalScaling {
    fn learns(&self) -> Learns {
        Learns::from_bank(self.bank)
    }

    fn corrections(&self, ranker: &Ranker<'_>, across: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        let kernel = kernel::LocalScaling { k: self.k, distance: ranker.distance()? };
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
        let settings = kernel::LocalScaling { k: self.k, distance: Distance::Cosine };
        Some(kernel::local_scaling(&sides.test, sides.bank_if(self.bank), &settings))
    }
}

#[cfg(test)]
impl Samples for LocalScaling {
    fn samples() -> Vec<Self> {
        [false, true].map(|bank| Self { k: 3, bank }).to_vec()
    }

    fn extremes(k: usize) -> Vec<Self> {
        [false, true].map(|bank| Self { k, bank }).to_vec()
    }
}
