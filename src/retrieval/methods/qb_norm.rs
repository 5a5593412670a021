//! QB-Norm.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::method::{LearnsFrom, RankingMethod};
#[cfg(test)]
use super::reference_scores::ReferenceScores;
use crate::ranking::{DirectionCorrections, Ranker};
use crate::statistics::ItemStatistics;
use pairloom_base::error::Result;
use pairloom_kernels::hubness::method::Correction;
#[cfg(test)]
use pairloom_kernels::hubness::method::DenseScores;
use pairloom_kernels::hubness::method::{ParameterProblems, Statistic, check_count, check_inverse_temperature};
use pairloom_kernels::hubness::qb_norm as kernel;
use pairloom_search::SearchProgress;

/// Inverted softmax over the query bank, for queries whose nearest item is in the activation set (Bogolin et al., CVPR
/// 2022).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct QbNorm {
    /// Inverse temperature, β.
    pub beta: f64,
    /// Depth of the activation set: it holds the `k` best items of each query of the bank.
    pub k: usize,
}

impl Default for QbNorm {
    fn default() -> Self {
        Self { beta: 20.0, k: 1 }
    }
}

impl RankingMethod for QbNorm {
    fn learns_from(&self) -> LearnsFrom {
        LearnsFrom::QueryBank
    }

    fn corrections(
        &self,
        ranker: &Ranker<'_>,
        _: bool,
        progress: &mut dyn SearchProgress,
    ) -> Result<DirectionCorrections> {
        let Self { beta, k } = *self;
        let [caption_statistics, image_statistics] =
            ranker.activation_statistics(Statistic::LogSumExp { beta }, k, progress)?;
        let [i2t, t2i] = ranker.nearest_items(progress)?;
        let make = |statistics: ItemStatistics, nearest: &[usize]| {
            Box::new(kernel::qb_norm_correction(beta, &statistics.statistic, &statistics.activated, nearest))
                as Box<dyn Correction>
        };
        Ok(DirectionCorrections::Rows([make(caption_statistics, &i2t), make(image_statistics, &t2i)]))
    }

    fn problems(&self) -> ParameterProblems {
        check_inverse_temperature("beta", self.beta).into_iter().chain(check_count("k", self.k)).collect()
    }

    #[cfg(test)]
    fn reference_scores(&self, reference: &ReferenceScores<'_>) -> Option<DenseScores> {
        Some(kernel::qb_norm(&reference.test, &reference.bank, self.beta, self.k))
    }
}
