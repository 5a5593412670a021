//! Where a training stands, and of which plan.

use serde::{Deserialize, Serialize};

use super::Train;
use super::corpus::Corpus;
use crate::error::{Error, Result};

/// Where a training stands; with the model and its optimiser, all that a resumed training needs. Nothing random is kept: all
/// that is drawn is a function of the seed and the position.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Position {
    /// The plan that the position is one of.
    pub plan: PlanName,
    /// Epoch, from 0.
    pub epoch: u64,
    /// Batches of the epoch that are done.
    pub batches: usize,
    /// Steps done, over all epochs.
    pub step: u64,
    /// Sum of the losses of the epoch so far.
    pub loss: f64,
    /// What that sum would be if all scores were equal.
    pub collapsed_loss: f64,
    /// Epochs in a row that ended where all scores are equal.
    pub collapsed_epochs: u32,
    /// The best epoch so far.
    pub best: Option<Best>,
}

/// The epoch that becomes the model.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Best {
    pub epoch: u64,
    pub step: u64,
    pub rsum: Option<f64>,
}

/// What tells one plan from another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PlanName {
    samples: Vec<usize>,
    shards: Vec<usize>,
    weights: Vec<f64>,
    order: String,
    batch: usize,
    seed: u64,
}

impl PlanName {
    pub fn of(stage: &Train, corpus: &Corpus) -> Self {
        let sets = corpus.data.plan_sets();
        Self {
            samples: sets.iter().map(|set| set.shards.iter().sum()).collect(),
            shards: sets.iter().map(|set| set.shards.len()).collect(),
            weights: sets.iter().map(|set| set.weight).collect(),
            order: format!("{:?}", stage.order).to_lowercase(),
            batch: stage.batch,
            seed: stage.seed,
        }
    }

    fn describe(&self) -> String {
        let Self { samples, shards, weights, order, batch, seed } = self;
        format!(
            "samples {samples:?} in shards {shards:?}, weights {weights:?}, order {order}, batch {batch}, seed {seed}"
        )
    }
}

impl Position {
    /// Before the first step.
    pub fn start(plan: PlanName) -> Self {
        Self { plan, epoch: 0, batches: 0, step: 0, loss: 0.0, collapsed_loss: 0.0, collapsed_epochs: 0, best: None }
    }

    /// A position as text.
    pub fn to_text(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| Error::internal(format!("cannot save: {error}")))
    }

    /// A position of `plan` from its text.
    ///
    /// # Errors
    /// It is no position, or one of another plan.
    pub fn from_text(text: &str, plan: &PlanName) -> Result<Self> {
        let at: Self = serde_json::from_str(text)
            .map_err(|error| Error::data(format!("a checkpoint with a damaged position: {error}")))?;
        if at.plan == *plan {
            return Ok(at);
        }
        let (got, wanted) = (at.plan.describe(), plan.describe());
        Err(Error::data(format!("a checkpoint of another plan: it has {got}; wanted {wanted}"))
            .hint("a position means something in its own plan only: start this training anew"))
    }

    /// The first batch of the next epoch.
    pub fn next_epoch(&mut self) {
        self.epoch += 1;
        self.batches = 0;
        self.loss = 0.0;
        self.collapsed_loss = 0.0;
    }
}
