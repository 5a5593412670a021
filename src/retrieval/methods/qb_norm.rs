//! QB-Norm.

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
use crate::kernels::hubness::method::Correction;
#[cfg(test)]
use crate::kernels::hubness::problems::LARGEST_BETA;
use crate::kernels::hubness::problems::Problems;
use crate::kernels::hubness::qb_norm as kernel;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::retrieval::statistics::OfItems;
use crate::search::Progress;

/// Inverted softmax over the bank, for queries that would find a hub (Bogolin et al., CVPR 2022).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct QbNorm {
    /// Inverse temperature, β.
    pub beta: f64,
    /// First items of a query of the bank that count as hubs.
    pub k: usize,
}

impl Default for QbNorm {
    fn default() -> Self {
        let kernel::QbNorm { beta, k } = kernel::QbNorm::default();
        Self { beta, k }
    }
}

impl QbNorm {
    fn kernel(&self) -> kernel::QbNorm {
        kernel::QbNorm { beta: self.beta, k: self.k }
    }
}

impl RankingMethod for QbNorm {
    fn learns(&self) -> Learns {
        Learns::Bank
    }

    fn corrections(&self, ranker: &Ranker<'_>, _: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        let kernel = self.kernel();
        let [of_captions, of_images] = ranker.activated(kernel.of_items(), kernel.k, progress)?;
        let [i2t, t2i] = ranker.nearest(progress)?;
        let make = |of: OfItems, nearest: &[usize]| {
            Box::new(kernel.correction(&of.statistic, &of.activated, nearest)) as Box<dyn Correction>
        };
        Ok(Corrections::Rows([make(of_captions, &i2t), make(of_images, &t2i)]))
    }

    fn problems(&self) -> Problems {
        self.kernel().problems()
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        Some(kernel::qb_norm(&sides.test, &sides.bank, &self.kernel()))
    }
}

#[cfg(test)]
impl Samples for QbNorm {
    fn samples() -> Vec<Self> {
        vec![Self { beta: 20.0, k: 1 }]
    }

    fn extremes(k: usize) -> Vec<Self> {
        vec![Self { beta: LARGEST_BETA, k }]
    }
}
