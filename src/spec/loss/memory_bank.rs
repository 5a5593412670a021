//! Weights of HAL from a memory bank, which estimate the density around a pair from a sample of the training set (Liu,
//! Ye, Wang, Li, "HAL: Improved Text-Image Matching by Mitigating Visual Semantic Hubs", AAAI 2020, equation 6).
//!
//! Negatives have Wᵢⱼ = N/(N + e^{β(Sᵢᵢ−ε₁)} + e^{β(Sⱼⱼ−ε₁)}) with N = Σ_{K₁(i)} e^{β(s−ε₂)} + Σ_{K₂(j)} e^{β(s−ε₂)},
//! matching pairs Wᵢᵢ = 1 − q/(q + Σ_{K₁(i)} e^{α(s−ε₂)} + Σ_{K₂(i)} e^{α(s−ε₂)}) with q = e^{α(Sᵢᵢ−ε₁)}.
//!
//! K₁(i) contains the `neighbours` captions of the memory bank with the highest scores for image i, K₂(j) the images
//! with the highest scores for caption j (the paper prints the set of texts for both). If there are fewer, all count;
//! if there is none, the weight is 0.
//!
//! Published code ([`FormulaVariant::Official`](super::FormulaVariant::Official)) differs in four ways:
//! - In Wᵢⱼ the margin of neighbours is not multiplied by the temperature: e^{βs−ε₂}.
//! - Wᵢⱼ has no ε₁: e^{βSᵢᵢ}. Together with the previous change, the odds of neighbours against the matching pairs are
//!   e^{−ε₂} = 0.90 times those of the scores alone; in the paper they are e^{β(ε₁−ε₂)} = 54.6 times those.
//! - Wᵢᵢ has ε₁ in place of ε₂, so the margins cancel.
//! - There are at most as many neighbours as the batch has pairs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Settings of the weights that a memory bank gives to the pairs of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct MemoryBankWeights {
    /// Number k of nearest samples of the memory bank that count for an image or a caption. The paper does not state
    /// it; the published code uses 250.
    pub neighbours: usize,
    /// Temperature α of the weights of matching pairs.
    pub alpha: f64,
    /// Temperature β of the weights of negatives.
    pub beta: f64,
    /// Margin ε₁ of matching pairs.
    pub epsilon_positive: f64,
    /// Margin ε₂ of neighbours.
    pub epsilon_negative: f64,
}

impl Default for MemoryBankWeights {
    /// Defaults for both variants, paper and published code.
    fn default() -> Self {
        Self { neighbours: 250, alpha: 40.0, beta: 40.0, epsilon_positive: 0.2, epsilon_negative: 0.1 }
    }
}

/// Samples of the memory bank that a pair of a batch is not compared with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MemoryBankMask {
    /// Its own caption only, as in equation 6 of the paper. Other captions of its image are compared with it and count as
    /// hubs around it, as other captions of the batch with the same image are negatives.
    #[default]
    OwnCaption,
    /// Samples of its image, with any caption: no other description of an image counts as a hub around it. In no paper.
    OwnImage,
    /// All captions of the batch, as in the published code.
    BatchCaptions,
    /// None: a pair is compared with all samples.
    Nothing,
}
