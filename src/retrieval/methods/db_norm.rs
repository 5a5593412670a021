//! DBNorm.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
#[cfg(test)]
use super::method::Samples;
use super::method::{Learns, RankingMethod, ScoreKind};
use crate::error::Result;
use crate::kernels::hubness::db_norm as kernel;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::method::Correction;
#[cfg(test)]
use crate::kernels::hubness::problems::LARGEST_BETA;
use crate::kernels::hubness::problems::Problems;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::retrieval::scores::Set;
use crate::retrieval::statistics::{OfItems, of_items};
use crate::search::{Progress, Side};

/// Inverted softmax over queries and over items of the bank (Wang et al., EMNLP 2023).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct DbNorm {
    /// Inverse temperature over queries, β₁.
    pub beta_queries: f64,
    /// Inverse temperature over items, β₂.
    pub beta_items: f64,
    /// First items of a member of the bank that count as hubs; with `dynamic`.
    pub k: usize,
    /// Whether only queries that would find a hub are corrected (`DualDIS`), or all (`DualIS`).
    pub dynamic: bool,
}

impl Default for DbNorm {
    fn default() -> Self {
        let kernel::DbNorm { beta_queries, beta_items, k } = kernel::DbNorm::default();
        Self { beta_queries, beta_items, k, dynamic: false }
    }
}

impl DbNorm {
    fn kernel(&self) -> kernel::DbNorm {
        kernel::DbNorm { beta_queries: self.beta_queries, beta_items: self.beta_items, k: self.k }
    }
}

impl RankingMethod for DbNorm {
    fn learns(&self) -> Learns {
        Learns::Bank
    }

    fn corrections(&self, ranker: &Ranker<'_>, _: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        let kernel = self.kernel();
        let [by_queries, by_items] = kernel.of_items();
        let [captions, images] = ranker.activated(by_queries, kernel.k, progress)?;
        let beside = |items: Set, bank: Set, progress: &mut dyn Progress| {
            of_items(&ranker.scores.search(bank, items)?, Side::Columns, by_items, kernel.k, progress)
        };
        let captions_beside = beside(Set::Captions, Set::BankCaptions, progress)?;
        let images_beside = beside(Set::Images, Set::BankImages, progress)?;
        if !self.dynamic {
            let make = |a: &OfItems, b: &OfItems| kernel.dual_is([&a.statistic, &b.statistic]);
            return Ok(Corrections::Shifts([make(&captions, &captions_beside), make(&images, &images_beside)]));
        }
        let [i2t, t2i] = ranker.nearest(progress)?;
        let make = |a: &OfItems, b: &OfItems, nearest: &[usize]| {
            let activated = [a.activated.as_slice(), &b.activated];
            Box::new(kernel.dual_dis([&a.statistic, &b.statistic], activated, nearest)) as Box<dyn Correction>
        };
        Ok(Corrections::Rows([make(&captions, &captions_beside, &i2t), make(&images, &images_beside, &t2i)]))
    }

    fn problems(&self) -> Problems {
        self.kernel().problems()
    }

    fn unused(&self) -> &'static [&'static str] {
        if self.dynamic { &[] } else { &["k"] }
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        scores.between_items_refusal()
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        Some(kernel::db_norm(&sides.test, [&sides.bank, &sides.bank_items], &self.kernel(), self.dynamic))
    }
}

#[cfg(test)]
impl Samples for DbNorm {
    fn samples() -> Vec<Self> {
        [false, true].map(|dynamic| Self { beta_queries: 8.0, beta_items: 3.0, k: 1, dynamic }).to_vec()
    }

    fn extremes(k: usize) -> Vec<Self> {
        vec![
            Self { beta_queries: LARGEST_BETA, beta_items: 1e-9, k, dynamic: true },
            Self { beta_queries: 1e-9, beta_items: LARGEST_BETA, k, dynamic: false },
        ]
    }
}
