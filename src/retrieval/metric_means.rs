//! Means of metrics over queries, and over folds.

use std::collections::BTreeMap;

use super::recall_intervals::{FoldHits, recall_intervals};
use pairloom_kernels::measure::METRICS;
use pairloom_kernels::measure::metric::{MetricName, MetricUnit, RankedMatches};

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
        let of = |fold: &&[(MetricName, f64)]| fold.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
        let values = folds.iter().map(of).collect::<Option<Vec<f64>>>()?;
        let mean = values.iter().sum::<f64>() / folds.len() as f64;
        Some((name, if name.unit == MetricUnit::Share { 100.0 * mean } else { mean }))
    };
    first.iter().filter_map(mean).collect()
}
