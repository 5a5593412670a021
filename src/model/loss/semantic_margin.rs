//! SAM, the semantic adaptive margin: a margin for each triplet, by how much less the negative says what the captions of the
//! image say (Biten, Mafla, Gómez, Karatzas, "Is An Image Worth Five Sentences?", WACV 2022, equation 7).
//!
//! Σᵢ \[(φᵢᵢ − φᵢⱼ)/τ + Sᵢⱼ − Sᵢᵢ\]₊ with caption j chosen for image i, + Σᵢ \[(φᵢᵢ − φᵢₖ)/τ + Sₖᵢ − Sᵢᵢ\]₊ with image k chosen
//! for caption i; φᵢⱼ is the similarity of caption j to the captions of image i.
//!
//! A margin may be negative, where the negative says it better than the caption itself. A query without negatives has no
//! triplet.
//!
//! Published code ([`Variant::Official`]) differs:
//! - both negatives are chosen along rows: the second one, too, is a caption j' of image i, and its term \[… + Sᵢⱼ' − Sⱼ'ⱼ'\]₊
//!   is of caption j';
//! - the matching pair is among those that are ranked, and the second of the ranking is taken: the nearest negative if the
//!   matching pair ranks first, else the second-nearest, or the pair itself; and so from the other end. The second ranking is of
//!   Sᵢⱼ − Sⱼⱼ;
//! - the margins are swapped between the two terms, and taken from the row of the negative in place of the query's:
//!   the first term has (φⱼⱼ − φ of j with j'(j))/τ, the second one (φⱼ'ⱼ' − φ of j' with j(j'))/τ;
//! - margins above 1 are cut to 1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::function::{Problems, not_positive};
use super::negatives::{Negatives, nearest, triplets};
use super::variant::Variant;
use crate::kernels::sample::Sample;

/// Keeps the stream of random negatives apart from others of the same seed.
const NEGATIVES: u64 = 0x6e65_6761_7469_7665;

/// Triplets whose margin is how much less the negative says what the captions of the image say, divided by a temperature
/// (SAM: Biten et al., WACV 2022).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SemanticMargin {
    /// What differences of caption similarity are divided by, τ. The paper tries 3, 5 and 10.
    pub temperature: f64,
    /// Which negative of a query makes its triplet.
    pub sampler: Sampler,
    /// Whether the objective with a constant margin stays, beside this one.
    pub keep_triplet: bool,
    /// The paper's formula, or what the published code computes: both negatives chosen along rows, the second of a ranking
    /// that has the matching pair in it, margins exchanged between the directions and taken from the negative's row.
    pub variant: Variant,
    /// Factor of this part of the objective. The published code has 5 beside three other objectives.
    pub weight: f64,
    /// Larger margins become this one. By default there is no limit for the paper's formula, and 1 for the published code's.
    #[serde(skip_serializing_if = "Option::is_none")]
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

