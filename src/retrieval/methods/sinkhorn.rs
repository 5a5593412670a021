//! Sinkhorn normalisation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::method::{LearnsFrom, RankingMethod};
#[cfg(test)]
use super::reference_scores::ReferenceScores;
use crate::ranking::{DirectionCorrections, Ranker};
use pairloom_base::error::{Error, Result};
#[cfg(test)]
use pairloom_kernels::hubness::method::DenseScores;
use pairloom_kernels::hubness::method::{ParameterProblems, ShiftCorrection, check_count, check_temperature};
#[cfg(test)]
use pairloom_kernels::hubness::sinkhorn::sinkhorn;
use pairloom_search::{MatrixSide, SearchProgress};

/// Sinkhorn normalisation: potentials such that all items get equal probability over the queries.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Sinkhorn {
    /// Temperature, τ.
    pub tau: f64,
    /// Number of iterations.
    pub iterations: usize,
    /// True to learn from the queries of the bank, false to learn from the test queries.
    pub query_bank: bool,
}

impl Default for Sinkhorn {
    fn default() -> Self {
        Self { tau: 0.01, iterations: 10, query_bank: false }
    }
}

impl RankingMethod for Sinkhorn {
    fn learns_from(&self) -> LearnsFrom {
        LearnsFrom::from_bank(self.query_bank)
    }

    fn corrections(
        &self,
        ranker: &Ranker<'_>,
        _: bool,
        progress: &mut dyn SearchProgress,
    ) -> Result<DirectionCorrections> {
        let Self { tau, iterations, query_bank: bank } = *self;
        let query_sides = [MatrixSide::Rows, MatrixSide::Columns];
        let potentials = if bank {
            let [caption_search, image_search] = ranker.bank_searches()?;
            let mut all = caption_search.sinkhorn(tau, iterations, &query_sides[..1], progress)?;
            all.extend(image_search.sinkhorn(tau, iterations, &query_sides[1..], progress)?);
            // These are potentials of the bank's queries; the test queries have none.
            for potential in &mut all {
                potential.queries.clear();
            }
            all
        } else {
            ranker.search(0)?.sinkhorn(tau, iterations, &query_sides, progress)?
        };
        let mut shifts =
            potentials.into_iter().map(|potential| ShiftCorrection::new(potential.items, potential.queries));
        let (Some(i2t), Some(t2i)) = (shifts.next(), shifts.next()) else {
            return Err(Error::internal("potentials of one direction"));
        };
        Ok(DirectionCorrections::Shifts([i2t, t2i]))
    }

    fn problems(&self) -> ParameterProblems {
        check_temperature("tau", self.tau).into_iter().chain(check_count("iterations", self.iterations)).collect()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    #[cfg(test)]
    fn reference_scores(&self, reference: &ReferenceScores<'_>) -> Option<DenseScores> {
        let (h, g) = sinkhorn(reference.bank_if(self.query_bank).unwrap_or(&reference.test), self.tau, self.iterations);
        let g = if self.query_bank { vec![0.0; reference.test.queries] } else { g };
        Some(DenseScores::from_fn(reference.test.queries, reference.test.items, |q, i| {
            reference.test.at(q, i) - h[i] - g[q]
        }))
    }
}
