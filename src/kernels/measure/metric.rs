//! Metric: a measure of retrieval, and the data that it is computed from.
//!
//! Values of queries become their mean over the queries of a pool, and values of pools, folds of a protocol, their mean over
//! the folds.

/// Name of a measured number: all that tells it from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// `recall`, `hub_skewness`.
    pub measure: &'static str,
    /// Which form of it: `paper` or `official`, where the published code differs from the paper.
    pub variant: Option<&'static str>,
    /// True if the query's own matches count, for a graded relevance; false where they are deleted from the ranking and from
    /// the pool, "(N)".
    pub ground_truth: Option<bool>,
    /// Neighbours of the query that are relevant, or queries that find an item.
    pub m: Option<usize>,
    /// Cut-off.
    pub k: Option<usize>,
    /// Unit of the values.
    pub unit: Unit,
}

/// Unit of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unit {
    /// Yes or no of each query, as 1 and 0; told in percent, with the interval of a proportion.
    Proportion,
    /// From 0 to 1; told in percent.
    Share,
    /// Told as it is.
    Number,
}

impl Name {
    /// A measure that needs no more to be named.
    #[must_use]
    pub fn new(measure: &'static str, unit: Unit) -> Self {
        Self { measure, variant: None, ground_truth: None, m: None, k: None, unit }
    }

    /// The same at a cut-off.
    #[must_use]
    pub fn at(self, k: usize) -> Self {
        Self { k: Some(k), ..self }
    }
}

/// Takes a value.
pub type Add<'a> = &'a mut dyn FnMut(Name, f64);

/// Items that a query found, and which of them match.
#[derive(Debug, Clone, Copy)]
pub struct Matches<'m> {
    /// For each item of a ranking, best first, true if it matches. Items that are not there do not match.
    pub hits: &'m [bool],
    /// Items that match, found or not.
    pub relevant: usize,
    /// Cut-offs, ascending; of the set of a matching that for which it was made.
    pub cutoffs: &'m [usize],
    /// True for a ranking that is at least as long as the number of matches; false for the set of a matching.
    pub ranking: bool,
    /// Place of the best match in the whole pool, from 0, where it is known.
    pub rank: Option<usize>,
}

/// A ranking against a graded relevance, with the query's own matches or without.
#[derive(Debug, Clone, Copy)]
pub struct Grades<'g> {
    /// True if the own matches count.
    pub ground_truth: bool,
    /// Cut-offs.
    pub cutoffs: &'g [usize],
    /// φ of the items of the ranking, best first.
    pub found: &'g [f32],
    /// The largest φ of the pool, largest first.
    pub ideal: &'g [f32],
    /// The same of a wider pool, if there is one.
    pub whole: Option<&'g [f32]>,
    /// Neighbours that are relevant, each number and each form on its own.
    pub neighbours: &'g [Neighbours],
}

impl Grades<'_> {
    /// The name of a measure of it.
    #[must_use]
    pub fn name(&self, measure: &'static str, variant: Option<&'static str>) -> Name {
        Name { variant, ground_truth: Some(self.ground_truth), ..Name::new(measure, Unit::Share) }
    }
}

/// Neighbours of a query: relevant items.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbours {
    /// True for the neighbours of the published code, false for those of the paper.
    pub official: bool,
    /// How many: items (paper), images (official).
    pub m: usize,
    /// For each item of the ranking, true if it is one.
    pub hits: Vec<bool>,
    /// φ of all of them.
    pub phi: Vec<f32>,
}

/// How often the items of a pool are found.
#[derive(Debug, Clone, Copy)]
pub struct Occurrences<'o> {
    /// Nₖ of every item at each cut-off k.
    pub at: &'o [(usize, Vec<usize>)],
    /// N₁ of every item.
    pub nearest: &'o [usize],
    /// Queries that each item matches.
    pub own: &'o [usize],
}

/// A metric: each form that it can be measured in, of those below. Values are from 0 to 1 where their unit is a share.
pub trait Metric: Sync {
    /// Measures what a query found of its matches.
    fn of_matches(&self, _matches: &Matches<'_>, _add: Add<'_>) {}

    /// Measures what a query found, by a graded relevance.
    fn of_grades(&self, _grades: &Grades<'_>, _add: Add<'_>) {}

    /// Measures the ranks of the best matches of all queries of a pool, from 0; there are some.
    fn of_ranks(&self, _ranks: &[usize], _add: Add<'_>) {}

    /// Measures how often the items of a pool are found.
    fn of_occurrences(&self, _occurrences: &Occurrences<'_>, _add: Add<'_>) {}
}
