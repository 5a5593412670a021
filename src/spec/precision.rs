//! Precision of matrix products.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pairloom_kernels::product::ElementType;

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
    /// `is_libtorch_faster` of the encoder chooses.
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
}
