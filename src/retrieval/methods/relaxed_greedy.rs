//! Relaxed greedy matching.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assignments::no_corrections;
#[cfg(test)]
use super::defined::Sides;
use super::method::{Given, Learns, Listed, RankingMethod};
use crate::error::{Error, Problem, Result};
use crate::kernels::hubness::greedy::{self as kernel, Capacity};
use crate::kernels::hubness::matching::Candidate;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::problems::Problems;
use crate::kernels::top_k::Scored;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::{Ranker, Rankings, Wanted};
use crate::search::{Greedy, Matched, Progress};

/// Greedy matching, each item for at most λ times its share of the queries (Liu, Ye, 2019); λ = 1 is greedy matching.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct RelaxedGreedy<M: Default> {
    /// Relaxation, λ, at least 1.
    pub lambda: f64,
    /// True if capacities are those of the printed pseudo-code, which with five captions an image answers a fifth of them.
    pub strict: bool,
    /// Method that makes the scores. Those of different queries must compare; other methods are refused when the file is checked.
    pub over: Box<M>,
}

impl<M: Default> Default for RelaxedGreedy<M> {
    fn default() -> Self {
        Self { lambda: 3.0, strict: false, over: Box::default() }
    }
}

impl<M: Default> RelaxedGreedy<M> {
    fn kernel(&self) -> kernel::RelaxedGreedy {
        let capacity = if self.strict { Capacity::Strict } else { Capacity::Scaled };
        kernel::RelaxedGreedy { lambda: self.lambda, capacity }
    }
}

impl<M: Listed + Default> RankingMethod for RelaxedGreedy<M> {
    fn learns(&self) -> Learns {
        Learns::Test
    }

    fn uses_bank(&self) -> bool {
        self.over.uses_bank()
    }

    fn corrections(&self, _: &Ranker<'_>, _: bool, _: &mut dyn Progress) -> Result<Corrections> {
        Err(no_corrections())
    }

    /// A matching for each cut-off, over corrected scores.
    fn rank(&self, ranker: &Ranker<'_>, wanted: &Wanted<'_>, progress: &mut dyn Progress) -> Result<[Rankings; 2]> {
        let Corrections::Shifts(shifts) = self.over.corrections(ranker, true, progress)? else {
            return Err(Error::usage("a greedy matching wants scores of different queries that compare"));
        };
        let (kernel, counts) = (self.kernel(), ranker.counts);
        let limits = [0, 1].map(|direction: usize| -> Vec<_> {
            wanted.cutoffs.iter().map(|&k| kernel.limits(k, counts[direction], counts[1 - direction])).collect()
        });
        let ask = |direction: usize| Greedy { limits: &limits[direction], shift: &shifts[direction] };
        Ok(ranker.searches[0].match_greedily(&ask(0), &ask(1), progress)?.map(rankings))
    }

    fn problems(&self) -> Problems {
        self.kernel().problems()
    }

    fn inner_problems(&self, at: &str, given: Given) -> Vec<Problem> {
        let at = format!("{at}.over");
        let mut problems = Vec::new();
        if !self.over.compares_queries() {
            let all = M::all();
            let names: Vec<&str> = all.iter().filter(|one| one.compares_queries()).map(Listed::name).collect();
            let message = format!("got `{}`, whose scores of different queries do not compare", self.over.name());
            problems.push(Problem::new(&at, message).hint(format!("one of {}", names.join(", "))));
        }
        problems.extend(self.over.problems_at(&at, given));
        problems
    }

    #[cfg(test)]
    fn defined(&self, _: &Sides<'_>) -> Option<Matrix> {
        None
    }
}

/// Result of the matchings for the cut-offs; scores are told of the last.
#[expect(clippy::cast_possible_truncation, reason = "scores in tables are f32")]
fn rankings(matched: Vec<Matched>) -> Rankings {
    let scored = |got: &Candidate| Scored { item: got.item, score: got.score as f32 };
    let top = matched.last().map(|last| last.iter().map(|list| list.iter().map(scored).collect()).collect());
    let items = |matched: &Matched| matched.iter().map(|list| list.iter().map(|got| got.item).collect()).collect();
    let sets = matched.iter().map(items).collect();
    Rankings { top: top.unwrap_or_default(), ranks: Vec::new(), sets: Some(sets) }
}
