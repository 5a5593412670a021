//! Ranking with the statistical methods of [`kernels::hubness`](pairloom_kernels::hubness).

use super::method::{LearnsFrom, RankingMethod, ScoreKind};
#[cfg(test)]
use super::reference_scores::ReferenceScores;
use crate::corrections::Corrections;
use crate::ranking::Ranker;
use pairloom_base::error::Result;
#[cfg(test)]
use pairloom_kernels::hubness::dense_scores::DenseScores;
use pairloom_kernels::hubness::method::StatisticalMethod;
use pairloom_kernels::hubness::parameter_checks::ParameterProblems;
use pairloom_search::SearchProgress;

impl<M: StatisticalMethod> RankingMethod for M {
    fn learns_from(&self) -> LearnsFrom {
        LearnsFrom::from_bank(self.is_inductive())
    }

    fn corrections(
        &self,
        ranker: &Ranker<'_>,
        comparable: bool,
        progress: &mut dyn SearchProgress,
    ) -> Result<Corrections> {
        ranker.statistical_corrections(self, comparable, progress)
    }

    fn problems(&self) -> ParameterProblems {
        StatisticalMethod::problems(self)
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        StatisticalMethod::refusal(self, scores.distance())
    }

    fn needs_distances(&self) -> bool {
        self.required_statistics().needs_distances
    }

    fn compares_queries(&self) -> bool {
        StatisticalMethod::compares_queries(self)
    }

    #[cfg(test)]
    fn reference_scores(&self, reference: &ReferenceScores<'_>) -> Option<DenseScores> {
        let others = reference.bank_if(self.is_inductive()).unwrap_or(&reference.test);
        Some(self.definition(&reference.test, others, reference.distance))
    }
}
