//! Matrix products in f32 or mixed precision.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::kernels::product::ElementType;

/// Precision of matrix products. Everything else (weights, gradients, optimiser, normalisation, loss) is f32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MatmulPrecision {
    /// f32 throughout.
    #[default]
    F32,
    /// Factors rounded to bf16 (8 bits of precision, the range of f32), their products summed in f32
    /// (Kalamkar et al., "A Study of BFLOAT16 for Deep Learning Training", 2019).
    Mixed,
    /// As [`Self::Mixed`], with libtorch's products in a GRU too. No setting:
    /// [`is_libtorch_faster`](super::is_libtorch_faster) chooses.
    #[serde(skip)]
    MixedByLibtorch,
}

impl MatmulPrecision {
    /// Element type of this project's kernels.
    #[must_use]
    pub fn element_type(self) -> ElementType {
        match self {
            Self::F32 => ElementType::F32,
            Self::Mixed | Self::MixedByLibtorch => ElementType::Bf16,
        }
    }

    /// Converts a factor to the type in which it is multiplied.
    pub fn cast_factor(self, tensor: &Tensor) -> Tensor {
        match self {
            Self::F32 => tensor.shallow_clone(),
            Self::Mixed | Self::MixedByLibtorch => tensor.to_kind(Kind::BFloat16),
        }
    }

    /// `a · b`, in the type of `a`. Both have two dimensions, or both three: a batch of products.
    pub fn matmul(self, a: &Tensor, b: &Tensor) -> Tensor {
        match self {
            Self::F32 => a.matmul(b),
            Self::Mixed | Self::MixedByLibtorch => self.cast_factor(a).matmul(&self.cast_factor(b)).to_kind(a.kind()),
        }
    }
}
