//! QB-Norm.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
use super::method::{Learns, RankingMethod};
use crate::error::Result;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::method::Correction;
use crate::kernels::hubness::problems::{Problems, none, not_a_beta};
use crate::kernels::hubness::qb_norm as kernel;
use crate::kernels::hubness::statistic::Statistic;
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
        Self { beta: 20.0, k: 1 }
    }
}

impl RankingMethod for QbNorm {
    fn learns(&self) -> Learns {
        Learns::Bank
    }

    fn corrections(&self, ranker: &Ranker<'_>, _: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        let Self { beta, k } = *self;
        let [of_captions, of_images] = ranker.activated(Statistic::LogSumExp { beta }, k, progress)?;
        let [i2t, t2i] = ranker.nearest(progress)?;
        let make = |of: OfItems, nearest: &[usize]| {
            Box::new(kernel::correction(beta, &of.statistic, &of.activated, nearest)) as Box<dyn Correction>
        };
        Ok(Corrections::Rows([make(of_captions, &i2t), make(of_images, &t2i)]))
    }

    fn problems(&self) -> Problems {
        not_a_beta("beta", self.beta).into_iter().chain(none("k", self.k)).collect()
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        Some(kernel::qb_norm(&sides.test, &sides.bank, self.beta, self.k))
    }
}
