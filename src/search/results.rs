//! Results of a search for the queries of one side.

use super::checkpoint::{PayloadReader, PayloadWriter};
use super::request::SearchRequest;
use pairloom_kernels::hubness::incremental_matching::MatchCandidate;
use pairloom_kernels::measure::rank::BestMatchRank;
use pairloom_kernels::top_k::ScoredItem;

/// Results for the queries of one side, in their order.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SearchResults {
    /// Best items of each query, best first, of equal ones the lower index first. The score is the ranking key (the
    /// score less the item's shift), rounded to f32.
    pub top: Vec<Vec<ScoredItem>>,
    /// Rank of the best positive of each query, `None` for a query without any; empty if no ranks were requested.
    pub ranks: Vec<Option<BestMatchRank>>,
    /// Values of all queries for each requested statistic.
    pub statistics: Vec<Vec<f64>>,
}

/// Results whose ranking keys are not yet rounded.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct UnroundedResults {
    pub top: Vec<Vec<MatchCandidate>>,
    pub ranks: Vec<Option<BestMatchRank>>,
    pub statistics: Vec<Vec<f64>>,
}

impl UnroundedResults {
    #[expect(clippy::cast_possible_truncation, reason = "a score is given as the nearest f32")]
    pub fn into_rounded(self) -> SearchResults {
        let scored = |best: MatchCandidate| ScoredItem { item: best.item, score: best.score as f32 };
        let top = self.top.into_iter().map(|top| top.into_iter().map(scored).collect()).collect();
        SearchResults { top, ranks: self.ranks, statistics: self.statistics }
    }

    /// Appends the results of further queries of the same request.
    pub fn append(&mut self, mut other: Self) {
        self.top.append(&mut other.top);
        self.ranks.append(&mut other.ranks);
        self.statistics.resize(other.statistics.len(), Vec::new());
        self.statistics.iter_mut().zip(&mut other.statistics).for_each(|(all, more)| all.append(more));
    }

    /// Encodes the results as the payload of a checkpoint.
    pub fn to_payload(&self) -> Vec<i32> {
        let mut payload = PayloadWriter::default();
        for best in self.top.iter().flatten() {
            payload.write_index(best.item);
            payload.write_f64(best.score);
        }
        for rank in &self.ranks {
            payload.write_index(usize::from(rank.is_some()));
            let BestMatchRank { rank, optimistic, pessimistic } =
                rank.unwrap_or(BestMatchRank { rank: 0, optimistic: 0, pessimistic: 0 });
            for number in [rank, optimistic, pessimistic] {
                payload.write_index(number);
            }
        }
        self.statistics.iter().flatten().for_each(|&statistic| payload.write_f64(statistic));
        payload.0
    }

    /// Decodes the results of `queries` queries with the request `request` among `items` items; `None` if the payload
    /// does not fit.
    pub fn from_payload(payload: &[i32], request: &SearchRequest<'_>, queries: usize, items: usize) -> Option<Self> {
        let mut payload = PayloadReader(payload);
        let mut results = Self::default();
        for _ in 0..queries {
            let mut best = || Some(MatchCandidate { item: payload.read_index(items - 1)?, score: payload.read_f64()? });
            results.top.push((0..request.k.min(items)).map(|_| best()).collect::<Option<_>>()?);
        }
        for _ in 0..if request.positives.n_queries().is_some() { queries } else { 0 } {
            let some = payload.read_index(1)? == 1;
            let [rank, optimistic, pessimistic] =
                [payload.read_index(items)?, payload.read_index(items)?, payload.read_index(items)?];
            results.ranks.push(some.then_some(BestMatchRank { rank, optimistic, pessimistic }));
        }
        for _ in request.statistics {
            results.statistics.push((0..queries).map(|_| payload.read_f64()).collect::<Option<_>>()?);
        }
        payload.finish().map(|()| results)
    }
}
