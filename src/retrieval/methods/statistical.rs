//! Statistical methods: all that ranks with one of [`kernels::hubness`](crate::kernels::hubness) that needs no more of the
//! scores than statistics.

#[cfg(test)]
use super::defined::Sides;
use super::method::{Learns, RankingMethod, ScoreKind};
use crate::error::Result;
#[cfg(test)]
use crate::kernels::hubness::distance::Distance;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::method::StatisticalMethod;
use crate::kernels::hubness::problems::Problems;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::search::Progress;

impl<M: StatisticalMethod> RankingMethod for M {
    fn learns(&self) -> Learns {
        Learns::from_bank(self.of_bank())
    }

    fn corrections(&self, ranker: &Ranker<'_>, across: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        ranker.by_statistics(self, across, progress)
    }

    fn problems(&self) -> Problems {
        StatisticalMethod::problems(self)
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        let needed = if self.needs().distances { scores.distance_refusal() } else { None };
        needed.or_else(|| StatisticalMethod::refusal(self, scores.distance()))
    }

    fn compares_queries(&self) -> bool {
        StatisticalMethod::compares_queries(self)
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        let others = sides.bank_if(self.of_bank()).unwrap_or(&sides.test);
        Some(self.definition(&sides.test, others, Distance::Cosine))
    }
}
