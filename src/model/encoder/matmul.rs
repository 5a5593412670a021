//! Matrix products in f32 or mixed precision.

use tch::{Kind, Tensor};

pub use pairloom_spec::precision::MatmulPrecision;

/// Matrix products in a precision.
pub trait PrecisionProducts {
    /// Converts a factor to the type in which it is multiplied.
    fn cast_factor(self, tensor: &Tensor) -> Tensor;

    /// `a · b`, in the type of `a`. Both have two dimensions, or both three: a batch of products.
    fn matmul(self, a: &Tensor, b: &Tensor) -> Tensor;
}

impl PrecisionProducts for MatmulPrecision {
    fn cast_factor(self, tensor: &Tensor) -> Tensor {
        match self {
            Self::F32 => tensor.shallow_clone(),
            Self::Mixed | Self::MixedByLibtorch => tensor.to_kind(Kind::BFloat16),
        }
    }

    fn matmul(self, a: &Tensor, b: &Tensor) -> Tensor {
        match self {
            Self::F32 => a.matmul(b),
            Self::Mixed | Self::MixedByLibtorch => self.cast_factor(a).matmul(&self.cast_factor(b)).to_kind(a.kind()),
        }
    }
}
