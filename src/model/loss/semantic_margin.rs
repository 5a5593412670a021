//! SAM, the semantic adaptive margin: the margin of a triplet grows with the semantic distance of the negative from the
//! captions of the image (Biten, Mafla, Gómez, Karatzas, "Is An Image Worth Five Sentences?", WACV 2022, equation 7).
//!
//! Σᵢ \[(φᵢᵢ − φᵢⱼ)/τ + Sᵢⱼ − Sᵢᵢ\]₊ with caption j chosen for image i, + Σᵢ \[(φᵢᵢ − φᵢₖ)/τ + Sₖᵢ − Sᵢᵢ\]₊ with image
//! k chosen for caption i; φᵢⱼ is the similarity of caption j to the captions of image i.
//!
//! A margin is negative if the negative is more similar to the captions of the image than the matching caption is. A
//! query without negatives has no triplet.
//!
//! Published code ([`FormulaVariant::Official`]) differs in four ways:
//! - Both negatives are chosen along rows: the second one is also a caption j' of image i, and its term is
//!   \[… + Sᵢⱼ' − Sⱼ'ⱼ'\]₊, a term of caption j'.
//! - The matching pair is part of the ranking, and the second of the ranking is taken. So the nearest negative is
//!   chosen only if the matching pair ranks first; otherwise it is the second-nearest, or the pair itself. The same
//!   holds for the furthest. The second ranking is by Sᵢⱼ − Sⱼⱼ.
//! - The margins are swapped between the two terms, and taken from the row of the negative instead of the query's row:
//!   the first term has (φⱼⱼ − φ of j with j'(j))/τ, the second one (φⱼ'ⱼ' − φ of j' with j(j'))/τ.
//! - Margins above 1 are cut to 1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::function::check_positive;
use super::negatives::{Negatives, top_k_mask, triplet_hinges};
use super::variant::FormulaVariant;
use crate::kernels::random::Rng;
use crate::model::setting_problems::{SettingProblems, check_plausible};

/// Random stream of the random negatives, distinct from other streams of the same seed.
const NEGATIVES_STREAM: u64 = 0x6e65_6761_7469_7665;

/// Triplets with a semantic adaptive margin (SAM: Biten et al., WACV 2022): the difference of the caption similarities
/// of the matching caption and the negative, divided by a temperature.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SemanticMargin {
    /// Temperature τ that divides the differences of caption similarities. The paper tries 3, 5 and 10.
    pub temperature: f64,
    /// Choice of the negative of a query.
    pub sampler: NegativeSampler,
    /// Keep the triplet loss with a constant margin beside this one.
    pub keep_triplet: bool,
    /// Formula of the paper or of the published code. The code differs in these points: both negatives are chosen along
    /// rows, as the second of a ranking that includes the matching pair. Margins are swapped between the directions and
    /// taken from the negative's row.
    pub variant: FormulaVariant,
    /// Weight of this term of the objective. The published code uses 5 beside three other terms.
    pub weight: f64,
    /// Upper limit of the margins. By default none for the paper's formula, and 1 for the published code's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_margin: Option<f64>,
}

/// Choice of the negative of a query in its triplet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NegativeSampler {
    /// Negative with the highest score: "HN" in the paper, `soft` in the published code.
    Nearest,
    /// Negative with the lowest score: "SN" in the paper, where it is the best on average, `hard` in the published
    /// code.
    #[default]
    Furthest,
    /// Uniformly random negative: "RS" in the paper, `random` in the published code.
    Random,
}

impl Default for SemanticMargin {
    fn default() -> Self {
        Self {
            temperature: 3.0,
            sampler: NegativeSampler::default(),
            keep_triplet: true,
            variant: FormulaVariant::default(),
            weight: 1.0,
            largest_margin: None,
        }
    }
}

impl SemanticMargin {
    /// Upper limit of the margins; ∞ for none.
    #[must_use]
    pub fn margin_limit(&self) -> f64 {
        self.largest_margin.unwrap_or(match self.variant {
            FormulaVariant::Paper => f64::INFINITY,
            FormulaVariant::Official => 1.0,
        })
    }

    /// Checks the settings.
    #[must_use]
    pub fn problems(&self) -> SettingProblems {
        let mut problems = SettingProblems::new();
        for (name, value) in [("temperature", self.temperature), ("weight", self.weight)] {
            problems.extend(check_positive(name, value));
        }
        if let Some(largest) = self.largest_margin.filter(|largest| largest.is_nan()) {
            problems.push(("largest_margin".into(), format!("got {largest}, wanted a number")));
        }
        problems
    }

