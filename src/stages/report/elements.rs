//! Elements of a page: results, steps and epochs of a training, and how numbers are written.

use super::table::Group;
use crate::kernels::measure::chance::chance;
use crate::kernels::measure::recall::{Retrieval, rsum};

/// The results, whose recalls are at these cut-offs, ascending.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) cutoffs: Vec<usize>,
    pub(super) rows: Vec<ResultRow>,
}

/// A row of the table of results.
#[derive(Debug, Clone)]
pub(super) struct ResultRow {
    pub(super) protocol: String,
    pub(super) method: String,
    pub(super) transductive: bool,
    pub(super) n_images: usize,
    pub(super) n_captions: usize,
    /// Image to text, text to image.
    pub(super) directions: [Retrieval; 2],
    pub(super) rsum: f64,
    pub(super) hs_sum: f64,
    /// 95 % intervals of the recalls of each direction, where they are known.
    pub(super) intervals: [Vec<Option<(f64, f64)>>; 2],
}

impl ResultRow {
    /// The row of a random order of the same pool, without a sum of skewness; captions spread evenly over images.
    pub(super) fn chance(&self, cutoffs: &[usize]) -> Option<Self> {
        if self.n_images == 0 {
            return None;
        }
        let captions_each = (self.n_captions + self.n_images / 2) / self.n_images;
        let directions = [chance(self.n_captions, captions_each, cutoffs)?, chance(self.n_images, 1, cutoffs)?];
        Some(Self {
            protocol: "chance".to_owned(),
            method: String::new(),
            transductive: false,
            rsum: rsum(&directions[0], &directions[1]),
            directions,
            hs_sum: f64::NAN,
            intervals: Default::default(),
            ..*self
        })
    }
}

/// An optimiser step.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) number: f64,
    pub(super) loss: f64,
    pub(super) gradient_norm: f64,
    pub(super) learning_rate: f64,
    /// The loss if all scores were equal, where it is known.
    pub(super) collapsed_loss: Option<f64>,
}

/// Validation after one epoch.
#[derive(Debug, Clone)]
pub(super) struct Epoch {
    pub(super) number: i64,
    pub(super) loss: f64,
    pub(super) rsum: f64,
    /// Recalls at 1, 5, 10: image to text, text to image.
    pub(super) recalls: [[f64; 3]; 2],
    pub(super) best: bool,
}

/// The epoch whose model was kept: the last that was the best so far.
pub(super) fn kept(epochs: &[Epoch]) -> Option<&Epoch> {
    epochs.iter().rev().find(|epoch| epoch.best)
}

/// Names of the two directions.
pub(super) const DIRECTIONS: [Group; 2] =
    [Group { name: "image → text", short: "i→t" }, Group { name: "text → image", short: "t→i" }];

/// Recalls and ranks as the papers print them; a dash for what is no number.
pub(super) fn tenth(value: f64) -> String {
    if value.is_nan() { "–".to_owned() } else { format!("{value:.1}") }
}
