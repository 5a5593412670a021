//! Inverted softmax.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
#[cfg(test)]
use super::method::Samples;
use super::method::{Learns, RankingMethod};
use crate::error::Result;
use crate::kernels::hubness::inverted_softmax as kernel;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::method::Method as _;
#[cfg(test)]
use crate::kernels::hubness::problems::LARGEST_BETA;
use crate::kernels::hubness::problems::Problems;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::search::Progress;

/// A softmax over queries in place of items (Smith et al., ICLR 2017; Liu, Ye, 2019). Whether the query itself is among
/// those that it is normalised over (as in MUSE's code) or not (as in the papers) changes no ranking and no matching: with p
/// its share of all, it has p / (1 − p) of the others. So there is no setting for it. (Where β times the lead of a query over
/// all others is above 16 for several items, their shares are 1 up to rounding, which then decides among them.)
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct InvertedSoftmax {
    /// Inverse temperature, β. The papers take 30, for cosines that span all of [−1, 1].
    pub beta: f64,
    /// Whether queries are those of the bank.
    pub bank: bool,
}

impl Default for InvertedSoftmax {
    fn default() -> Self {
        Self { beta: kernel::InvertedSoftmax::default().beta, bank: false }
    }
}

impl InvertedSoftmax {
    fn kernel(&self) -> kernel::InvertedSoftmax {
        kernel::InvertedSoftmax { beta: self.beta }
    }
}

impl RankingMethod for InvertedSoftmax {
    fn learns(&self) -> Learns {
        Learns::from_bank(self.bank)
    }

    fn corrections(&self, ranker: &Ranker<'_>, across: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        ranker.by_statistics(&self.kernel(), self.bank, across, progress)
    }

    fn problems(&self) -> Problems {
        self.kernel().problems()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        Some(kernel::inverted_softmax(&sides.test, sides.bank_if(self.bank), self.beta, kernel::Normaliser::Others))
    }
}

#[cfg(test)]
impl Samples for InvertedSoftmax {
    fn samples() -> Vec<Self> {
        [false, true].map(|bank| Self { beta: 30.0, bank }).to_vec()
    }

    fn extremes(_k: usize) -> Vec<Self> {
        [false, true].map(|bank| Self { beta: LARGEST_BETA, bank }).to_vec()
    }
}
