//! Means of metrics over queries, and over folds.

use std::collections::BTreeMap;

use crate::kernels::measure::METRICS;
use crate::kernels::measure::metric::{Matches, Name, Unit};

/// Sums of values from 0 to 1 and how many there are, by name.
#[derive(Debug, Clone, Default)]
pub(super) struct Means(BTreeMap<Name, (f64, usize)>);

/// A mean in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Mean {
    pub(super) percent: f64,
    /// Queries of the first fold.
    pub(super) n_queries: usize,
    /// Queries of all folds.
    pub(super) n_all: usize,
}

impl Means {
    /// Adds the value of a query.
    pub(super) fn add(&mut self, name: Name, value: f64) {
        let (sum, n) = self.0.entry(name).or_default();
        *sum += value;
        *n += 1;
    }

    /// Adds what all metrics say of a query's matches.
    pub(super) fn measure(&mut self, matches: &Matches<'_>) {
        for metric in METRICS {
            metric.of_matches(matches, &mut |name, value| self.add(name, value));
        }
    }

    /// True if no query had anything to measure.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The mean over folds of the means over queries.
    #[expect(clippy::cast_precision_loss, reason = "queries are far below 2⁵³")]
    pub(super) fn over_folds(folds: &[&Self]) -> BTreeMap<Name, Mean> {
        let mut means: BTreeMap<Name, (Mean, usize)> = BTreeMap::new();
        for fold in folds {
            for (&name, &(sum, n)) in &fold.0 {
                let none = Mean { percent: 0.0, n_queries: n, n_all: 0 };
                let (mean, folds) = means.entry(name).or_insert((none, 0));
                mean.percent += 100.0 * sum / n as f64;
                mean.n_all += n;
                *folds += 1;
            }
        }
        means
            .into_iter()
            .map(|(name, (mean, folds))| (name, Mean { percent: mean.percent / folds as f64, ..mean }))
            .collect()
    }
}

/// The mean over folds of what their pools have: of what all have, in the order of the first.
#[expect(clippy::cast_precision_loss, reason = "folds are few")]
pub(super) fn of_pools(folds: &[&[(Name, f64)]]) -> Vec<(Name, f64)> {
    let Some(first) = folds.first() else { return Vec::new() };
    let mean = |&(name, _): &(Name, f64)| {
        let of = |fold: &&[(Name, f64)]| fold.iter().find(|(other, _)| *other == name).map(|(_, value)| *value);
        let values = folds.iter().map(of).collect::<Option<Vec<f64>>>()?;
        let mean = values.iter().sum::<f64>() / folds.len() as f64;
        Some((name, if name.unit == Unit::Share { 100.0 * mean } else { mean }))
    };
    first.iter().filter_map(mean).collect()
}
