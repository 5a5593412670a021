//! Metrics of one direction of one pool, and their means over queries and folds.

use std::collections::BTreeMap;

use super::collection::RetrievalTask;
use super::confidence_intervals::{FoldHits, recall_intervals};
use super::ranking::Rankings;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::measure::METRICS;
use pairloom_kernels::measure::hubs::{k_occurrences, row_k_occurrences};
use pairloom_kernels::measure::metric::{KOccurrences, Metric, MetricName, MetricUnit, RankedMatches, RecordValue};
use pairloom_kernels::measure::recall::RecallSummary;

/// Metrics of one direction of one pool.
#[derive(Debug, Clone)]
pub(super) struct DirectionMetrics {
    /// Recalls, median rank and mean rank; the ranks are NaN for a matching.
    pub(super) recalls: RecallSummary,
    /// Metrics of the queries' matches.
    pub(super) means: MetricMeans,
    /// Metrics of the ranks of all queries.
    pub(super) rank_metrics: Vec<(MetricName, f64)>,
    /// Metrics of the k-occurrences of items.
    pub(super) occurrence_metrics: Vec<(MetricName, f64)>,
    /// Metrics of other binary relevance, by its name.
    pub(super) binary_relevance: Vec<(String, MetricMeans)>,
    pub(super) n_queries: usize,
}

/// Hits and ranked items of a pool, for the confidence intervals of its sums.
pub(super) struct PoolHits {
    pub(super) images: usize,
    pub(super) directions: [DirectionHits; 2],
}

/// Hits and ranked items of the queries of one direction.
pub(super) struct DirectionHits {
    /// For each query with a match and each cut-off, true if a match is among the first items.
    pub(super) hits: Vec<Vec<bool>>,
    /// Image of each query with a match, from 0 in the pool.
    pub(super) image_of: Vec<usize>,
    /// Ranked items of every query, best first; empty for a matching.
    pub(super) lists: Vec<Vec<usize>>,
    /// Image of every query.
    pub(super) image_of_query: Vec<usize>,
    /// Number of items in the pool.
    pub(super) items: usize,
}

/// Metrics, hits for confidence intervals, and Nₖ of every item at each cut-off.
pub(super) struct DirectionResults {
    pub(super) metrics: DirectionMetrics,
    pub(super) hits: DirectionHits,
    pub(super) counts: Vec<(usize, Vec<usize>)>,
}

/// Evaluator of the rankings of one direction: the queries and their relevant items.
pub(super) struct DirectionEvaluator<'q> {
    pub(super) task: &'q RetrievalTask<'q>,
    pub(super) cutoffs: &'q [usize],
    /// Other binary relevance: its name, and the relevant items of every query.
    pub(super) binary_relevance: &'q [(&'q str, Vec<Vec<usize>>)],
    /// Name of the pool in errors.
    pub(super) pool_name: &'q str,
}

