//! What a page says, before it is HTML or Markdown.

use super::elements::{Epoch, Example, ResultRow, Step};
use super::graphs::Graph;
use super::hubs::Hubs;
use super::sheet::Sheet;
use super::similarity::Similarity;

/// All that a page shows.
#[derive(Debug, Default)]
pub(super) struct Content {
    pub(super) title: String,
    /// Cut-offs of the results, ascending.
    pub(super) cutoffs: Vec<usize>,
    pub(super) results: Vec<ResultRow>,
    /// Tables beside the results.
    pub(super) sheets: Vec<Sheet>,
    pub(super) history: Vec<Step>,
    pub(super) validation: Vec<Epoch>,
    /// Of the first protocol, image to text and text to image.
    pub(super) rank_curves: [Vec<(f64, f64)>; 2],
    pub(super) examples: [Vec<Example>; 2],
    pub(super) hubs: Option<Hubs>,
    /// Recalls of greedy matchings, for each λ at the cut-offs: image to text, text to image.
    pub(super) relaxations: Vec<(f64, [Vec<f64>; 2])>,
    pub(super) similarity: Option<Similarity>,
    pub(super) graphs: Vec<Graph>,
}

impl Content {
    /// Whether no later row of the results has the same protocol, so that what is said of the pool can follow.
    pub(super) fn is_last_of_pool(&self, row: &ResultRow) -> bool {
        let last = self.results.iter().rev().find(|other| other.protocol == row.protocol);
        last.is_some_and(|last| std::ptr::eq(last, row))
    }

    /// The epoch whose model was kept: the last that was the best so far.
    pub(super) fn best_epoch(&self) -> Option<&Epoch> {
        self.validation.iter().rev().find(|epoch| epoch.best)
    }
}
