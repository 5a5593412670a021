//! Distribution normalisation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
#[cfg(test)]
use super::method::Samples;
use super::method::{Learns, RankingMethod};
use crate::error::Result;
use crate::kernels::hubness::distribution_normalisation as kernel;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::method::Method as _;
use crate::kernels::hubness::problems::Problems;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::search::Progress;

/// The means of the bank's queries and items are taken off both vectors (Zhou et al., 2023).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct DistributionNormalisation {
    /// Part of the means that is taken off, λ.
    pub lambda: f64,
}

impl Default for DistributionNormalisation {
    fn default() -> Self {
        Self { lambda: kernel::DistributionNormalisation::default().lambda }
    }
}

impl DistributionNormalisation {
    fn kernel(self) -> kernel::DistributionNormalisation {
        kernel::DistributionNormalisation { lambda: self.lambda }
    }
}

impl RankingMethod for DistributionNormalisation {
    fn learns(&self) -> Learns {
        Learns::Bank
    }

    fn corrections(&self, ranker: &Ranker<'_>, across: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        ranker.by_statistics(&self.kernel(), true, across, progress)
    }

    fn problems(&self) -> Problems {
        self.kernel().problems()
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        #[expect(clippy::cast_precision_loss, reason = "a small bank")]
        let mean = |item: usize| sides.bank.column(item).sum::<f64>() / sides.bank.queries as f64;
        Some(sides.less(&(0..sides.test.items).map(|item| self.lambda * mean(item)).collect::<Vec<_>>()))
    }
}

#[cfg(test)]
impl Samples for DistributionNormalisation {
    fn samples() -> Vec<Self> {
        vec![Self { lambda: 0.5 }]
    }

    fn extremes(_k: usize) -> Vec<Self> {
        vec![Self { lambda: 1e6 }]
    }
}