impl Default for SemanticMargin {
    fn default() -> Self {
        Self {
            temperature: 3.0,
            sampler: Sampler::default(),
            keep_triplet: true,
            variant: Variant::default(),
            weight: 1.0,
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

/// Random numbers of \[0, 1) that choose the negatives of step `step`: one for each image, then one for each caption.
fn draws(pairs: i64, seed: u64, step: u64) -> [Vec<f64>; 2] {
    [0, 1].map(|side| {
        let mut sample = Sample::new(seed, &[NEGATIVES, step, side]);
        (0..pairs).map(|_| sample.unit()).collect()
    })
}

/// Value on scores `[n, n]`, without its weight; `relevance` is `[n, n]`.
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
    let draws = draws(scores.size()[0], seed, step);
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

#[cfg(test)]
mod tests {
    use super::super::objective::{Context, Objective};
    use super::super::testing::{numbers, square};
    use super::*;

    const S: [f64; 9] = [0.6, 0.5, 0.4, 0.3, 0.4, 0.1, 0.0, 0.2, 0.9];
    const PHI: [f64; 9] = [2.0, 1.1, 0.5, 0.2, 3.0, 0.8, 0.0, 2.5, 2.2];

    /// Value and gradient with τ = 2 and seed 7.
    fn evaluate(
        scores: &[f64],
        relevance: &[f64],
        masked: Option<&[bool]>,
        (sampler, variant, largest): (Sampler, Variant, f64),
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
        let context =
            Context { masked: masked.as_ref(), relevance: Some(&relevance), seed: 7, step, ..Context::default() };
        let found = objective.evaluate(&scores, &context).expect("inputs that fit");
        (found.value, numbers(&found.d_scores))
    }

    /// Nearest. Image 0 takes caption 1: 0.45+0.5−0.6 = 0.35; image 1 takes 0: 1.4+0.3−0.4 = 1.3; image 2 takes 1:
    /// −0.15+0.2−0.9 < 0. Caption 0 takes image 1: 0.45+0.3−0.6 = 0.15; caption 1 takes 0: 1.4+0.5−0.4 = 1.5; caption 2
    /// takes 0: 1.1+0.4−0.9 = 0.6.
    #[test]
    fn the_papers_triplets_by_hand() {
        let got = evaluate(&S, &PHI, None, (Sampler::Nearest, Variant::Paper, f64::INFINITY), 0);
        assert!((got.0 - 3.9).abs() < 1e-12, "{}", got.0);
        assert_eq!(got.1, [-2.0, 2.0, 1.0, 2.0, -2.0, 0.0, 0.0, 0.0, -1.0]);
    }

    /// Nearest in the code's way, `soft`. Rankings of S: row 0: 0 1 2, row 1: 1 0 2, row 2: 2 1 0, so j = 1, 0, 1. Rankings of
    /// S − matching of the column: row 0: 0, 0.1, −0.5, so j' = 0; row 1: −0.3, 0, −0.8, so j' = 0; row 2: −0.6, −0.2, 0, so
    /// j' = 1. Margins of the first term, by j': 0, 1.4 → 1, −0.15. Of the second, by j: 0.45, 1.4 → 1, −0.15.
    /// First: 0.5−0.6+1 = 0.9; 0.3−0.4+0 < 0; 0.2−0.9+1 = 0.3. Second: 0.6−0.6+0.45 = 0.45; 0.3−0.6+0.45 = 0.15;
    /// 0.2−0.4+1 = 0.8.
    #[test]
    fn the_codes_triplets_by_hand() {
        let got = evaluate(&S, &PHI, None, (Sampler::Nearest, Variant::Official, 1.0), 0);
        assert!((got.0 - 2.6).abs() < 1e-12, "{}", got.0);
        assert_eq!(got.1, [-2.0, 1.0, 0.0, 1.0, -1.0, 0.0, 0.0, 2.0, -1.0]);
    }

    #[test]
    fn random_negatives_differ_by_step_and_are_never_the_pair_or_masked() {
        let mask = [false, true, false, true, false, false, false, false, false];
        // Margins of 10: every triplet counts, so the gradient shows the negatives.
        let phi: Vec<f64> = (0..9).map(|place| if place % 4 == 0 { 20.0 } else { 0.0 }).collect();
        for variant in [Variant::Paper, Variant::Official] {
            let of = |step| evaluate(&S, &phi, Some(&mask), (Sampler::Random, variant, f64::INFINITY), step);
            let seen: Vec<_> = (0..50).map(of).collect();
            assert!(seen.iter().any(|one| *one != seen[0]), "all steps are alike");
            assert!(seen.iter().all(|(_, gradient)| gradient[1] == 0.0 && gradient[3] == 0.0));
            assert_eq!(seen[3], of(3));
        }
    }

    #[test]
    fn one_pair_has_no_triplet() {
        for variant in [Variant::Paper, Variant::Official] {
            for sampler in [Sampler::Nearest, Sampler::Furthest, Sampler::Random] {
                assert_eq!(evaluate(&[0.5], &[2.0], None, (sampler, variant, 1.0), 0), (0.0, vec![0.0]));
            }
        }
    }
}
