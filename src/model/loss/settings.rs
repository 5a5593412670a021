//! The settings of an objective.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Names of settings, and what is wrong with each.
pub type Problems = Vec<(String, String)>;

/// What a training minimises.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Loss {
    /// Every negative of the batch counts (UVS, "SUM"). The sum over the batch.
    Sum {
        /// Margin α.
        #[serde(default = "margin")]
        margin: f64,
    },
    /// The hardest negative of the batch counts (VSE++, "MAX"). The sum over the batch.
    Max {
        /// Margin α.
        #[serde(default = "margin")]
        margin: f64,
    },
    /// The k hardest negatives of the batch count (Liu, Ye, 2019). The sum over the batch.
    KnnMargin {
        /// Margin α.
        #[serde(default = "margin")]
        margin: f64,
        /// Negatives of each image and caption that count. The paper tries 3, 5 and 10.
        #[serde(default = "k")]
        k: usize,
    },
    /// Scores grow with the density around image and caption in the batch, and SUM or MAX sees them (the first version of HAL,
    /// Liu, Ye, 2019). The sum over the batch.
    LocalScaling {
        /// Margin α.
        #[serde(default = "margin")]
        margin: f64,
        /// Neighbours whose mean score is the density.
        #[serde(default = "k")]
        k: usize,
        /// The objective that sees the scaled scores.
        #[serde(default)]
        over: Over,
        /// Whether the gradient flows through the density.
        #[serde(default)]
        exponent: Exponent,
    },
    /// Every negative counts by its share among all (HAL: Liu et al., AAAI 2020), and with a memory bank by the density around
    /// it. The mean over the batch: learning rates of the other objectives do not carry over.
    Hal {
        /// Temperature γ. The paper has 30 for MS-COCO and 60 for Flickr30k.
        #[serde(default = "gamma")]
        gamma: f64,
        /// Margin ε. The paper has 0.3 for MS-COCO and 0.7 for Flickr30k.
        #[serde(default = "epsilon")]
        epsilon: f64,
        /// The paper's formulas, or what the published code computes: matching pairs among their own negatives, no pull where a
        /// score is below 0, and with a bank other margins and no more neighbours than the batch has pairs.
        #[serde(default)]
        variant: Variant,
        /// Adds MAX with this margin, as a mean over the batch.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max: Option<f64>,
    },
    /// Cross entropy of each image among the captions and each caption among the images. The mean over the batch.
    InfoNce {
        /// What scores are divided by, τ.
        #[serde(default = "temperature")]
        temperature: f64,
    },
}

/// The objective that sees scaled scores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// SUM, what the paper calls HAL.
    #[default]
    Sum,
    /// MAX, what the paper calls MAX+HAL.
    Max,
}

/// Whether the gradient flows through a scale, which its paper does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Exponent {
    /// The scale is a constant of the step, as the weights of HAL are.
    #[default]
    Detached,
    /// The scale is a function of the scores.
    Differentiated,
}

/// Which of two that differ: the formulas of a paper or its published code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Variant {
    /// The formulas.
    #[default]
    Paper,
    /// What the code computes, to reproduce its results.
    Official,
}

fn margin() -> f64 {
    0.2
}

fn k() -> usize {
    3
}

fn gamma() -> f64 {
    30.0
}

fn epsilon() -> f64 {
    0.3
}

fn temperature() -> f64 {
    0.07
}

impl Default for Loss {
    fn default() -> Self {
        Self::Max { margin: margin() }
    }
}

impl Loss {
    /// Its value on a batch of `pairs` pairs where all scores are equal: the model tells nothing from anything. `None` where that
    /// depends on the score.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "batches are far below 2^53 pairs")]
    pub fn collapsed(&self, pairs: usize) -> Option<f64> {
        let others = pairs.saturating_sub(1);
        let hinges = |margin: f64, of_each: usize| Some(2.0 * pairs as f64 * others.min(of_each) as f64 * margin);
        match *self {
            Self::Sum { margin } | Self::LocalScaling { margin, over: Over::Sum, .. } => hinges(margin, others),
            Self::Max { margin } | Self::LocalScaling { margin, over: Over::Max, .. } => hinges(margin, 1),
            Self::KnnMargin { margin, k } => hinges(margin, k),
            Self::InfoNce { .. } => Some((pairs.max(1) as f64).ln()),
            Self::Hal { .. } => None,
        }
    }

    /// Its name in settings.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sum { .. } => "sum",
            Self::Max { .. } => "max",
            Self::KnnMargin { .. } => "knn_margin",
            Self::LocalScaling { .. } => "local_scaling",
            Self::Hal { .. } => "hal",
            Self::InfoNce { .. } => "info_nce",
        }
    }

    /// Whether it is a sum of triplets.
    #[must_use]
    pub fn is_triplet(&self) -> bool {
        !matches!(self, Self::Hal { .. } | Self::InfoNce { .. })
    }

    /// What is wrong with it in batches of `pairs` pairs: names of settings, as `max.margin`, and what is wrong with each.
    #[must_use]
    pub fn problems(&self, pairs: usize) -> Problems {
        let mut problems = Problems::new();
        match *self {
            Self::Sum { margin } | Self::Max { margin } => problems.extend(not_a_margin("margin", margin)),
            Self::KnnMargin { margin, k } | Self::LocalScaling { margin, k, .. } => {
                problems.extend(not_a_margin("margin", margin));
                problems.extend(not_neighbours(k, pairs));
            }
            Self::Hal { gamma, epsilon, max, .. } => {
                problems.extend(not_positive("gamma", gamma));
                problems.extend(not_a_margin("epsilon", epsilon));
                problems.extend(max.and_then(|max| not_a_margin("max", max)));
            }
            Self::InfoNce { temperature } => problems.extend(not_positive("temperature", temperature)),
        }
        problems.into_iter().map(|(setting, message)| (format!("{}.{setting}", self.name()), message)).collect()
    }
}

/// What is wrong with a margin, if anything.
pub(super) fn not_a_margin(name: &str, margin: f64) -> Option<(String, String)> {
    (!margin.is_finite() || margin < 0.0).then(|| (name.into(), format!("got {margin}, wanted 0 or more")))
}

/// What is wrong with a number that must be above 0, if anything.
pub(super) fn not_positive(name: &str, value: f64) -> Option<(String, String)> {
    (!value.is_finite() || value <= 0.0).then(|| (name.into(), format!("got {value}, wanted a number above 0")))
}

/// What is wrong with `k` neighbours in batches of `pairs` pairs, if anything.
fn not_neighbours(k: usize, pairs: usize) -> Option<(String, String)> {
    if k == 0 {
        return Some(("k".into(), "got 0, wanted at least 1".into()));
    }
    // A batch of one pair is refused for itself.
    (pairs > 1 && k >= pairs).then(|| {
        ("k".into(), format!("got {k}, wanted at most {}: the negatives of each in a batch of {pairs}", pairs - 1))
    })
}
