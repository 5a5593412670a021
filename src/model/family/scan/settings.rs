//! Settings of SCAN in pipeline files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::family::attention::AttentionDirection;
use crate::model::setting_problems::{SettingProblems, zero_widths};

/// Settings of SCAN. The defaults are the text-to-image form with the mean over words, as in its paper.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Scan")]
pub struct ScanSettings {
    /// Width of the joint space: regions, words, and the states of the GRU.
    pub embed_size: usize,
    /// Width of the word vectors.
    pub word_dim: usize,
    /// True for a GRU in both directions, whose states are averaged word by word.
    pub bidirectional: bool,
    /// Direction of the attention.
    pub cross_attention: AttentionDirection,
    /// Function of the cosines of regions and words before they are normalised.
    pub activation: AttentionActivation,
    /// Inverse temperature λ₁ of the softmax. The paper has 9 for `t2i` and 4 for `i2t`.
    pub lambda_softmax: f64,
    /// Aggregation of the relevances of all words (`t2i`) or regions (`i2t`) into the score.
    pub aggregation: RelevanceAggregation,
    /// Inverse temperature λ₂ of `log_sum_exp`. The paper has 6 for `t2i`; for `i2t` 5 on Flickr30k and 20 on COCO.
    pub lambda_lse: f64,
}

/// Function of the cosines of regions and words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionActivation {
    /// max(0, x), as in the paper.
    #[default]
    Relu,
    /// x where it is positive, and 0.1 · x elsewhere, as in the published code.
    LeakyRelu,
}

/// Aggregation of relevances.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RelevanceAggregation {
    /// Mean (AVG).
    #[default]
    Mean,
    /// (1/λ₂) · ln Σ exp(λ₂ · r) (LSE).
    LogSumExp,
    /// Maximum.
    Max,
    /// Sum.
    Sum,
}

impl Default for ScanSettings {
    fn default() -> Self {
        Self {
            embed_size: 1024,
            word_dim: 300,
            bidirectional: true,
            cross_attention: AttentionDirection::default(),
            activation: AttentionActivation::default(),
            lambda_softmax: 9.0,
            aggregation: RelevanceAggregation::default(),
            lambda_lse: 6.0,
        }
    }
}

impl ScanSettings {
    /// Checks the settings.
    pub(super) fn check(&self) -> SettingProblems {
        let widths = zero_widths(&[("embed_size", self.embed_size), ("word_dim", self.word_dim)]);
        let lambdas = [("lambda_softmax", self.lambda_softmax), ("lambda_lse", self.lambda_lse)];
        let lambdas = lambdas.into_iter().filter(|(_, lambda)| !(lambda.is_finite() && *lambda > 0.0));
        let lambdas = lambdas.map(|(setting, got)| (setting.to_owned(), format!("got {got}, wanted more than 0")));
        widths.into_iter().chain(lambdas).collect()
    }
}
