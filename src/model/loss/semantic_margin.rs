//! SAM on tensors: the semantic adaptive margin (Biten et al., WACV 2022).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::negatives::{Negatives, nearest, triplets};
use super::settings::{Problems, Variant, not_positive};
use crate::kernels::loss::semantic_margin::draws;

/// Triplets whose margin is how much less the negative says what the captions of the image say, divided by a temperature
/// (SAM: Biten et al., WACV 2022).
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SemanticMargin {
    /// What differences of caption similarity are divided by, τ. The paper tries 3, 5 and 10.
    #[serde(default = "temperature")]
    pub temperature: f64,
    /// Which negative of a query makes its triplet.
    #[serde(default)]
    pub sampler: Sampler,
    /// Whether the objective with a constant margin stays, beside this one.
    #[serde(default = "keep_triplet")]
    pub keep_triplet: bool,
    /// The paper's formula, or what the published code computes: both negatives chosen along rows, the second of a ranking
    /// that has the matching pair in it, margins exchanged between the directions and taken from the negative's row.
    #[serde(default)]
    pub variant: Variant,
    /// Factor of this part of the objective. The published code has 5 beside three other objectives.
    #[serde(default = "weight")]
    pub weight: f64,
    /// Larger margins become this one. By default there is no limit for the paper's formula, and 1 for the published code's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest_margin: Option<f64>,
}

/// Which negative of a query makes its triplet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sampler {
    /// The one with the highest score: "HN" in the paper, `soft` in the published code.
    Nearest,
    /// The one with the lowest score: "SN" in the paper, where it is the best on average, `hard` in the published code.
    #[default]
    Furthest,
    /// Any, each as likely: "RS" in the paper, `random` in the published code.
    Random,
}

fn temperature() -> f64 {
    3.0
}

fn keep_triplet() -> bool {
    true
}

fn weight() -> f64 {
    1.0
}

impl Default for SemanticMargin {
    fn default() -> Self {
        Self {
            temperature: temperature(),
            sampler: Sampler::default(),
            keep_triplet: keep_triplet(),
            variant: Variant::default(),
            weight: weight(),
            largest_margin: None,
        }
    }
}

impl SemanticMargin {
    /// The limit of margins; ∞ for none.
    #[must_use]
    pub fn largest(&self) -> f64 {
        self.largest_margin.unwrap_or(match self.variant {
            Variant::Paper => f64::INFINITY,
            Variant::Official => 1.0,
        })
    }

    /// What is wrong with it: names of settings and what is wrong with each.
    #[must_use]
    pub fn problems(&self) -> Problems {
        let mut problems = Problems::new();
        for (name, value) in [("temperature", self.temperature), ("weight", self.weight)] {
            problems.extend(not_positive(name, value));
        }
        if let Some(largest) = self.largest_margin.filter(|largest| largest.is_nan()) {
            problems.push(("largest_margin".into(), format!("got {largest}, wanted a number")));
        }
        problems
    }
}

/// [`kernels::loss::semantic_margin`](crate::kernels::loss::semantic_margin()) of scores `[n, n]`, without its weight;
/// `relevance` is `[n, n]`.
pub(super) fn semantic_margin(
    scores: &Tensor,
    negatives: &Negatives,
    relevance: &Tensor,
    settings: &SemanticMargin,
    seed: u64,
    step: u64,
) -> Tensor {
    let relevance = relevance.to_kind(scores.kind());
    let own = relevance.diag(0).unsqueeze(1);
    let margins = |others: &Tensor| ((&own - others) / settings.temperature).clamp_max(settings.largest());
    let draws = draws(usize::try_from(scores.size()[0]).unwrap_or_default(), seed, step);
    match settings.variant {
        Variant::Paper => {
            let margins = margins(&relevance);
            let captions = pick(scores, &negatives.pairs, settings.sampler, &draws[0]);
            let images = pick(&scores.tr(), &negatives.pairs.tr(), settings.sampler, &draws[1]).tr();
            triplets(scores, [&captions, &images], [&margins, &margins.tr()])
        }
        Variant::Official => {
            let cost = scores - scores.diag(0).unsqueeze(0);
            let first = second_pick(scores, negatives, settings.sampler, &draws[0]);
            let second = second_pick(&cost, negatives, settings.sampler, &draws[1]);
            // The margin of a row is that of the other ranking's pick, and it goes to the column of that number. A row
            // without a pick has 0.
            let of =
                |picked: &Tensor| (margins(&relevance) * picked).sum_dim_intlist(1, false, scores.kind()).unsqueeze(0);
            triplets(scores, [&first, &second], [&of(&second), &of(&first)])
        }
    }
}

/// One pair of each row of scores, as a mask.
fn pick(scores: &Tensor, candidates: &Tensor, sampler: Sampler, draws: &[f64]) -> Tensor {
    match sampler {
        Sampler::Nearest => nearest(scores, candidates, 1),
        Sampler::Furthest => nearest(&-scores, candidates, 1),
        Sampler::Random => {
            let draws = Tensor::from_slice(draws).to_device(scores.device()).unsqueeze(1);
            let count = candidates.sum_dim_intlist(1, true, Kind::Double);
            let place = (draws * count).floor() + 1.0;
            candidates.cumsum(1, Kind::Double).eq_tensor(&place).logical_and(candidates)
        }
    }
}

/// One pair of each row of scores as the published code picks it: the second of a ranking that has the matching pair in it.
fn second_pick(scores: &Tensor, negatives: &Negatives, sampler: Sampler, draws: &[f64]) -> Tensor {
    let candidates = negatives.with_matching();
    let second =
        |scores: &Tensor| nearest(scores, &candidates, 2).logical_and(&nearest(scores, &candidates, 1).logical_not());
    match sampler {
        Sampler::Nearest => second(scores),
        Sampler::Furthest => second(&-scores),
        Sampler::Random => pick(scores, &negatives.pairs, sampler, draws),
    }
}
