//! Data of a page: results, training steps and validation epochs, and the formatting of numbers.

use super::table::ColumnGroup;
use pairloom_kernels::measure::chance::expected_by_chance;
use pairloom_kernels::measure::recall::{RecallSummary, rsum};

/// Results, with recalls at `cutoffs`, ascending.
#[derive(Debug, Default)]
pub(super) struct SummaryResults {
    pub(super) cutoffs: Vec<usize>,
    pub(super) rows: Vec<ResultRow>,
}

/// Row of the table of results.
#[derive(Debug, Clone)]
pub(super) struct ResultRow {
    pub(super) protocol: String,
    pub(super) method: String,
    pub(super) transductive: bool,
    pub(super) n_images: usize,
    pub(super) n_captions: usize,
    /// Image to text, text to image.
    pub(super) directions: [RecallSummary; 2],
    pub(super) rsum: f64,
    pub(super) hs_sum: f64,
    /// The same over rows, an image counted once for each of its captions, as papers do; where it was read.
    pub(super) hs_sum_of_rows: Option<f64>,
    /// Items that are the nearest neighbour of no caption, of one, and of at least m, in percent of the rows, by m; where they
    /// were read.
    pub(super) occurrence_rates: Vec<(i64, f64)>,
    /// 95 % confidence intervals of the recalls of each direction, where known.
    pub(super) intervals: [Vec<Option<(f64, f64)>>; 2],
    /// NCS, where it was read.
    pub(super) ncs: Option<NcsSummary>,
}

/// NCS of a graded relevance, in percent, as the published code computes it. NaN where there is none.
#[derive(Debug, Clone)]
pub(super) struct NcsSummary {
    /// NCS at each cut-off, image to text and text to image.
    pub(super) at: [Vec<f64>; 2],
    /// Sum of these.
    pub(super) sum: f64,
    /// The same sum without the query's own matches.
    pub(super) sum_non_gt: f64,
}

impl ResultRow {
    /// Expected results of a random order of the same pool, with captions spread evenly over images. Without a sum of
    /// skewness.
    pub(super) fn chance(&self, cutoffs: &[usize]) -> Option<Self> {
        if self.n_images == 0 {
            return None;
        }
        let captions_each = (self.n_captions + self.n_images / 2) / self.n_images;
        let directions = [
            expected_by_chance(self.n_captions, captions_each, cutoffs)?,
            expected_by_chance(self.n_images, 1, cutoffs)?,
        ];
        Some(Self {
            protocol: "chance".to_owned(),
            method: String::new(),
            transductive: false,
            rsum: rsum(&directions[0], &directions[1]),
            directions,
            hs_sum: f64::NAN,
            hs_sum_of_rows: None,
            occurrence_rates: Vec::new(),
            intervals: Default::default(),
            ncs: None,
            ..*self
        })
    }
}

/// Training step.
#[derive(Debug, Clone)]
pub(super) struct TrainingStep {
    pub(super) number: f64,
    /// Number of pairs in the batch.
    pub(super) pairs: usize,
    pub(super) loss: f64,
    pub(super) gradient_norm: f64,
    pub(super) learning_rate: f64,
    /// Loss of equal scores, where known.
    pub(super) collapsed_loss: Option<f64>,
}

/// Validation after an epoch.
#[derive(Debug, Clone)]
pub(super) struct ValidationEpoch {
    pub(super) number: i64,
    pub(super) loss: f64,
    pub(super) rsum: f64,
    /// Recalls at 1, 5, 10: image to text, text to image.
    pub(super) recalls: [[f64; 3]; 2],
    pub(super) best: bool,
}

/// Returns the epoch whose model was kept: the last one that was the best so far.
pub(super) fn best_epoch(epochs: &[ValidationEpoch]) -> Option<&ValidationEpoch> {
    epochs.iter().rev().find(|epoch| epoch.best)
}

/// Column groups of the two directions.
pub(super) const DIRECTIONS: [ColumnGroup; 2] =
    [ColumnGroup { name: "image → text", short: "i→t" }, ColumnGroup { name: "text → image", short: "t→i" }];

/// Formats a recall or rank with one decimal, as papers do; NaN as a dash.
pub(super) fn one_decimal(value: f64) -> String {
    if value.is_nan() { "–".to_owned() } else { format!("{value:.1}") }
}