    /// Settings that are possible, but implausible, with the usual values.
    #[must_use]
    pub fn implausible(&self) -> SettingProblems {
        let temperature = (0.1..=1000.0, "usual is 3 to 10");
        let weight = (1e-3..=100.0, "usual is 1 to 5");
        let largest = (0.0..=f64::INFINITY, "usual is 1, and below 0 no negative counts");
        let own = [
            check_plausible("temperature", self.temperature, temperature),
            check_plausible("weight", self.weight, weight),
            self.largest_margin.and_then(|margin| check_plausible("largest_margin", margin, largest)),
        ];
        own.into_iter().flatten().collect()
    }
}

/// Draws random numbers in \[0, 1) for the negatives of step `step`: one for each image, and one for each caption.
fn draws(pairs: i64, seed: u64, step: u64) -> [Vec<f64>; 2] {
    [0, 1].map(|side| {
        let mut rng = Rng::new(seed, &[NEGATIVES_STREAM, step, side]);
        (0..pairs).map(|_| rng.uniform()).collect()
    })
}

/// Value on the scores `[n, n]` without the weight; `relevance` is `[n, n]`.
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
    let margins = |others: &Tensor| ((&own - others) / settings.temperature).clamp_max(settings.margin_limit());
    let draws = draws(scores.size()[0], seed, step);
    match settings.variant {
        FormulaVariant::Paper => {
            let margins = margins(&relevance);
            let captions = pick_negatives(scores, &negatives.is_negative, settings.sampler, &draws[0]);
            let images = pick_negatives(&scores.tr(), &negatives.is_negative.tr(), settings.sampler, &draws[1]).tr();
            triplet_hinges(scores, [&captions, &images], [&margins, &margins.tr()])
        }
        FormulaVariant::Official => {
            let cost = scores - scores.diag(0).unsqueeze(0);
            let first = pick_official_negatives(scores, negatives, settings.sampler, &draws[0]);
            let second = pick_official_negatives(&cost, negatives, settings.sampler, &draws[1]);
            // The margin of a row comes from the pick of the other ranking and applies to the column of the same index.
            // It is 0 for a row without a pick.
            let of =
                |picked: &Tensor| (margins(&relevance) * picked).sum_dim_intlist(1, false, scores.kind()).unsqueeze(0);
            triplet_hinges(scores, [&first, &second], [&of(&second), &of(&first)])
        }
    }
}

/// Chooses one negative of each row of scores, as a mask.
fn pick_negatives(scores: &Tensor, candidates: &Tensor, sampler: NegativeSampler, draws: &[f64]) -> Tensor {
    match sampler {
        NegativeSampler::Nearest => top_k_mask(scores, candidates, 1),
        NegativeSampler::Furthest => top_k_mask(&-scores, candidates, 1),
        NegativeSampler::Random => {
            let draws = Tensor::from_slice(draws).to_device(scores.device()).unsqueeze(1);
            let count = candidates.sum_dim_intlist(1, true, Kind::Double);
            let place = (draws * count).floor() + 1.0;
            candidates.cumsum(1, Kind::Int64).eq_tensor(&place).logical_and(candidates)
        }
    }
}

/// Chooses one negative of each row as the published code does: the second of a ranking that includes the matching
/// pair.
fn pick_official_negatives(scores: &Tensor, negatives: &Negatives, sampler: NegativeSampler, draws: &[f64]) -> Tensor {
    let candidates = negatives.unmasked();
    let second = |scores: &Tensor| {
        top_k_mask(scores, &candidates, 2).logical_and(&top_k_mask(scores, &candidates, 1).logical_not())
    };
    match sampler {
        NegativeSampler::Nearest => second(scores),
        NegativeSampler::Furthest => second(&-scores),
        NegativeSampler::Random => pick_negatives(scores, &negatives.is_negative, sampler, draws),
    }
}

#[cfg(test)]
mod tests {
    use super::super::objective::{Objective, ObjectiveContext};
    use super::super::testing::{numbers, square};
    use super::*;

    const S: [f64; 9] = [0.6, 0.5, 0.4, 0.3, 0.4, 0.1, 0.0, 0.2, 0.9];
    const PHI: [f64; 9] = [2.0, 1.1, 0.5, 0.2, 3.0, 0.8, 0.0, 2.5, 2.2];

