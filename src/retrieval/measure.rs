//! Measures of one direction of one pool.

use super::collection::Task;
use super::means::Means;
use super::ranking::Rankings;
use crate::error::{Error, Result};
use crate::kernels::measure::METRICS;
use crate::kernels::measure::hubs::occurrences;
use crate::kernels::measure::metric::{Add, Matches, Metric, Name, Occurrences};
use crate::kernels::measure::recall::Retrieval;

/// Measures of one direction of one pool.
#[derive(Debug, Clone)]
pub(super) struct Measured {
    /// Median and mean rank are not numbers where a matching gave sets.
    pub(super) retrieval: Retrieval,
    /// Metrics of the queries' own matches.
    pub(super) means: Means,
    /// Metrics of the ranks of all queries.
    pub(super) of_ranks: Vec<(Name, f64)>,
    /// Metrics of how often items are found.
    pub(super) of_occurrences: Vec<(Name, f64)>,
    /// The same of other relevant pairs, by the name of the relevance.
    pub(super) rated: Vec<(String, Means)>,
    pub(super) n_queries: usize,
}

/// Hits and occurrences of a pool, for the intervals of its sums.
pub(super) struct PoolFound {
    pub(super) images: usize,
    pub(super) directions: [Found; 2],
}

/// Results of the queries of one direction.
pub(super) struct Found {
    /// For each query that has a match, true at each cut-off where one is among the first.
    pub(super) hits: Vec<Vec<bool>>,
    /// The image of each of them, from 0 in the pool.
    pub(super) image_of: Vec<usize>,
    /// Items that each query found, with a match or without, best first; nothing of a matching.
    pub(super) lists: Vec<Vec<usize>>,
    /// The image of each of those.
    pub(super) image_of_query: Vec<usize>,
    /// Items in the pool.
    pub(super) items: usize,
}

/// Measures, what intervals are made of, and Nₖ of every item at each cut-off.
pub(super) struct Measures {
    pub(super) measured: Measured,
    pub(super) found: Found,
    pub(super) counts: Vec<(usize, Vec<usize>)>,
}

/// Queries of one direction and their relevance, to be measured.
pub(super) struct Question<'q> {
    pub(super) task: &'q Task<'q>,
    pub(super) cutoffs: &'q [usize],
    /// Other relevant pairs: name, and the relevant items of every query.
    pub(super) rated: &'q [(&'q str, Vec<Vec<usize>>)],
    /// The pool as an error calls it.
    pub(super) place: &'q str,
}

