//! Assignment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assignments::{self, no_corrections};
#[cfg(test)]
use super::defined::Sides;
use super::method::{Learns, RankingMethod};
use crate::error::Result;
use crate::kernels::hubness::assignment::{Problem, assignment_rounds};
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::{Ranker, Rankings, Wanted};
use crate::search::Progress;
use crate::search::assignment::solve;

/// The assignment with the largest sum of scores, by the Hungarian method, then that of what is left, and so on: an upper
/// bound for matchings, for at most 5,000 queries and 5,000 places (an item has as many as it takes for all queries).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Assignment {}

impl RankingMethod for Assignment {
    fn learns(&self) -> Learns {
        Learns::Test
    }

    fn corrections(&self, _: &Ranker<'_>, _: bool, _: &mut dyn Progress) -> Result<Corrections> {
        Err(no_corrections())
    }

    fn rank(&self, ranker: &Ranker<'_>, wanted: &Wanted<'_>, progress: &mut dyn Progress) -> Result<[Rankings; 2]> {
        let rounds = wanted.cutoffs.last().copied().unwrap_or(0);
        assignments::rank(ranker, wanted, progress, |places, progress| {
            let mut told = Ok(());
            let solve = |problem: &Problem<'_>| {
                if told.is_ok() {
                    told = progress.report(0, 1);
                }
                // Once it is cancelled, any assignment will do.
                if told.is_ok() { solve(problem) } else { (0..problem.rows).collect() }
            };
            let got = assignment_rounds([places.queries, places.items], rounds, places.score, solve);
            told.map(|()| got)
        })
    }

    #[cfg(test)]
    fn defined(&self, _: &Sides<'_>) -> Option<Matrix> {
        None
    }
}
