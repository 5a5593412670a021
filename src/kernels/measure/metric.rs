//! Trait of metrics, the names of their values, and the data that they are computed from.
//!
//! Values of queries are averaged over the queries of a pool. Values of pools are averaged over the folds of a
//! protocol.

/// Name of a value: a measure with its variant and cut-off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricName {
    /// Name of the measure: `recall`, `hub_skewness`.
    pub measure: &'static str,
    /// Variant of the measure: `paper` or `official`, if the published code differs from the paper; `duplicated`, if items
    /// are duplicate rows.
    pub variant: Option<&'static str>,
    /// For a graded relevance, true if the matches of the query are included; false if they are removed from the
    /// ranking and from the pool, "(N)" in the paper.
    pub ground_truth: Option<bool>,
    /// Number of neighbours of the query that are relevant, or number of queries that find an item.
    pub m: Option<usize>,
    /// Cut-off.
    pub k: Option<usize>,
    /// Unit of the values.
    pub unit: MetricUnit,
}

/// Unit of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricUnit {
    /// 1 or 0 for each query; the mean is reported in percent, with the confidence interval of a proportion.
    Proportion,
    /// From 0 to 1; the mean is reported in percent.
    Share,
    /// Any number; the mean is reported unchanged.
    Number,
}

impl MetricName {
    /// Name without variant, cut-off and other details.
    #[must_use]
    pub fn new(measure: &'static str, unit: MetricUnit) -> Self {
        Self { measure, variant: None, ground_truth: None, m: None, k: None, unit }
    }

    /// The same name with a cut-off.
    #[must_use]
    pub fn at_cutoff(self, k: usize) -> Self {
        Self { k: Some(k), ..self }
    }
}

/// Callback that takes a value with its name.
pub type RecordValue<'a> = &'a mut dyn FnMut(MetricName, f64);

/// Ranking of a query, or its set in a matching, with the items that match.
#[derive(Debug, Clone, Copy)]
pub struct RankedMatches<'m> {
    /// For each item of the ranking, best first, true if it matches. Items beyond the end count as non-matching.
    pub hits: &'m [bool],
    /// Number of matching items in the pool.
    pub relevant: usize,
    /// Cut-offs, ascending; for the set of a matching only the cut-off of that matching.
    pub cutoffs: &'m [usize],
    /// True for a ranking of at least as many items as match; false for the set of a matching.
    pub is_ranking: bool,
    /// Rank of the best match in the whole pool, from 0, if it is known.
    pub rank: Option<usize>,
}

/// Ranking of a query with graded relevance φ, with or without the matches of the query.
#[derive(Debug, Clone, Copy)]
pub struct GradedRanking<'g> {
    /// True if the matches of the query are included.
    pub ground_truth: bool,
    /// Cut-offs.
    pub cutoffs: &'g [usize],
    /// φ of the items of the ranking, best first.
    pub ranked_phi: &'g [f32],
    /// Largest φ of the pool, in descending order.
    pub ideal_phi: &'g [f32],
    /// Largest φ of the whole split, in descending order, if the pool is a part of it.
    pub whole_split_phi: Option<&'g [f32]>,
    /// Sets of relevant neighbours: one for each number of neighbours and each variant.
    pub neighbours: &'g [RelevantNeighbours],
}

impl GradedRanking<'_> {
    /// Name of a measure of this ranking.
    #[must_use]
    pub fn name(&self, measure: &'static str, variant: Option<&'static str>) -> MetricName {
        MetricName { variant, ground_truth: Some(self.ground_truth), ..MetricName::new(measure, MetricUnit::Share) }
    }
}

/// Neighbours of a query, which are taken as relevant items.
#[derive(Debug, Clone, PartialEq)]
pub struct RelevantNeighbours {
    /// True for the neighbours of the published code, false for those of the paper.
    pub official: bool,
    /// Number of neighbours: of items (paper) or of images (official).
    pub m: usize,
    /// For each item of the ranking, true if it is a neighbour.
    pub hits: Vec<bool>,
    /// φ of all neighbours.
    pub phi: Vec<f32>,
}

/// k-occurrences of the items of a pool.
#[derive(Debug, Clone, Copy)]
pub struct KOccurrences<'o> {
    /// Nₖ of every item at each cut-off k.
    pub at: &'o [(usize, Vec<usize>)],
    /// N₁ of every item.
    pub one_occurrences: &'o [usize],
    /// Number of queries that each item matches.
    pub matches_per_item: &'o [usize],
    /// Nₖ of every row at each cut-off k, if images have a row for each of their captions; empty if they do not.
    pub duplicated_rows: &'o [(usize, Vec<usize>)],
}

/// Metric. It implements those of the methods below whose data it is computed from; each passes values to a callback.
/// Values of [`MetricUnit::Share`] are from 0 to 1.
pub trait Metric: Sync {
    /// Measures the ranking of a query by its matches.
    fn measure_matches(&self, _matches: &RankedMatches<'_>, _add: RecordValue<'_>) {}

    /// Measures the ranking of a query by graded relevance.
    fn measure_graded(&self, _grades: &GradedRanking<'_>, _add: RecordValue<'_>) {}

    /// Measures the ranks of the best matches of all queries of a pool, from 0; there is at least one.
    fn measure_ranks(&self, _ranks: &[usize], _add: RecordValue<'_>) {}

    /// Measures the k-occurrences of the items of a pool.
    fn measure_occurrences(&self, _occurrences: &KOccurrences<'_>, _add: RecordValue<'_>) {}
}
