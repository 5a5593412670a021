//! Relaxed greedy matching.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assignment::no_corrections;
use super::method::{LearnsFrom, ListedMethod, MethodContext, RankingMethod};
#[cfg(test)]
use super::reference_scores::ReferenceScores;
use crate::ranking::{DirectionCorrections, Ranker, RankingRequest, Rankings};
use pairloom_base::error::{Error, Problem, Result};
#[cfg(test)]
use pairloom_kernels::hubness::method::DenseScores;
use pairloom_kernels::hubness::method::ParameterProblems;
use pairloom_kernels::hubness::relaxed_greedy::{self as kernel, CapacityRule, MatchCandidate, query_slices};
use pairloom_kernels::top_k::ScoredItem;
use pairloom_search::{GreedyMatching, GreedyRequest, SearchProgress};

/// Relaxed greedy matching: an item gets at most λ times its equal share of the queries (Liu, Ye, 2019). λ = 1 is
/// greedy matching.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct RelaxedGreedy<M: Default> {
    /// Relaxation, λ, at least 1.
    pub lambda: f64,
    /// Capacity of an image for its several captions: a multiple of λ·k (`scaled`), λ·k (`strict`, the pseudo-code of the
    /// paper), or λ·k for the first captions of all images, λ·k for the second, and so on (`slices`, as the tables of the
    /// paper imply).
    pub capacity: CapacityRule,
    /// Method that corrects the scores. Its scores of different queries must be comparable; other methods are refused
    /// when the file is checked.
    pub over: Box<M>,
}

impl<M: Default> Default for RelaxedGreedy<M> {
    fn default() -> Self {
        Self { lambda: 3.0, capacity: CapacityRule::Scaled, over: Box::default() }
    }
}

impl<M: Default> RelaxedGreedy<M> {
    fn kernel(&self) -> kernel::GreedyRelaxation {
        kernel::GreedyRelaxation { lambda: self.lambda, capacity: self.capacity }
    }
}

impl<M: ListedMethod + Default> RankingMethod for RelaxedGreedy<M> {
    fn learns_from(&self) -> LearnsFrom {
        LearnsFrom::TestQueries
    }

    fn uses_query_bank(&self) -> bool {
        self.over.uses_query_bank()
    }

    fn corrections(&self, _: &Ranker<'_>, _: bool, _: &mut dyn SearchProgress) -> Result<DirectionCorrections> {
        Err(no_corrections())
    }

    /// Computes a matching of corrected scores for each cut-off.
    fn rank(
        &self,
        ranker: &Ranker<'_>,
        request: &RankingRequest<'_>,
        progress: &mut dyn SearchProgress,
    ) -> Result<[Rankings; 2]> {
        let DirectionCorrections::Shifts(shifts) = self.over.corrections(ranker, true, progress)? else {
            return Err(Error::usage("a greedy matching wants comparable scores of different queries"));
        };
        let (kernel, counts) = (self.kernel(), ranker.counts);
        let slices = request.tasks.each_ref().map(|task| match self.capacity {
            CapacityRule::Slices => query_slices(&task.image_of),
            CapacityRule::Scaled | CapacityRule::Strict => Vec::new(),
        });
        let limits = [0, 1].map(|direction: usize| -> Vec<_> {
            let queries = slices[direction].iter().map(Vec::len).max().unwrap_or(counts[direction]);
            request.cutoffs.iter().map(|&k| kernel.limits(k, queries, counts[1 - direction])).collect()
        });
        let ask = |direction: usize| GreedyRequest {
            limits: &limits[direction],
            slices: &slices[direction],
            shift: &shifts[direction],
        };
        Ok(ranker.search(0)?.match_greedily(&ask(0), &ask(1), progress)?.map(rankings))
    }

    fn problems(&self) -> ParameterProblems {
        self.kernel().problems()
    }

    fn nested_problems(&self, at: &str, context: MethodContext) -> Vec<Problem> {
        let at = format!("{at}.over");
        let mut problems = Vec::new();
        if !self.over.compares_queries() {
            let all = M::all();
            let names: Vec<&str> = all.iter().filter(|one| one.compares_queries()).map(ListedMethod::name).collect();
            let message = format!("got `{}`, whose scores of different queries are not comparable", self.over.name());
            problems.push(Problem::new(&at, message).hint(format!("one of {}", names.join(", "))));
        }
        problems.extend(self.over.problems_at(&at, context));
        problems
    }

    #[cfg(test)]
    fn reference_scores(&self, _: &ReferenceScores<'_>) -> Option<DenseScores> {
        None
    }
}

/// Rankings from the matchings of all cut-offs; the scores are those of the last.
#[expect(clippy::cast_possible_truncation, reason = "scores in tables are f32")]
fn rankings(matched: Vec<GreedyMatching>) -> Rankings {
    let scored = |got: &MatchCandidate| ScoredItem { item: got.item, score: got.score as f32 };
    let top = matched.last().map(|last| last.iter().map(|list| list.iter().map(scored).collect()).collect());
    let items =
        |matched: &GreedyMatching| matched.iter().map(|list| list.iter().map(|got| got.item).collect()).collect();
    let sets = matched.iter().map(items).collect();
    Rankings { top: top.unwrap_or_default(), ranks: Vec::new(), sets: Some(sets) }
}