impl DirectionEvaluator<'_> {
    /// Computes the metrics of the rankings of all queries.
    ///
    /// # Errors
    /// No query has a match, or none has a relevant item.
    pub(super) fn measure(&self, rankings: &Rankings) -> Result<DirectionResults> {
        let (task, cutoffs, items) = (self.task, self.cutoffs, self.task.item_ids.len());
        let lists: Vec<Vec<usize>> =
            rankings.top.iter().map(|top| top.iter().map(|best| best.item).collect()).collect();
        let at = |k: usize, query: usize| -> &[usize] {
            match (&rankings.sets, cutoffs.iter().position(|&cutoff| cutoff == k)) {
                (Some(sets), Some(place)) => &sets[place][query],
                _ => &lists[query][..k.min(lists[query].len())],
            }
        };
        let mut means = MetricMeans::default();
        let (mut hits, mut image_of) = (Vec::new(), Vec::new());
        for (query, matches) in task.matches.iter().enumerate().filter(|(_, matches)| !matches.is_empty()) {
            let is_hit = |item: &usize| matches.contains(item);
            hits.push(cutoffs.iter().map(|&k| at(k, query).iter().any(is_hit)).collect());
            image_of.push(task.image_of[query]);
            let relevant = matches.len();
            if rankings.sets.is_some() {
                for k in cutoffs.chunks(1) {
                    let hits: Vec<bool> = at(k[0], query).iter().map(is_hit).collect();
                    let set_matches =
                        RankedMatches { hits: &hits, relevant, cutoffs: k, is_ranking: false, rank: None };
                    means.measure(&set_matches, task.image_of[query]);
                }
            } else {
                let hits: Vec<bool> = lists[query].iter().map(is_hit).collect();
                let rank = rankings.ranks[query].map(|rank| rank.rank);
                let ranked_matches = RankedMatches { hits: &hits, relevant, cutoffs, is_ranking: true, rank };
                means.measure(&ranked_matches, task.image_of[query]);
            }
        }
        let recalls = recall_summary(task, rankings, cutoffs, self.pool_name)?;
        let binary_relevance = self.binary_relevance(rankings, &lists)?;
        let counts_at = |k: usize| k_occurrences((0..lists.len()).map(|query| at(k, query)), items, k);
        let counts: Vec<(usize, Vec<usize>)> = cutoffs.iter().map(|&k| (k, counts_at(k))).collect();
        let matches_per_item = task.matches_per_item();
        let duplicated_rows =
            if rankings.sets.is_some() { Vec::new() } else { self.row_occurrences(&lists, &matches_per_item) };
        let occurrences = KOccurrences {
            at: &counts,
            one_occurrences: &counts_at(1),
            matches_per_item: &matches_per_item,
            duplicated_rows: &duplicated_rows,
        };
        let occurrence_metrics = pool_values(|metric, add| metric.measure_occurrences(&occurrences, add));
        let ranks: Vec<usize> = rankings.ranks.iter().flatten().map(|rank| rank.rank).collect();
        let rank_metrics = pool_values(|metric, add| {
            if !ranks.is_empty() {
                metric.measure_ranks(&ranks, add);
            }
        });
        let n_queries = hits.len();
        // A matching has no interval of hs-sum: it depends on all queries, so none can be left out.
        let lists = if rankings.sets.is_some() { Vec::new() } else { lists };
        let direction_hits = DirectionHits { hits, image_of, lists, image_of_query: task.image_of.clone(), items };
        Ok(DirectionResults {
            metrics: DirectionMetrics { recalls, means, rank_metrics, occurrence_metrics, binary_relevance, n_queries },
            hits: direction_hits,
            counts,
        })
    }

    /// Nₖ of every row at each cut-off, if an image has a row for each of its captions, as in `*_precomp` folders. None if
    /// all images have one caption, or an image has none and so would have no row.
    fn row_occurrences(&self, lists: &[Vec<usize>], item_rows: &[usize]) -> Vec<(usize, Vec<usize>)> {
        let query_rows: Vec<usize> = self.task.matches.iter().map(Vec::len).collect();
        let rows = || query_rows.iter().chain(item_rows);
        if rows().any(|&rows| rows == 0) || rows().all(|&rows| rows == 1) {
            return Vec::new();
        }
        let at = |&k: &usize| (k, row_k_occurrences(lists.iter().map(Vec::as_slice), &query_rows, item_rows, k));
        self.cutoffs.iter().map(at).collect()
    }

    /// Metrics of other binary relevance; none for a matching.
    fn binary_relevance(&self, rankings: &Rankings, lists: &[Vec<usize>]) -> Result<Vec<(String, MetricMeans)>> {
        if rankings.sets.is_some() {
            return Ok(Vec::new());
        }
        let measure = |(name, relevant): &(&str, Vec<Vec<usize>>)| {
            let mut means = MetricMeans::default();
            for ((list, relevant), &image) in lists.iter().zip(relevant).zip(&self.task.image_of) {
                let hits: Vec<bool> = list.iter().map(|item| relevant.contains(item)).collect();
                let (relevant, cutoffs) = (relevant.len(), self.cutoffs);
                let matches = RankedMatches { hits: &hits, relevant, cutoffs, is_ranking: true, rank: None };
                means.measure(&matches, image);
            }
            if means.is_empty() {
                return Err(Error::data(format!("no pair of {} is relevant by `{name}`", self.pool_name)));
            }
            Ok(((*name).to_owned(), means))
        };
        self.binary_relevance.iter().map(measure).collect()
    }
}

