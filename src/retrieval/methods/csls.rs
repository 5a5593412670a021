//! CSLS.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
#[cfg(test)]
use super::method::Samples;
use super::method::{Learns, RankingMethod};
use crate::error::Result;
use crate::kernels::hubness::csls as kernel;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::method::Method as _;
use crate::kernels::hubness::problems::Problems;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::search::Progress;

/// Cross-domain similarity local scaling (Conneau et al., ICLR 2018).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Csls {
    /// Neighbours whose mean score is taken off.
    pub k: usize,
    /// Whether queries are those of the bank.
    pub bank: bool,
}

impl Default for Csls {
    fn default() -> Self {
        Self { k: kernel::Csls::default().k, bank: false }
    }
}

impl Csls {
    fn kernel(&self) -> kernel::Csls {
        kernel::Csls { k: self.k }
    }
}

impl RankingMethod for Csls {
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
        Some(kernel::csls(&sides.test, sides.bank_if(self.bank), self.k))
    }
}

#[cfg(test)]
impl Samples for Csls {
    fn samples() -> Vec<Self> {
        [false, true].map(|bank| Self { k: 3, bank }).to_vec()
    }

    fn extremes(k: usize) -> Vec<Self> {
        [false, true].map(|bank| Self { k, bank }).to_vec()
    }
}