impl Question<'_> {
    /// Measures the rankings of all queries.
    ///
    /// # Errors
    /// No query has a match, or none has a relevant item.
    pub(super) fn measure(&self, rankings: &Rankings) -> Result<Measures> {
        let (task, cutoffs, items) = (self.task, self.cutoffs, self.task.item_ids.len());
        let lists: Vec<Vec<usize>> =
            rankings.top.iter().map(|top| top.iter().map(|best| best.item).collect()).collect();
        let at = |k: usize, query: usize| -> &[usize] {
            match (&rankings.sets, cutoffs.iter().position(|&cutoff| cutoff == k)) {
                (Some(sets), Some(place)) => &sets[place][query],
                _ => &lists[query][..k.min(lists[query].len())],
            }
        };
        let mut means = Means::default();
        let (mut hits, mut image_of) = (Vec::new(), Vec::new());
        for (query, matches) in task.matches.iter().enumerate().filter(|(_, matches)| !matches.is_empty()) {
            let is_hit = |item: &usize| matches.contains(item);
            hits.push(cutoffs.iter().map(|&k| at(k, query).iter().any(is_hit)).collect());
            image_of.push(task.image_of[query]);
            let relevant = matches.len();
            if rankings.sets.is_some() {
                for k in cutoffs.chunks(1) {
                    let hits: Vec<bool> = at(k[0], query).iter().map(is_hit).collect();
                    let of_set = Matches { hits: &hits, relevant, cutoffs: k, ranking: false, rank: None };
                    means.measure(&of_set);
                }
            } else {
                let hits: Vec<bool> = lists[query].iter().map(is_hit).collect();
                let rank = rankings.ranks[query].map(|rank| rank.rank);
                let of_ranking = Matches { hits: &hits, relevant, cutoffs, ranking: true, rank };
                means.measure(&of_ranking);
            }
        }
        let retrieval = recalls(task, rankings, cutoffs, self.place)?;
        let rated = self.rated(rankings, &lists)?;
        let counts_at = |k: usize| occurrences((0..lists.len()).map(|query| at(k, query)), items, k);
        let counts: Vec<(usize, Vec<usize>)> = cutoffs.iter().map(|&k| (k, counts_at(k))).collect();
        let occurrences = Occurrences { at: &counts, nearest: &counts_at(1), own: &task.own() };
        let of_occurrences = of_pool(|metric, add| metric.of_occurrences(&occurrences, add));
        let ranks: Vec<usize> = rankings.ranks.iter().flatten().map(|rank| rank.rank).collect();
        let of_ranks = of_pool(|metric, add| {
            if !ranks.is_empty() {
                metric.of_ranks(&ranks, add);
            }
        });
        let n_queries = hits.len();
        // With other queries, a matching would be another one.
        let lists = if rankings.sets.is_some() { Vec::new() } else { lists };
        let found = Found { hits, image_of, lists, image_of_query: task.image_of.clone(), items };
        Ok(Measures {
            measured: Measured { retrieval, means, of_ranks, of_occurrences, rated, n_queries },
            found,
            counts,
        })
    }

    /// Measures of other relevant pairs, for rankings.
    fn rated(&self, rankings: &Rankings, lists: &[Vec<usize>]) -> Result<Vec<(String, Means)>> {
        if rankings.sets.is_some() {
            return Ok(Vec::new());
        }
        let measure = |(name, relevant): &(&str, Vec<Vec<usize>>)| {
            let mut means = Means::default();
            for (list, relevant) in lists.iter().zip(relevant) {
                let hits: Vec<bool> = list.iter().map(|item| relevant.contains(item)).collect();
                let (relevant, cutoffs) = (relevant.len(), self.cutoffs);
                let matches = Matches { hits: &hits, relevant, cutoffs, ranking: true, rank: None };
                means.measure(&matches);
            }
            if means.is_empty() {
                return Err(Error::data(format!("no pair of {} is relevant by `{name}`", self.place)));
            }
            Ok(((*name).to_owned(), means))
        };
        self.rated.iter().map(measure).collect()
    }
}

/// Values of all metrics of a pool.
fn of_pool(measure: impl Fn(&dyn Metric, Add<'_>)) -> Vec<(Name, f64)> {
    let mut values = Vec::new();
    for metric in METRICS {
        measure(*metric, &mut |name, value| values.push((name, value)));
    }
    values
}

/// Recalls of a direction, from ranks, or from the sets of a matching; median and mean rank from ranks, where there are any.
///
/// # Errors
/// No query has a match.
#[expect(clippy::cast_precision_loss, reason = "queries are far below 2⁵³")]
pub(super) fn recalls(task: &Task<'_>, rankings: &Rankings, cutoffs: &[usize], place: &str) -> Result<Retrieval> {
    let none = || Error::data(format!("no caption belongs to an image of {place}"));
    let Some(sets) = &rankings.sets else {
        let ranks: Vec<usize> = rankings.ranks.iter().flatten().map(|rank| rank.rank).collect();
        return Retrieval::of(&ranks, cutoffs).ok_or_else(none);
    };
    let queries: Vec<_> = task.matches.iter().enumerate().filter(|(_, matches)| !matches.is_empty()).collect();
    if queries.is_empty() {
        return Err(none());
    }
    let recall = |set: &Vec<Vec<usize>>| {
        let hits = queries.iter().filter(|(query, matches)| set[*query].iter().any(|item| matches.contains(item)));
        100.0 * hits.count() as f64 / queries.len() as f64
    };
    Ok(Retrieval { recalls: sets.iter().map(recall).collect(), medr: f64::NAN, meanr: f64::NAN })
}
