//! Dual softmax: scores multiplied by their softmax over the queries.
//!
//! Cheng, Lin, Wu, Yang, Shen, "Improving Video-Text Retrieval by Multi-Stream Corpus Alignment and Dual Softmax Loss",
//! arXiv 2109.04290, 2021.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distance::Distance;
use super::method::{
    Correction, DenseScores, ParameterProblems, RequiredStatistics, ScoreStatistics, Statistic, StatisticalMethod,
    check_inverse_temperature, log_sum_exp,
};
use crate::identity::IdentityWriter;

/// Scores multiplied by their softmax over the test queries (Cheng et al., 2021):
/// `s'(q, i) = s(q, i) · exp(β·s(q, i)) / Σ exp(β·s(q̄, i))`, summed over the test queries q̄. Always transductive.
///
/// The ranking is not by a score minus a shift: for negative scores, s' decreases when the softmax increases.
///
/// The published code (repository `starmemda/CAMoE`, `DSL.py`) is the loss of the training: it divides scores by a
/// temperature of 1,000 in the softmax, and multiplies by the number of queries, which changes no ranking. Its scores are
/// CLIP's, 100 times the cosine, so it has β = 0.1, almost a mean. Its authors say that the temperature is for the
/// gradient, and 1 in the ranking (issue 4 there). On cosines this is β = 100, the default. CLIP's cosines are close
/// together; those of VSE++ span more of [−1, 1] and need a smaller β, such as 20.
///
/// # Cost
/// One pass over the scores, then one logarithm for each score.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct DualSoftmax {
    /// Inverse temperature, β, of unscaled scores. 100 is the temperature 1 of the authors on the scores of CLIP, which are
    /// 100 times the cosine.
    pub beta: f64,
}

impl Default for DualSoftmax {
    fn default() -> Self {
        Self { beta: 100.0 }
    }
}

impl StatisticalMethod for DualSoftmax {
    fn is_inductive(&self) -> bool {
        false
    }

    fn problems(&self) -> ParameterProblems {
        check_inverse_temperature("beta", self.beta).into_iter().collect()
    }

    fn refusal(&self, scores: Distance) -> Option<&'static str> {
        let message = "multiplies scores by a softmax, and order similarities, which are never above 0, would be ranked the wrong way round";
        (scores == Distance::Order).then_some(message)
    }

    fn required_statistics(&self) -> RequiredStatistics {
        RequiredStatistics {
            item_statistics: vec![Statistic::LogSumExp { beta: self.beta }],
            ..RequiredStatistics::default()
        }
    }

    fn correction(&self, statistics: &ScoreStatistics) -> Box<dyn Correction> {
        Box::new(DualSoftmaxCorrection { beta: self.beta, log_sums: statistics.items[0].clone() })
    }

    fn definition(&self, scores: &DenseScores, others: &DenseScores, _: Distance) -> DenseScores {
        DenseScores::from_fn(scores.queries, scores.items, |query, item| {
            let score = scores.at(query, item);
            score * (self.beta * score - log_sum_exp(others.column(item).map(|other| self.beta * other))).exp()
        })
    }
}

/// Correction with `ln Σ exp(β·s)` of every item.
#[derive(Debug)]
struct DualSoftmaxCorrection {
    beta: f64,
    log_sums: Vec<f64>,
}

impl DualSoftmaxCorrection {
    fn corrected(&self, item: usize, score: f64) -> f64 {
        monotone_product(score, self.beta * score - self.log_sums[item])
    }
}

impl Correction for DualSoftmaxCorrection {
    /// An increasing function of s': s' itself usually underflows.
    fn corrected_score(&self, _: usize, item: usize, score: f32) -> f64 {
        self.corrected(item, f64::from(score))
    }

    #[expect(clippy::cast_possible_truncation, reason = "rows are f32")]
    fn correct_row(&self, _: usize, scores: &mut [f32]) {
        for (item, score) in scores.iter_mut().enumerate() {
            *score = self.corrected(item, f64::from(*score)) as f32;
        }
    }

    fn row_shifts(&self, _: usize) -> Option<&[f64]> {
        None
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("dual_softmax");
        fields.write_f64(self.beta);
        fields.write_f64s(&self.log_sums);
    }
}

/// Increasing function of `score · exp(log)`. It has the sign of the product. With x the logarithm of the product's
/// absolute value, its absolute value is `1 / (1 − x)` for x < 0 and `1 + x` for x ≥ 0.
fn monotone_product(score: f64, log: f64) -> f64 {
    if score == 0.0 {
        return 0.0;
    }
    let x = score.abs().ln() + log;
    let size = if x < 0.0 { 1.0 / (1.0 - x) } else { 1.0 + x };
    size.copysign(score)
}
