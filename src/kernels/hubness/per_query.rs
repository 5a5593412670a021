//! Correction that is chosen for each query, for methods with an activation set.

use super::method::Correction;
use super::shift::ShiftCorrection;
use crate::identity::IdentityWriter;

/// Activation set: the items that any query of a bank retrieves among its first k.
///
/// # Shapes
/// - `lists`: for every query of the bank the first k items by its scores
/// - result: for each of `items`, true if it is in the set
#[must_use]
pub fn activation_set<'l>(lists: impl IntoIterator<Item = &'l [usize]>, items: usize) -> Vec<bool> {
    let mut retrieved = vec![false; items];
    for &item in lists.into_iter().flatten() {
        retrieved[item] = true;
    }
    retrieved
}

/// Correction of each query by one of several shift corrections. Scores of queries with different corrections are not
/// comparable, so [`Correction::comparable_score`] equals [`Correction::corrected_score`].
#[derive(Debug, Clone, PartialEq)]
pub struct PerQueryCorrection {
    choices: Vec<ShiftCorrection>,
    of_query: Vec<usize>,
}

impl PerQueryCorrection {
    /// Correction of query `q` by `choices[of_query[q]]`.
    ///
    /// # Panics
    /// An index of `of_query` is out of bounds.
    #[must_use]
    pub fn new(choices: Vec<ShiftCorrection>, of_query: Vec<usize>) -> Self {
        assert!(of_query.iter().all(|&choice| choice < choices.len()), "a query's correction is out of bounds");
        Self { choices, of_query }
    }

    fn of(&self, query: usize) -> &ShiftCorrection {
        &self.choices[self.of_query[query]]
    }
}

impl Correction for PerQueryCorrection {
    fn corrected_score(&self, query: usize, item: usize, score: f32) -> f64 {
        self.of(query).corrected_score(query, item, score)
    }

    fn correct_row(&self, query: usize, scores: &mut [f32]) {
        self.of(query).correct_row(query, scores);
    }

    fn row_shifts(&self, query: usize) -> Option<&[f64]> {
        self.of(query).row_shifts(query)
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("dynamic");
        fields.write_list_length(self.choices.len());
        self.choices.iter().for_each(|choice| choice.identity(fields));
        fields.write_usizes(&self.of_query);
    }
}
