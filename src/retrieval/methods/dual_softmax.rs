//! Dual softmax.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
#[cfg(test)]
use super::method::Samples;
use super::method::{Learns, RankingMethod, ScoreKind};
use crate::error::Result;
use crate::kernels::hubness::dual_softmax as kernel;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::method::Method as _;
#[cfg(test)]
use crate::kernels::hubness::problems::LARGEST_BETA;
use crate::kernels::hubness::problems::Problems;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::search::Progress;

/// Scores above 0 times their softmax over the test queries (Cheng et al., 2021).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct DualSoftmax {
    /// Inverse temperature, β.
    pub beta: f64,
}

impl Default for DualSoftmax {
    fn default() -> Self {
        Self { beta: kernel::DualSoftmax::default().beta }
    }
}

impl DualSoftmax {
    fn kernel(self) -> kernel::DualSoftmax {
        kernel::DualSoftmax { beta: self.beta }
    }
}

impl RankingMethod for DualSoftmax {
    fn learns(&self) -> Learns {
        Learns::Test
    }

    fn corrections(&self, ranker: &Ranker<'_>, across: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        ranker.by_statistics(&self.kernel(), false, across, progress)
    }

    fn problems(&self) -> Problems {
        self.kernel().problems()
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        let message = "multiplies scores by shares, and order similarities, never above 0, would change places";
        (scores == ScoreKind::Order).then_some(message)
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        Some(kernel::dual_softmax(&sides.test, self.beta))
    }
}

#[cfg(test)]
impl Samples for DualSoftmax {
    fn samples() -> Vec<Self> {
        vec![Self { beta: 20.0 }]
    }

    fn extremes(_k: usize) -> Vec<Self> {
        vec![Self { beta: LARGEST_BETA }]
    }
}
