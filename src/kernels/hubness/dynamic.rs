//! A correction that is chosen for each query: what methods with an activation set make.

use super::method::Correction;
use super::shift::Shift;
use crate::identity::Fields;

/// The items that the queries of a bank retrieve: whether each is among the first of any of their rankings.
///
/// # Shapes
/// - `lists`: for every query of the bank the first k items, by their scores
/// - result: one for each of `items`
#[must_use]
pub fn activation_set<'l>(lists: impl IntoIterator<Item = &'l [usize]>, items: usize) -> Vec<bool> {
    let mut retrieved = vec![false; items];
    for &item in lists.into_iter().flatten() {
        retrieved[item] = true;
    }
    retrieved
}

/// One of several shifts for each query. Scores of queries with different shifts cannot be compared, and
/// [`Correction::across`] is no more than [`Correction::pair`].
#[derive(Debug, Clone, PartialEq)]
pub struct Dynamic {
    choices: Vec<Shift>,
    of_query: Vec<usize>,
}

impl Dynamic {
    /// # Shapes
    /// - `of_query`: for every query its place in `choices`
    ///
    /// # Panics
    /// A place is outside of `choices`.
    #[must_use]
    pub fn new(choices: Vec<Shift>, of_query: Vec<usize>) -> Self {
        assert!(of_query.iter().all(|&choice| choice < choices.len()), "a choice that is none");
        Self { choices, of_query }
    }

    fn of(&self, query: usize) -> &Shift {
        &self.choices[self.of_query[query]]
    }
}

impl Correction for Dynamic {
    fn pair(&self, query: usize, item: usize, score: f32) -> f64 {
        self.of(query).pair(query, item, score)
    }

    fn row(&self, query: usize, scores: &mut [f32]) {
        self.of(query).row(query, scores);
    }

    fn shift(&self, query: usize) -> Option<&[f64]> {
        self.of(query).shift(query)
    }

    fn identity(&self, fields: &mut Fields<'_>) {
        fields.text("dynamic");
        fields.list(self.choices.len());
        self.choices.iter().for_each(|choice| choice.identity(fields));
        fields.numbers(&self.of_query);
    }
}
