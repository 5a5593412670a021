//! Request of a search for the queries of one side, and its results.

use std::ops::Range;

use super::checkpoint::{PayloadReader, PayloadWriter};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::hubness::method::Statistic;
use pairloom_kernels::hubness::relaxed_greedy::MatchCandidate;
use pairloom_kernels::identity::IdentityWriter;
use pairloom_kernels::measure::recall::BestMatchRank;
use pairloom_kernels::top_k::ScoredItem;

/// Search request of one side: each of its vectors is a query, and the vectors of the other side are its items.
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchRequest<'a> {
    /// Number of best items of each query; all of them if there are fewer.
    pub k: usize,
    /// Matching items of each query. The rank of the best one is computed.
    pub positives: Positives<'a>,
    /// Shift h of each item: queries rank items by `f64::from(score) − h`. Empty for the scores themselves.
    pub item_shifts: &'a [f64],
    /// Statistics of the scores of each query with all items. Shifts do not change them.
    pub statistics: &'a [Statistic],
}

impl SearchRequest<'_> {
    /// Number of best items that the search must keep for each query.
    ///
    /// # Errors
    /// The request is invalid.
    pub(super) fn list_length(&self, queries: usize, items: usize) -> Result<usize> {
        let wrong = |what: &str, got: usize, expected: usize| {
            Err(Error::internal(format!("got {got} {what}, expected {expected}")))
        };
        if let Some(got) = self.positives.n_queries().filter(|&got| got != queries) {
            return wrong("lists of positives", got, queries);
        }
        if let Some((query, item)) = self.positives.first_out_of_range(items) {
            return Err(Error::internal(format!("item {item} matches query {query}, but there are {items} items")));
        }
        if !self.item_shifts.is_empty() && self.item_shifts.len() != items {
            return wrong("item shifts", self.item_shifts.len(), items);
        }
        let largest = |statistic: &Statistic| match *statistic {
            Statistic::MeanOfLargest { k } | Statistic::KthLargest { k } => Some(k),
            _ => None,
        };
        let most = self.statistics.iter().filter_map(largest).max();
        if most.is_some() && !self.item_shifts.is_empty() {
            return Err(Error::internal("statistics of the largest scores need a pass without item shifts"));
        }
        Ok(self.k.max(most.unwrap_or(0)).min(items))
    }

    /// Writes everything that the results depend on, beside the scores.
    pub(super) fn identity(&self, fields: &mut IdentityWriter<'_>) {
        let Self { k, positives, item_shifts, statistics } = self;
        fields.write_usize(*k);
        positives.identity(fields);
        fields.write_f64s(item_shifts);
        fields.write_list_length(statistics.len());
        for statistic in *statistics {
            match *statistic {
                Statistic::LogSumExp { beta } => {
                    fields.write_text("log_sum_exp");
                    fields.write_f64(beta);
                }
                Statistic::MeanOfLargest { k } => {
                    fields.write_text("mean_of_largest");
                    fields.write_usize(k);
                }
                Statistic::KthLargest { k } => {
                    fields.write_text("kth_largest");
                    fields.write_usize(k);
                }
                Statistic::Mean => fields.write_text("mean"),
                Statistic::StandardDeviation => fields.write_text("standard_deviation"),
            }
        }
    }
}

/// Matching items of each query.
#[derive(Debug, Clone, Copy, Default)]
pub enum Positives<'a> {
    /// No ranks are requested.
    #[default]
    None,
    /// Consecutive items.
    Ranges(&'a [Range<usize>]),
    /// Items in any order.
    Lists(&'a [Vec<usize>]),
}

impl Positives<'_> {
    /// Number of queries; `None` if no ranks are requested.
    pub(super) fn n_queries(&self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Ranges(ranges) => Some(ranges.len()),
            Self::Lists(lists) => Some(lists.len()),
        }
    }

    /// Returns the items that match a query.
    pub(super) fn of_query(&self, query: usize) -> Vec<usize> {
        match self {
            Self::None => Vec::new(),
            Self::Ranges(ranges) => ranges[query].clone().collect(),
            Self::Lists(lists) => lists[query].clone(),
        }
    }

    /// Returns true if any item matches the query.
    pub(super) fn has_any(&self, query: usize) -> bool {
        match self {
            Self::None => false,
            Self::Ranges(ranges) => !ranges[query].is_empty(),
            Self::Lists(lists) => !lists[query].is_empty(),
        }
    }

    /// Returns true if the item matches the query.
    pub(super) fn contains(&self, query: usize, item: usize) -> bool {
        match self {
            Self::None => false,
            Self::Ranges(ranges) => ranges[query].contains(&item),
            Self::Lists(lists) => lists[query].contains(&item),
        }
    }

    /// Writes the matches.
    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        match self {
            Self::None => fields.write_text("none"),
            Self::Ranges(ranges) => {
                fields.write_text("ranges");
                fields.write_list_length(ranges.len());
                for range in *ranges {
                    fields.write_usize(range.start);
                    fields.write_usize(range.end);
                }
            }
            Self::Lists(lists) => {
                fields.write_text("lists");
                fields.write_list_length(lists.len());
                lists.iter().for_each(|list| fields.write_usizes(list));
            }
        }
    }

    /// Finds the first match that is no item: (query, match).
    pub(super) fn first_out_of_range(&self, items: usize) -> Option<(usize, usize)> {
        let queries = 0..self.n_queries().unwrap_or(0);
        match self {
            Self::None => None,
            Self::Ranges(ranges) => queries
                .filter(|&query| !ranges[query].is_empty() && ranges[query].end > items)
                .map(|query| (query, ranges[query].end - 1))
                .next(),
            Self::Lists(lists) => queries
                .flat_map(|query| lists[query].iter().map(move |&item| (query, item)))
                .find(|&(_, item)| item >= items),
        }
    }
}

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
