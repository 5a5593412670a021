//! Position of a training in its data order, as saved in a checkpoint.

use serde::{Deserialize, Serialize};

use super::training_data::TrainingData;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::epoch::Shuffle;
use pairloom_model::collective::CollectiveGroup;
use pairloom_model::encoder::is_libtorch_faster;
use pairloom_spec::precision::{MatmulPrecision, ProductBackend};
use pairloom_spec::stages::train::Train;

/// Position of a training and its running statistics. Together with the model and its optimiser, this is the state that
/// a resumed training needs. No state of a random generator is saved, as all draws are functions of the seed and the
/// position.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TrainingPosition {
    /// Data order that the position belongs to.
    pub plan: DataOrderIdentity,
    /// Epoch, from 0.
    pub epoch: u64,
    /// Completed batches of the epoch.
    pub batches: usize,
    /// Completed steps, over all epochs.
    pub step: u64,
    /// Sum of the losses in the epoch so far.
    #[serde(with = "bits")]
    pub loss: f64,
    /// The same sum if all scores were equal.
    #[serde(with = "bits")]
    pub collapsed_loss: f64,
    /// Largest gradient norm in the epoch so far.
    #[serde(with = "bits")]
    pub gradient: f64,
    /// Consecutive epochs whose loss was that of equal scores.
    pub collapsed_epochs: u32,
    /// Selection metric after the last epoch.
    #[serde(with = "bits::optional")]
    pub score: Option<f64>,
    /// Consecutive epochs with a lower score than the epoch before.
    pub fallen_epochs: u32,
    /// Score before the first of these epochs.
    #[serde(with = "bits")]
    pub risen_to: f64,
    /// Best epoch so far.
    pub best: Option<BestEpoch>,
    /// True if libtorch multiplies in a GRU in mixed precision. Kept, because the bits depend on it, and a training may
    /// resume on another processor.
    #[serde(default)]
    pub is_by_libtorch: bool,
}

/// Best epoch, whose parameters become the model.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct BestEpoch {
    pub epoch: u64,
    pub step: u64,
    #[serde(with = "bits::optional")]
    pub rsum: Option<f64>,
    #[serde(with = "bits::optional")]
    pub score: Option<f64>,
}

/// Identity of a data order: all values that it is a function of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct DataOrderIdentity {
    samples: Vec<usize>,
    shards: Vec<usize>,
    /// Weights of the data sets, as the bits of f64.
    weights: Vec<u64>,
    order: Shuffle,
    batch: usize,
    seed: u64,
}

impl DataOrderIdentity {
    pub fn new(stage: &Train, data: &TrainingData) -> Self {
        let sets = data.loader_data.order_sets();
        Self {
            samples: sets.iter().map(|set| set.shards.iter().sum()).collect(),
            shards: sets.iter().map(|set| set.shards.len()).collect(),
            weights: sets.iter().map(|set| set.weight.to_bits()).collect(),
            order: stage.shuffle,
            batch: stage.batch_size,
            seed: stage.seed,
        }
    }

    fn description(&self) -> String {
        let Self { samples, shards, weights, order, batch, seed } = self;
        let weights: Vec<f64> = weights.iter().copied().map(f64::from_bits).collect();
        format!(
            "samples {samples:?} in shards {shards:?}, weights {weights:?}, shuffle {order:?}, batch size {batch}, seed {seed}"
        )
    }
}

impl TrainingPosition {
    /// Position before the first step.
    pub fn new(order: DataOrderIdentity) -> Self {
        Self {
            plan: order,
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
            is_by_libtorch: false,
        }
    }

    /// Chooses the library that multiplies in mixed precision on a CPU. All ranks take that of the first.
    ///
    /// # Errors
    /// The other ranks cannot be reached.
    pub fn choose_products(&mut self, stage: &Train, group: &CollectiveGroup) -> Result<()> {
        if stage.precision == MatmulPrecision::Mixed {
            let is_by_libtorch = match stage.product_backend {
                ProductBackend::Auto => is_libtorch_faster(),
                ProductBackend::Pairloom => false,
                ProductBackend::Libtorch => true,
            };
            self.is_by_libtorch = group.all_gather_values(vec![f32::from(u8::from(is_by_libtorch))], 1)?[0] > 0.0;
        }
        Ok(())
    }

    /// Precision of the matrix products for this setting.
    pub fn precision(&self, setting: MatmulPrecision) -> MatmulPrecision {
        match setting {
            MatmulPrecision::Mixed if self.is_by_libtorch => MatmulPrecision::MixedByLibtorch,
            _ => setting,
        }
    }

    /// Mean loss of an epoch that has `batches` batches and ends here.
    pub fn mean_loss(&self, batches: usize) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "an epoch has far fewer than 2⁵³ batches")]
        let mean = self.loss / batches as f64;
        mean
    }

    /// Serialises the position as JSON.
    pub fn to_json(&self) -> Result<String> {
        serde_json::to_string(self).map_err(|error| Error::internal(format!("cannot save: {error}")))
    }

    /// Reads a position of the data order `order` from JSON.
    ///
    /// # Errors
    /// The text is not a position, or the position belongs to another data order.
    pub fn from_json(text: &str, order: &DataOrderIdentity) -> Result<Self> {
        let position: Self = serde_json::from_str(text)
            .map_err(|error| Error::data(format!("the position in a checkpoint is damaged: {error}")))?;
        if position.plan == *order {
            return Ok(position);
        }
        let (got, expected) = (position.plan.description(), order.description());
        Err(Error::data(format!("the checkpoint has another data order: got {got}; expected {expected}"))
            .hint("a position is valid in its own data order only; start this training anew"))
    }

    /// Moves to the first batch of the next epoch.
    pub fn next_epoch(&mut self) {
        self.epoch += 1;
        self.batches = 0;
        self.loss = 0.0;
        self.collapsed_loss = 0.0;
        self.gradient = 0.0;
    }
}

/// Serialisation of f64 as its bits. A decimal representation may be read back with a different last bit.
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

    /// The values are ones for which an inexact decimal parser returns another last bit.
    #[test]
    fn a_position_survives_serialisation_bit_for_bit() {
        let plan = DataOrderIdentity {
            samples: vec![80],
            shards: vec![2],
            weights: vec![(0.1f64 + 0.2).to_bits()],
            order: Shuffle::Global,
            batch: 16,
            seed: u64::MAX,
        };
        let mut value = 13.480_392_156_862_745_f64;
        for _ in 0..1000 {
            let mut position = TrainingPosition::new(plan.clone());
            (position.loss, position.collapsed_loss) = (value, -value);
            position.best = Some(BestEpoch { epoch: 1, step: 2, rsum: Some(value), score: Some(-value) });
            position.is_by_libtorch = true;
            let back = TrainingPosition::from_json(&position.to_json().unwrap(), &plan).unwrap();
            assert_eq!((back.loss.to_bits(), back.collapsed_loss.to_bits()), (value.to_bits(), (-value).to_bits()));
            assert_eq!(back.best.unwrap().rsum.unwrap().to_bits(), value.to_bits());
            assert_eq!(back.precision(MatmulPrecision::Mixed), MatmulPrecision::MixedByLibtorch);
            assert_eq!(back.precision(MatmulPrecision::F32), MatmulPrecision::F32);
            value = f64::from_bits(value.to_bits() + 0x0001_2345_6789);
        }
    }
}
