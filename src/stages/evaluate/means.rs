//! Means of measures over queries, and over folds.

use std::collections::BTreeMap;

use crate::kernels::measure::graded::Measure;
use crate::kernels::measure::sets::{average_precision_at_r, r_precision, set_recall};

/// What a mean is the mean of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub(super) measure: &'static str,
    pub(super) variant: Option<&'static str>,
    pub(super) ground_truth: Option<bool>,
    pub(super) m: Option<usize>,
    pub(super) k: Option<usize>,
}

impl Name {
    /// A measure that needs no more to be named.
    pub(super) fn new(measure: &'static str, k: Option<usize>) -> Self {
        Self { measure, variant: None, ground_truth: None, m: None, k }
    }
}

impl From<Measure> for Name {
    fn from(measure: Measure) -> Self {
        let Measure { name, variant, ground_truth, m, k } = measure;
        Self { measure: name, variant, ground_truth: Some(ground_truth), m, k }
    }
}

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

    /// Adds what `hits` says of the ranking of a query that has `relevant` items; nothing when it has none.
    pub(super) fn add_hits(&mut self, hits: &[bool], relevant: usize, cutoffs: &[usize]) {
        for &k in cutoffs {
            if let Some(share) = set_recall(hits, relevant, k) {
                self.add(Name::new("recall", Some(k)), if share > 0.0 { 1.0 } else { 0.0 });
                self.add(Name::new("set_recall", Some(k)), share);
            }
        }
        if let Some(precision) = average_precision_at_r(hits, relevant) {
            self.add(Name::new("map_at_r", None), precision);
        }
        if let Some(precision) = r_precision(hits, relevant) {
            self.add(Name::new("r_precision", None), precision);
        }
    }

    /// Adds what `hits` says of the set of a query that has `relevant` items, made for the cut-off `k`.
    pub(super) fn add_set(&mut self, hits: &[bool], relevant: usize, k: usize) {
        if let Some(share) = set_recall(hits, relevant, k) {
            self.add(Name::new("recall", Some(k)), if share > 0.0 { 1.0 } else { 0.0 });
            self.add(Name::new("set_recall", Some(k)), share);
        }
    }

    /// Whether no query had anything to measure.
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
