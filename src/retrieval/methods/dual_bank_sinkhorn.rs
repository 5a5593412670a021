//! Dual-bank Sinkhorn normalisation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::method::{LearnsFrom, RankingMethod};
#[cfg(test)]
use super::testing::ReferenceScores;
use crate::error::{Error, Result};
#[cfg(test)]
use crate::kernels::hubness::dense_scores::DenseScores;
use crate::kernels::hubness::dual_bank_sinkhorn as kernel;
use crate::kernels::hubness::parameter_checks::{ParameterProblems, check_count, check_temperature};
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::retrieval::scores::ScoreSet;
use crate::search::{MatrixSide, SearchProgress, VectorMatrix};

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

    fn corrections(&self, ranker: &Ranker<'_>, _: bool, progress: &mut dyn SearchProgress) -> Result<Corrections> {
        let one =
            |items: ScoreSet, beside: ScoreSet, queries: ScoreSet, captions, progress: &mut dyn SearchProgress| {
                let vectors = |set: ScoreSet| ranker.scores.vectors(set);
                let (items, beside, queries) = (vectors(items)?, vectors(beside)?, vectors(queries)?);
                let rows = [items, beside].into_iter().flat_map(|side| (0..side.len()).map(|row| side.row(row)));
                let both = rows.collect::<Vec<_>>().concat();
                let both = VectorMatrix::new("items and bank", &both, items.width())?;
                let search = ranker.scores.search_vectors(queries, &both, captions)?;
                let potentials = search.sinkhorn(self.tau, self.iterations, &[MatrixSide::Rows], progress)?;
                let potentials = potentials.first().ok_or_else(|| Error::internal("no potentials"))?;
                Ok::<_, Error>(kernel::dual_bank_correction(&potentials.items, items.len()))
            };
        Ok(Corrections::Shifts([
            one(ScoreSet::Captions, ScoreSet::BankCaptions, ScoreSet::BankImages, MatrixSide::Columns, progress)?,
            one(ScoreSet::Images, ScoreSet::BankImages, ScoreSet::BankCaptions, MatrixSide::Rows, progress)?,
        ]))
    }

    fn problems(&self) -> ParameterProblems {
        check_temperature("tau", self.tau).into_iter().chain(check_count("iterations", self.iterations)).collect()
    }

    fn compares_queries(&self) -> bool {
        true
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
