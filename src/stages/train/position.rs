//! Where a training stands, and of which plan.

use serde::{Deserialize, Serialize};

use super::Train;
use super::corpus::Corpus;
use crate::error::{Error, Result};
use crate::kernels::epoch::Order;

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
    #[serde(with = "bits")]
    pub loss: f64,
    /// What that sum would be if all scores were equal.
    #[serde(with = "bits")]
    pub collapsed_loss: f64,
    /// The largest norm of the gradient in the epoch so far.
    #[serde(with = "bits")]
    pub gradient: f64,
    /// Epochs in a row that ended where all scores are equal.
    pub collapsed_epochs: u32,
    /// What the best epoch is chosen by, after the last epoch.
    #[serde(with = "bits::optional")]
    pub score: Option<f64>,
    /// Epochs in a row that ended with a lower score than the one before, and the score before the first of them.
    pub fallen_epochs: u32,
    #[serde(with = "bits")]
    pub risen_to: f64,
    /// The best epoch so far.
    pub best: Option<Best>,
}

/// The epoch that becomes the model.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Best {
    pub epoch: u64,
    pub step: u64,
    #[serde(with = "bits::optional")]
    pub rsum: Option<f64>,
    #[serde(with = "bits::optional")]
    pub score: Option<f64>,
}

/// What tells one plan from another.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct PlanName {
    samples: Vec<usize>,
    shards: Vec<usize>,
    /// Bits of the numbers.
    weights: Vec<u64>,
    order: Order,
    batch: usize,
    seed: u64,
}

impl PlanName {
    pub fn of(stage: &Train, corpus: &Corpus) -> Self {
        let sets = corpus.data.plan_sets();
        Self {
            samples: sets.iter().map(|set| set.shards.iter().sum()).collect(),
            shards: sets.iter().map(|set| set.shards.len()).collect(),
            weights: sets.iter().map(|set| set.weight.to_bits()).collect(),
            order: stage.order,
            batch: stage.batch,
            seed: stage.seed,
        }
    }

    fn describe(&self) -> String {
        let Self { samples, shards, weights, order, batch, seed } = self;
        let weights: Vec<f64> = weights.iter().copied().map(f64::from_bits).collect();
        format!(
            "samples {samples:?} in shards {shards:?}, weights {weights:?}, order {order:?}, batch {batch}, seed {seed}"
        )
    }
}

impl Position {
    /// Before the first step.
    pub fn start(plan: PlanName) -> Self {
        Self {
            plan,
            epoch: 0,
            batches: 0,
            step: 0,
            loss: 0.0,
            collapsed_loss: 0.0,
            gradient: 0.0,
            collapsed_epochs: 0,
            score: None,
            fallen_epochs: 0,
            risen_to: 0.0,
            best: None,
        }
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
        self.gradient = 0.0;
    }
}

/// Numbers of a checkpoint as their bits: a decimal number that is read again may differ in the last one.
mod bits {
    use serde::{Deserialize as _, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives references")]
    pub fn serialize<S: Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(value.to_bits())
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<f64, D::Error> {
        u64::deserialize(from).map(f64::from_bits)
    }

    pub mod optional {
        use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

        #[expect(clippy::ref_option, reason = "serde gives references")]
        pub fn serialize<S: Serializer>(value: &Option<f64>, to: S) -> Result<S::Ok, S::Error> {
            value.map(f64::to_bits).serialize(to)
        }

        pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Option<f64>, D::Error> {
            Ok(Option::<u64>::deserialize(from)?.map(f64::from_bits))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Doubles that a decimal parser that is not exact gives back with another last bit.
    #[test]
    fn a_position_comes_back_to_the_bit() {
        let plan = PlanName {
            samples: vec![80],
            shards: vec![2],
            weights: vec![(0.1f64 + 0.2).to_bits()],
            order: Order::Global,
            batch: 16,
            seed: u64::MAX,
        };
        let mut value = 13.480_392_156_862_745_f64;
        for _ in 0..1000 {
            let mut at = Position::start(plan.clone());
            (at.loss, at.collapsed_loss) = (value, -value);
            at.best = Some(Best { epoch: 1, step: 2, rsum: Some(value), score: Some(-value) });
            let back = Position::from_text(&at.to_text().unwrap(), &plan).unwrap();
            assert_eq!((back.loss.to_bits(), back.collapsed_loss.to_bits()), (value.to_bits(), (-value).to_bits()));
            assert_eq!(back.best.unwrap().rsum.unwrap().to_bits(), value.to_bits());
            value = f64::from_bits(value.to_bits() + 0x0001_2345_6789);
        }
    }
}
