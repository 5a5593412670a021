//! DBNorm.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
use super::method::{Learns, RankingMethod, ScoreKind};
use crate::error::Result;
use crate::kernels::hubness::db_norm as kernel;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::method::Correction;
use crate::kernels::hubness::problems::{Problems, none, not_a_beta};
use crate::kernels::hubness::statistic::Statistic;
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
    /// True if only queries that would find a hub are corrected (`DualDIS`), false if all are (`DualIS`).
    pub dynamic: bool,
}

impl Default for DbNorm {
    fn default() -> Self {
        Self { beta_queries: 1.0 / 1.99, beta_items: 3.0, k: 1, dynamic: false }
    }
}

impl DbNorm {
    fn betas(&self) -> [f64; 2] {
        [self.beta_queries, self.beta_items]
    }
}

impl RankingMethod for DbNorm {
    fn learns(&self) -> Learns {
        Learns::Bank
    }

    fn corrections(&self, ranker: &Ranker<'_>, _: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        let betas = self.betas();
        let [by_queries, by_items] = betas.map(|beta| Statistic::LogSumExp { beta });
        let [captions, images] = ranker.activated(by_queries, self.k, progress)?;
        let beside = |items: Set, bank: Set, progress: &mut dyn Progress| {
            of_items(&ranker.scores.search(bank, items)?, Side::Columns, by_items, self.k, progress)
        };
        let captions_beside = beside(Set::Captions, Set::BankCaptions, progress)?;
        let images_beside = beside(Set::Images, Set::BankImages, progress)?;
        if !self.dynamic {
            let make = |a: &OfItems, b: &OfItems| kernel::dual_is(betas, [&a.statistic, &b.statistic]);
            return Ok(Corrections::Shifts([make(&captions, &captions_beside), make(&images, &images_beside)]));
        }
        let [i2t, t2i] = ranker.nearest(progress)?;
        let make = |a: &OfItems, b: &OfItems, nearest: &[usize]| {
            let activated = [a.activated.as_slice(), &b.activated];
            Box::new(kernel::dual_dis(betas, [&a.statistic, &b.statistic], activated, nearest)) as Box<dyn Correction>
        };
        Ok(Corrections::Rows([make(&captions, &captions_beside, &i2t), make(&images, &images_beside, &t2i)]))
    }

    fn problems(&self) -> Problems {
        let betas = ["beta_queries", "beta_items"].into_iter().zip(self.betas());
        betas.filter_map(|(name, beta)| not_a_beta(name, beta)).chain(none("k", self.k)).collect()
    }

    fn unused(&self) -> &'static [&'static str] {
        if self.dynamic { &[] } else { &["k"] }
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        scores.between_items_refusal()
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        Some(kernel::db_norm(
            &sides.test,
            [&sides.bank, &sides.bank_items],
            self.betas(),
            self.dynamic.then_some(self.k),
        ))
    }
}
