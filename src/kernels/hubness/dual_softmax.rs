//! Dual softmax: scores times their softmax over the queries.
//!
//! Cheng, Lin, Wu, Yang, Shen, "Improving Video-Text Retrieval by Multi-Stream Corpus Alignment and Dual Softmax Loss",
//! arXiv 2109.04290, 2021.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distance::Distance;
use super::matrix::Matrix;
use super::method::{Correction, Needs, StatisticalMethod, Statistics};
use super::problems::{Problems, not_a_beta};
use super::statistic::{Statistic, log_sum_exp};
use crate::identity::Fields;

/// Scores above 0 times their softmax over the test queries (Cheng et al., 2021):
/// `s'(q, i) = s(q, i) · exp(β·s(q, i)) / Σ exp(β·s(q̄, i))` over the test queries q̄. Transductive by its definition.
///
/// Not of the form s − h: a negative score falls where its softmax rises. The published code multiplies by the number of
/// queries besides, which changes no ranking.
///
/// # Cost
/// One pass over the scores; a logarithm a score after that.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct DualSoftmax {
    /// Inverse temperature, β. The published code takes 1,000, on scores that it has not scaled.
    pub beta: f64,
}

impl Default for DualSoftmax {
    fn default() -> Self {
        Self { beta: 1000.0 }
    }
}

impl StatisticalMethod for DualSoftmax {
    fn of_bank(&self) -> bool {
        false
    }

    fn problems(&self) -> Problems {
        not_a_beta("beta", self.beta).into_iter().collect()
    }

    fn refusal(&self, scores: Option<Distance>) -> Option<&'static str> {
        let message = "multiplies scores by shares, and order similarities, never above 0, would change places";
        (scores == Some(Distance::Order)).then_some(message)
    }

    fn needs(&self) -> Needs {
        Needs { of_items: vec![Statistic::LogSumExp { beta: self.beta }], ..Needs::default() }
    }

    fn correction(&self, of: &Statistics) -> Box<dyn Correction> {
        Box::new(Product { beta: self.beta, log_sums: of.items[0].clone() })
    }

    fn definition(&self, scores: &Matrix, others: &Matrix, _: Distance) -> Matrix {
        Matrix::from_fn(scores.queries, scores.items, |query, item| {
            let score = scores.at(query, item);
            score * (self.beta * score - log_sum_exp(others.column(item).map(|other| self.beta * other))).exp()
        })
    }
}

#[derive(Debug)]
struct Product {
    beta: f64,
    log_sums: Vec<f64>,
}

impl Product {
    fn value(&self, item: usize, score: f64) -> f64 {
        grown(score, self.beta * score - self.log_sums[item])
    }
}

impl Correction for Product {
    /// Not s' itself, most of which are too small for any float, but a number that grows with it.
    fn pair(&self, _: usize, item: usize, score: f32) -> f64 {
        self.value(item, f64::from(score))
    }

    #[expect(clippy::cast_possible_truncation, reason = "rows are f32")]
    fn row(&self, _: usize, scores: &mut [f32]) {
        for (item, score) in scores.iter_mut().enumerate() {
            *score = self.value(item, f64::from(*score)) as f32;
        }
    }

    fn shift(&self, _: usize) -> Option<&[f64]> {
        None
    }

    fn identity(&self, fields: &mut Fields<'_>) {
        fields.text("dual_softmax");
        fields.float(self.beta);
        fields.floats(&self.log_sums);
    }
}

/// A number that grows with `score · exp(log)`: of its sign, and of the size `1 / (1 − x)` where the logarithm x of the
/// product's size is below 0, and `1 + x` from there on.
fn grown(score: f64, log: f64) -> f64 {
    if score == 0.0 {
        return 0.0;
    }
    let x = score.abs().ln() + log;
    let size = if x < 0.0 { 1.0 / (1.0 - x) } else { 1.0 + x };
    size.copysign(score)
}
