//! Means of metrics over queries, and over folds.

use std::collections::BTreeMap;

use crate::kernels::measure::METRICS;
use crate::kernels::measure::metric::{MetricName, MetricUnit, RankedMatches};

/// Sum and number of the values of each metric; values are from 0 to 1.
#[derive(Debug, Clone, Default)]
pub(super) struct MetricMeans(BTreeMap<MetricName, (f64, usize)>);

/// Mean of a metric over queries, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MetricMean {
    pub(super) percent: f64,
    /// Queries of the first fold.
    pub(super) n_queries: usize,
    /// Queries of all folds.
    pub(super) n_queries_of_all_folds: usize,
}

impl MetricMeans {
    /// Adds the value of a query.
    pub(super) fn add(&mut self, name: MetricName, value: f64) {
        let (sum, n) = self.0.entry(name).or_default();
        *sum += value;
        *n += 1;
    }

    /// Adds the values of all metrics of the matches of a query.
    pub(super) fn measure(&mut self, matches: &RankedMatches<'_>) {
        for metric in METRICS {
            metric.measure_matches(matches, &mut |name, value| self.add(name, value));
        }
    }

    /// True if no query has a value.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Means over folds of the means over queries.
    #[expect(clippy::cast_precision_loss, reason = "queries are far below 2⁵³")]
    pub(super) fn mean_over_folds(folds: &[&Self]) -> BTreeMap<MetricName, MetricMean> {
        let mut means: BTreeMap<MetricName, (MetricMean, usize)> = BTreeMap::new();
        for fold in folds {
            for (&name, &(sum, n)) in &fold.0 {
                let none = MetricMean { percent: 0.0, n_queries: n, n_queries_of_all_folds: 0 };
                let (mean, folds) = means.entry(name).or_insert((none, 0));
                mean.percent += 100.0 * sum / n as f64;
                mean.n_queries_of_all_folds += n;
                *folds += 1;
            }
        }
        means
            .into_iter()
            .map(|(name, (mean, folds))| (name, MetricMean { percent: mean.percent / folds as f64, ..mean }))
            .collect()
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