/// Values of all metrics, in the order of the list.
fn pool_values(measure: impl Fn(&dyn Metric, RecordValue<'_>)) -> Vec<(MetricName, f64)> {
    let mut values = Vec::new();
    for metric in METRICS {
        measure(*metric, &mut |name, value| values.push((name, value)));
    }
    values
}

/// Recalls of a direction, from ranks or from the sets of a matching; median and mean rank from ranks, NaN for a
/// matching.
///
/// # Errors
/// No query has a match.
#[expect(clippy::cast_precision_loss, reason = "queries are far below 2⁵³")]
pub(super) fn recall_summary(
    task: &RetrievalTask<'_>,
    rankings: &Rankings,
    cutoffs: &[usize],
    pool_name: &str,
) -> Result<RecallSummary> {
    let none = || Error::data(format!("no caption belongs to an image of {pool_name}"));
    let Some(sets) = &rankings.sets else {
        let ranks: Vec<usize> = rankings.ranks.iter().flatten().map(|rank| rank.rank).collect();
        return RecallSummary::of(&ranks, cutoffs).ok_or_else(none);
    };
    let queries: Vec<_> = task.matches.iter().enumerate().filter(|(_, matches)| !matches.is_empty()).collect();
    if queries.is_empty() {
        return Err(none());
    }
    let recall = |set: &Vec<Vec<usize>>| {
        let hits = queries.iter().filter(|(query, matches)| set[*query].iter().any(|item| matches.contains(item)));
        100.0 * hits.count() as f64 / queries.len() as f64
    };
    Ok(RecallSummary { recalls: sets.iter().map(recall).collect(), medr: f64::NAN, meanr: f64::NAN })
}

/// Sum and number of the values of each metric; values are from 0 to 1.
#[derive(Debug, Clone, Default)]
pub(super) struct MetricMeans(BTreeMap<MetricName, QueryValueSum>);

/// Sum and number of the values of queries.
#[derive(Debug, Clone, Default)]
struct QueryValueSum {
    sum: f64,
    n: usize,
    /// All values of a proportion, for its confidence interval.
    hits: FoldHits,
}

/// Mean of a metric over queries, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MetricMean {
    pub(super) percent: f64,
    /// Queries of the first fold.
    pub(super) n_queries: usize,
    /// 95 % confidence interval of a proportion, in percent.
    pub(super) ci95: Option<(f64, f64)>,
}

impl MetricMeans {
    /// Adds the value of a query that belongs to an image of the pool.
    pub(super) fn add(&mut self, name: MetricName, value: f64, image: usize) {
        let values = self.0.entry(name).or_default();
        values.sum += value;
        values.n += 1;
        if name.unit == MetricUnit::Proportion {
            values.hits.hits.push(value);
            values.hits.images.push(image);
        }
    }

    /// Adds the values of all metrics of the matches of a query that belongs to an image of the pool.
    pub(super) fn measure(&mut self, matches: &RankedMatches<'_>, image: usize) {
        for metric in METRICS {
            metric.measure_matches(matches, &mut |name, value| self.add(name, value, image));
        }
    }

    /// True if no query has a value.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Means over folds of the means over queries, with confidence intervals of proportions.
    #[expect(clippy::cast_precision_loss, reason = "queries are far below 2⁵³")]
    pub(super) fn mean_over_folds(folds: &[&Self]) -> BTreeMap<MetricName, MetricMean> {
        let mut means: BTreeMap<MetricName, (MetricMean, usize)> = BTreeMap::new();
        for fold in folds {
            for (&name, &QueryValueSum { sum, n, .. }) in &fold.0 {
                let none = MetricMean { percent: 0.0, n_queries: n, ci95: None };
                let (mean, folds) = means.entry(name).or_insert((none, 0));
                mean.percent += 100.0 * sum / n as f64;
                *folds += 1;
            }
        }
        let mut means: BTreeMap<MetricName, MetricMean> = means
            .into_iter()
            .map(|(name, (mean, folds))| (name, MetricMean { percent: mean.percent / folds as f64, ..mean }))
            .collect();
        let proportions = || means.keys().copied().filter(|name| name.unit == MetricUnit::Proportion);
        let hits = |name| folds.iter().filter_map(|fold| Some(&fold.0.get(&name)?.hits)).collect();
        let intervals = recall_intervals(&proportions().map(hits).collect::<Vec<_>>());
        for (name, interval) in proportions().collect::<Vec<_>>().into_iter().zip(intervals) {
            means.entry(name).and_modify(|mean| mean.ci95 = Some(interval));
        }
        means
    }
}

/// Means over folds of values of pools. Metrics that a fold lacks are left out; the order is that of the first fold.
#[expect(clippy::cast_precision_loss, reason = "folds are few")]
pub(super) fn mean_of_pools(folds: &[&[(MetricName, f64)]]) -> Vec<(MetricName, f64)> {
    let Some(first) = folds.first() else { return Vec::new() };
    let mean = |&(name, _): &(MetricName, f64)| {
        let value_in =
            |fold: &&[(MetricName, f64)]| fold.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
        let values = folds.iter().map(value_in).collect::<Option<Vec<f64>>>()?;
        let mean = values.iter().sum::<f64>() / folds.len() as f64;
        Some((name, if name.unit == MetricUnit::Share { 100.0 * mean } else { mean }))
    };
    first.iter().filter_map(mean).collect()
}