    /// Value and gradient with τ = 2 and seed 7.
    fn evaluate(
        scores: &[f64],
        relevance: &[f64],
        masked: Option<&[bool]>,
        (sampler, variant, largest): (NegativeSampler, FormulaVariant, f64),
        step: u64,
    ) -> (f64, Vec<f64>) {
        let settings = SemanticMargin {
            temperature: 2.0,
            sampler,
            variant,
            keep_triplet: false,
            largest_margin: Some(largest),
            ..SemanticMargin::default()
        };
        let objective = Objective { semantic_margin: Some(settings), ..Objective::default() };
        let scores = square(scores);
        let masked = masked.map(|masked| Tensor::from_slice(masked).view_as(&scores));
        let relevance = square(relevance);
        let context = ObjectiveContext {
            masked: masked.as_ref(),
            relevance: Some(&relevance),
            seed: 7,
            step,
            ..ObjectiveContext::default()
        };
        let found = objective.evaluate(&scores, &context).expect("consistent inputs");
        (found.value, numbers(&found.d_scores))
    }

    /// Nearest negatives. Image 0 takes caption 1: 0.45+0.5−0.6 = 0.35; image 1 takes 0: 1.4+0.3−0.4 = 1.3; image 2
    /// takes 1: −0.15+0.2−0.9 < 0. Caption 0 takes image 1: 0.45+0.3−0.6 = 0.15; caption 1 takes 0: 1.4+0.5−0.4 = 1.5;
    /// caption 2 takes 0: 1.1+0.4−0.9 = 0.6.
    #[test]
    fn triplets_of_the_paper_by_hand() {
        let got = evaluate(&S, &PHI, None, (NegativeSampler::Nearest, FormulaVariant::Paper, f64::INFINITY), 0);
        assert!((got.0 - 3.9).abs() < 1e-12, "{}", got.0);
        assert_eq!(got.1, [-2.0, 2.0, 1.0, 2.0, -2.0, 0.0, 0.0, 0.0, -1.0]);
    }

    /// Nearest negatives of the published code, `soft`. Rankings of S: row 0: 0 1 2, row 1: 1 0 2, row 2: 2 1 0, so
    /// j = 1, 0, 1. Rankings of S minus the matching score of the column: row 0: 0, 0.1, −0.5, so j' = 0; row 1: −0.3,
    /// 0, −0.8, so j' = 0; row 2: −0.6, −0.2, 0, so j' = 1. Margins of the first term, by j': 0, 1.4 → 1, −0.15; of the
    /// second, by j: 0.45, 1.4 → 1, −0.15. First term: 0.5−0.6+1 = 0.9; 0.3−0.4+0 < 0; 0.2−0.9+1 = 0.3. Second term:
    /// 0.6−0.6+0.45 = 0.45; 0.3−0.6+0.45 = 0.15; 0.2−0.4+1 = 0.8.
    #[test]
    fn triplets_of_the_published_code_by_hand() {
        let got = evaluate(&S, &PHI, None, (NegativeSampler::Nearest, FormulaVariant::Official, 1.0), 0);
        assert!((got.0 - 2.6).abs() < 1e-12, "{}", got.0);
        assert_eq!(got.1, [-2.0, 1.0, 0.0, 1.0, -1.0, 0.0, 0.0, 2.0, -1.0]);
    }

    #[test]
    fn random_negatives_differ_by_step_and_are_never_matching_or_masked() {
        let mask = [false, true, false, true, false, false, false, false, false];
        // With margins of 10 every triplet counts, so the gradient shows the chosen negatives.
        let phi: Vec<f64> = (0..9).map(|place| if place % 4 == 0 { 20.0 } else { 0.0 }).collect();
        for variant in [FormulaVariant::Paper, FormulaVariant::Official] {
            let of = |step| evaluate(&S, &phi, Some(&mask), (NegativeSampler::Random, variant, f64::INFINITY), step);
            let seen: Vec<_> = (0..50).map(of).collect();
            assert!(seen.iter().any(|one| *one != seen[0]), "all steps are alike");
            assert!(seen.iter().all(|(_, gradient)| gradient[1] == 0.0 && gradient[3] == 0.0));
            assert_eq!(seen[3], of(3));
        }
    }

    #[test]
    fn one_pair_has_no_triplet() {
        for variant in [FormulaVariant::Paper, FormulaVariant::Official] {
            for sampler in [NegativeSampler::Nearest, NegativeSampler::Furthest, NegativeSampler::Random] {
                assert_eq!(evaluate(&[0.5], &[2.0], None, (sampler, variant, 1.0), 0), (0.0, vec![0.0]));
            }
        }
    }
}
