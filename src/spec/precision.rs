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
    /// As [`Self::Mixed`], with libtorch's products in a GRU too. No setting: [`ProductBackend`] chooses.
    #[serde(skip)]
    MixedByLibtorch,
}

/// Library of the matrix products in mixed precision on a CPU. The last bits of a model depend on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProductBackend {
    /// `libtorch` on processors with AMX, `pairloom` on others. A resumed training keeps the one that it began with.
    #[default]
    Auto,
    /// Kernels of Pairloom, on processors with the bf16 products of AVX-512; libtorch on others.
    Pairloom,
    /// libtorch.
    Libtorch,
}

impl ProductBackend {
    /// True for the default.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes the field")]
    pub(crate) fn is_auto(&self) -> bool {
        *self == Self::Auto
    }
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
