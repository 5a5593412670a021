//! Trait of the loss functions, and the function of each loss.

use tch::Tensor;

use super::memory_bank_weights::MemoryBankScores;
use super::negatives::Negatives;
use pairloom_spec::loss::{Loss, MemoryBankWeights};

/// Loss over the scores of a batch. The fields of an implementing type are its
/// [settings](pairloom_spec::loss::LossSettings).
pub trait LossFunction {
    /// Value on a batch, a scalar tensor. libtorch differentiates it in the scores and in the learned scalars.
    fn value(&self, batch: &LossInput<'_>) -> Tensor;
}

/// Input of a loss: the scores of a batch of matching pairs.
#[derive(Debug, Clone, Copy)]
pub struct LossInput<'b> {
    /// `[n, n]`, image by caption. Matching pairs are on the diagonal.
    pub scores: &'b Tensor,
    /// Mask of the negatives.
    pub negatives: &'b Negatives,
    /// Scores with a memory bank, and the settings of the weights that follow from them.
    pub memory_bank: Option<(&'b MemoryBankWeights, &'b MemoryBankScores)>,
    /// Values of the [learned scalars](pairloom_spec::loss::LossSettings::learned_scalars), each `[1]`, in their order. Empty
    /// for a loss without them.
    pub scalars: &'b [Tensor],
}

impl LossFunction for Loss {
    fn value(&self, batch: &LossInput<'_>) -> Tensor {
        function(self).value(batch)
    }
}

/// Function of a loss.
fn function(loss: &Loss) -> &dyn LossFunction {
    match loss {
        Loss::Sum(loss) => loss,
        Loss::Max(loss) => loss,
        Loss::KnnMargin(loss) => loss,
        Loss::LocalScaling(loss) => loss,
        Loss::Hal(loss) => loss,
        Loss::InfoNce(loss) => loss,
        Loss::Sigmoid(loss) => loss,
    }
}
