//! Nearest neighbor normalization.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
#[cfg(test)]
use super::method::Samples;
use super::method::{Learns, RankingMethod};
use crate::error::Result;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::method::Method as _;
use crate::kernels::hubness::nnn as kernel;
use crate::kernels::hubness::problems::Problems;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::search::Progress;

/// The mean of an item's nearest queries of the bank is taken off (Chowdhury et al., EMNLP 2024).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Nnn {
    /// Weight of the mean, α.
    pub alpha: f64,
    /// Queries that count.
    pub k: usize,
}

impl Default for Nnn {
    fn default() -> Self {
        let kernel::Nnn { alpha, k } = kernel::Nnn::default();
        Self { alpha, k }
    }
}

impl Nnn {
    fn kernel(&self) -> kernel::Nnn {
        kernel::Nnn { alpha: self.alpha, k: self.k }
    }
}

impl RankingMethod for Nnn {
    fn learns(&self) -> Learns {
        Learns::Bank
    }

    fn corrections(&self, ranker: &Ranker<'_>, across: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        ranker.by_statistics(&self.kernel(), true, across, progress)
    }

    fn problems(&self) -> Problems {
        self.kernel().problems()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        Some(kernel::nnn(&sides.test, &sides.bank, &self.kernel()))
    }
}

#[cfg(test)]
impl Samples for Nnn {
    fn samples() -> Vec<Self> {
        vec![Self { alpha: 0.75, k: 3 }]
    }

    fn extremes(k: usize) -> Vec<Self> {
        vec![Self { alpha: 1e6, k }]
    }
}
