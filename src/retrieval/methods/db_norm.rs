//! DBNorm.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::method::{LearnsFrom, MethodContext, RankingMethod, ScoreKind};
#[cfg(test)]
use super::reference_scores::ReferenceScores;
use crate::ranking::{DirectionCorrections, Ranker};
use crate::scores::ScoreSet;
use crate::statistics::{ItemStatistics, bank_item_statistics};
use pairloom_base::error::{Problem, Result};
use pairloom_kernels::hubness::db_norm as kernel;
use pairloom_kernels::hubness::method::Correction;
#[cfg(test)]
use pairloom_kernels::hubness::method::DenseScores;
use pairloom_kernels::hubness::method::{ParameterProblems, Statistic, check_count, check_inverse_temperature};
use pairloom_search::{MatrixSide, SearchProgress};

/// Inverted softmax over the queries and over the items of the query bank (Wang et al., EMNLP 2023).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct DbNorm {
    /// Inverse temperature over queries, β₁.
    pub beta_queries: f64,
    /// Inverse temperature over items, β₂.
    pub beta_items: f64,
    /// Depth of the activation sets: they hold the `k` best items of each query of a bank. Only with `dynamic`.
    pub k: usize,
    /// True if only queries whose nearest item is in the activation set are corrected (`DualDIS`), false if all queries
    /// are (`DualIS`).
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
    fn learns_from(&self) -> LearnsFrom {
        LearnsFrom::QueryBank
    }

    fn corrections(
        &self,
        ranker: &Ranker<'_>,
        _: bool,
        progress: &mut dyn SearchProgress,
    ) -> Result<DirectionCorrections> {
        let betas = self.betas();
        let [by_queries, by_items] = betas.map(|beta| Statistic::LogSumExp { beta });
        let [captions, images] = ranker.activation_statistics(by_queries, self.k, progress)?;
        let beside = |items: ScoreSet, bank: ScoreSet, progress: &mut dyn SearchProgress| {
            bank_item_statistics(&ranker.scores.search(bank, items)?, MatrixSide::Columns, by_items, self.k, progress)
        };
        let captions_beside = beside(ScoreSet::Captions, ScoreSet::BankCaptions, progress)?;
        let images_beside = beside(ScoreSet::Images, ScoreSet::BankImages, progress)?;
        if !self.dynamic {
            let make = |a: &ItemStatistics, b: &ItemStatistics| {
                kernel::dual_inverted_softmax(betas, [&a.statistic, &b.statistic])
            };
            return Ok(DirectionCorrections::Shifts([
                make(&captions, &captions_beside),
                make(&images, &images_beside),
            ]));
        }
        let [i2t, t2i] = ranker.nearest_items(progress)?;
        let make = |a: &ItemStatistics, b: &ItemStatistics, nearest: &[usize]| {
            let activated = [a.activated.as_slice(), &b.activated];
            Box::new(kernel::dual_dynamic_inverted_softmax(betas, [&a.statistic, &b.statistic], activated, nearest))
                as Box<dyn Correction>
        };
        Ok(DirectionCorrections::Rows([make(&captions, &captions_beside, &i2t), make(&images, &images_beside, &t2i)]))
    }

    fn problems(&self) -> ParameterProblems {
        let betas = ["beta_queries", "beta_items"].into_iter().zip(self.betas());
        betas.filter_map(|(name, beta)| check_inverse_temperature(name, beta)).chain(check_count("k", self.k)).collect()
    }

    fn unused_settings(&self) -> &'static [&'static str] {
        if self.dynamic { &[] } else { &["k"] }
    }

    fn nested_problems(&self, at: &str, context: MethodContext) -> Vec<Problem> {
        context.bank_items_problem(at).into_iter().collect()
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        scores.between_items_refusal()
    }

    #[cfg(test)]
    fn reference_scores(&self, reference: &ReferenceScores<'_>) -> Option<DenseScores> {
        Some(kernel::db_norm(
            &reference.test,
            [&reference.bank, &reference.bank_items],
            self.betas(),
            self.dynamic.then_some(self.k),
        ))
    }
}
