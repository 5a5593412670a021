//! Dual-bank Sinkhorn normalisation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::method::{LearnsFrom, MethodContext, RankingMethod};
#[cfg(test)]
use super::reference_scores::ReferenceScores;
use crate::ranking::{DirectionCorrections, Ranker};
use crate::scores::ScoreSet;
use pairloom_base::error::{Error, Problem, Result};
#[cfg(test)]
use pairloom_kernels::hubness::method::DenseScores;
use pairloom_kernels::hubness::method::{ParameterProblems, check_count, check_temperature};
use pairloom_kernels::hubness::sinkhorn as kernel;
use pairloom_search::{MatrixSide, SearchProgress};

/// Sinkhorn potentials of the items together with the items of the query bank, over the queries of the bank (Pan et
/// al., 2025).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct DualBankSinkhorn {
    /// Temperature, τ.
    pub tau: f64,
    /// Number of iterations.
    pub iterations: usize,
}

impl Default for DualBankSinkhorn {
    fn default() -> Self {
        Self { tau: 0.01, iterations: 10 }
    }
}

impl RankingMethod for DualBankSinkhorn {
    fn learns_from(&self) -> LearnsFrom {
        LearnsFrom::QueryBank
    }

    fn corrections(
        &self,
        ranker: &Ranker<'_>,
        _: bool,
        progress: &mut dyn SearchProgress,
    ) -> Result<DirectionCorrections> {
        let [images, captions] = ranker.counts;
        let one = |queries: ScoreSet, items: [ScoreSet; 2], count: usize, progress: &mut dyn SearchProgress| {
            let mut shifts = None;
            ranker.scores.with_joined_items(queries, items, &mut |search| {
                let potentials = search.sinkhorn(self.tau, self.iterations, &[MatrixSide::Rows], progress)?;
                let potentials = potentials.first().ok_or_else(|| Error::internal("no potentials"))?;
                shifts = Some(kernel::dual_bank_correction(&potentials.items, count));
                Ok(())
            })?;
            shifts.ok_or_else(|| Error::internal("no search in the items and the bank"))
        };
        Ok(DirectionCorrections::Shifts([
            one(ScoreSet::BankImages, [ScoreSet::Captions, ScoreSet::BankCaptions], captions, progress)?,
            one(ScoreSet::BankCaptions, [ScoreSet::Images, ScoreSet::BankImages], images, progress)?,
        ]))
    }

    fn problems(&self) -> ParameterProblems {
        check_temperature("tau", self.tau).into_iter().chain(check_count("iterations", self.iterations)).collect()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    fn nested_problems(&self, at: &str, context: MethodContext) -> Vec<Problem> {
        if !context.query_bank || context.bank_pairs {
            return Vec::new();
        }
        let message = "wants scores of the bank's images with its captions, and there are none";
        vec![Problem::new(at, message).hint("set `query_bank.bank_scores`")]
    }

    #[cfg(test)]
    fn reference_scores(&self, reference: &ReferenceScores<'_>) -> Option<DenseScores> {
        Some(reference.minus_item_shifts(&kernel::dual_bank_sinkhorn(
            &reference.bank,
            &reference.within_bank,
            self.tau,
            self.iterations,
        )))
    }
}
