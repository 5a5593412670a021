//! Matrix products in the precision of a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use crate::kernels::product::Lanes;

/// What matrix products are computed in. Everything else (weights, gradients, optimiser, normalisation, loss) is f32.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// f32 throughout.
    #[default]
    F32,
    /// Factors rounded to bf16 (8 bits of precision, the range of f32), their products summed in f32
    /// (Kalamkar et al., "A Study of BFLOAT16 for Deep Learning Training", 2019).
    Mixed,
}

impl Precision {
    /// What our own kernels multiply.
    #[must_use]
    pub fn lanes(self) -> Lanes {
        match self {
            Self::F32 => Lanes::F32,
            Self::Mixed => Lanes::Bf16,
        }
    }

    /// A factor, as this precision multiplies it.
    pub fn factor(self, tensor: &Tensor) -> Tensor {
        match self {
            Self::F32 => tensor.shallow_clone(),
            Self::Mixed => tensor.to_kind(Kind::BFloat16),
        }
    }

    /// `a · b`, in the type of `a`.
    pub fn product(self, a: &Tensor, b: &Tensor) -> Tensor {
        match self {
            Self::F32 => a.mm(b),
            Self::Mixed => self.factor(a).mm(&self.factor(b)).to_kind(a.kind()),
        }
    }
}
