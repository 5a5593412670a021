//! Settings of SCAN in pipeline files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Capabilities, FamilySettings, ScoreRange, WORD_VECTORS};
use crate::input_spec::ImageInput;
use crate::setting_problems::check_widths;
use pairloom_stage::Problem;

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
    /// Inverse temperature λ₁ of the softmax. If not set, that of the paper: 9 for `t2i` and 4 for `i2t`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lambda_softmax: Option<f64>,
    /// Aggregation of the relevances of all words (`t2i`) or regions (`i2t`) into the score.
    pub aggregation: RelevanceAggregation,
    /// Inverse temperature λ₂ of `log_sum_exp`, and of no other aggregation. If not set, 6 for `t2i` and 5 for `i2t`. The paper has these, and 20 for
    /// `i2t` on COCO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lambda_lse: Option<f64>,
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
            lambda_softmax: None,
            aggregation: RelevanceAggregation::default(),
            lambda_lse: None,
        }
    }
}

impl ScanSettings {
    /// Inverse temperature λ₁ of the softmax.
    #[must_use]
    pub fn softmax_scale(&self) -> f64 {
        self.lambda_softmax.unwrap_or(match self.cross_attention {
            AttentionDirection::T2i => 9.0,
            AttentionDirection::I2t => 4.0,
        })
    }

    /// Inverse temperature λ₂ of the aggregation.
    #[must_use]
    pub fn aggregation_scale(&self) -> f64 {
        self.lambda_lse.unwrap_or(match self.cross_attention {
            AttentionDirection::T2i => 6.0,
            AttentionDirection::I2t => 5.0,
        })
    }
}

impl FamilySettings for ScanSettings {
    type Published = PublishedScanSettings;

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            image_input: ImageInput::Regions,
            mixed_precision: true,
            word_attention: true,
            score_range: match self.aggregation {
                RelevanceAggregation::Mean | RelevanceAggregation::Max => ScoreRange::UpToOne,
                RelevanceAggregation::LogSumExp => ScoreRange::AboveOne,
                RelevanceAggregation::Sum => ScoreRange::Sums,
            },
            word_vectors_parameter: Some(WORD_VECTORS),
            ..Capabilities::default()
        }
    }

    fn problems(&self) -> Vec<Problem> {
        let widths = check_widths(&[("embed_size", self.embed_size), ("word_dim", self.word_dim)]);
        let lambdas = [("lambda_softmax", self.softmax_scale()), ("lambda_lse", self.aggregation_scale())];
        let lambdas = lambdas.into_iter().filter(|(_, lambda)| !(lambda.is_finite() && *lambda > 0.0));
        let lambdas = lambdas.map(|(setting, got)| Problem::new(setting, format!("got {got}, expected more than 0")));
        let is_used = self.aggregation == RelevanceAggregation::LogSumExp;
        let unused = self
            .lambda_lse
            .filter(|_| !is_used)
            .map(|got| Problem::new("lambda_lse", format!("got {got}, which no aggregation but `log_sum_exp` uses")));
        widths.into_iter().chain(lambdas).chain(unused).collect()
    }
}

/// Direction of cross attention.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionDirection {
    /// Text to image: each word attends to the regions.
    #[default]
    T2i,
    /// Image to text: each region attends to the words.
    I2t,
}

/// Settings that a published checkpoint of SCAN does not contain. The defaults are those of its code.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "PublishedScan")]
pub struct PublishedScanSettings {
    /// True if the GRU of captions reads in both directions (`--bi_gru`, as in all published commands). With one direction
    /// the tensors are those of VSE++.
    pub bidirectional: bool,
    /// Direction of the attention (`--cross_attn`).
    pub cross_attention: AttentionDirection,
    /// Function of the cosines of regions and words before they are normalised.
    pub activation: AttentionActivation,
    /// Inverse temperature λ₁ of the softmax (`--lambda_softmax`). If not set, 9 for `t2i` and 4 for `i2t`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lambda_softmax: Option<f64>,
    /// Aggregation of relevances (`--agg_func`).
    pub aggregation: RelevanceAggregation,
    /// Inverse temperature λ₂ of `log_sum_exp` (`--lambda_lse`). If not set, 6 for `t2i` and 5 for `i2t`; 20 for `i2t` on
    /// COCO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lambda_lse: Option<f64>,
}

impl Default for PublishedScanSettings {
    fn default() -> Self {
        Self {
            bidirectional: true,
            cross_attention: AttentionDirection::T2i,
            activation: AttentionActivation::LeakyRelu,
            lambda_softmax: None,
            aggregation: RelevanceAggregation::LogSumExp,
            lambda_lse: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverse_temperatures_are_those_of_the_direction_unless_they_are_set() {
        let scales = |text: &str| {
            let settings: ScanSettings = toml::from_str(text).expect("settings");
            [settings.softmax_scale(), settings.aggregation_scale()]
        };
        assert_eq!(scales(""), [9.0, 6.0]);
        assert_eq!(scales("cross_attention = \"i2t\""), [4.0, 5.0]);
        assert_eq!(scales("cross_attention = \"i2t\"\nlambda_softmax = 9.0\nlambda_lse = 20.0"), [9.0, 20.0]);
    }

    #[test]
    fn a_setting_of_another_aggregation_is_a_problem() {
        let problems = |text: &str| -> Vec<Problem> {
            let settings: ScanSettings = toml::from_str(text).expect("settings");
            settings.problems()
        };
        assert_eq!(problems("lambda_lse = 6.0\naggregation = \"log_sum_exp\""), []);
        for aggregation in ["mean", "max", "sum"] {
            assert_eq!(
                problems(&format!("lambda_lse = 6.0\naggregation = \"{aggregation}\"")),
                [Problem::new("lambda_lse", "got 6, which no aggregation but `log_sum_exp` uses")]
            );
        }
        let negative = problems("lambda_lse = -1.0\naggregation = \"log_sum_exp\"");
        assert_eq!(negative, [Problem::new("lambda_lse", "got -1, expected more than 0")]);
    }
}
