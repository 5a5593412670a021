//! Value of SAM, the semantic adaptive margin, see [`spec::loss::semantic_margin`](pairloom_spec::loss::semantic_margin).

use tch::{Kind, Tensor};

use super::objective::{Negatives, top_k_mask, triplet_hinges};
use pairloom_kernels::random::Rng;
use pairloom_spec::loss::{FormulaVariant, NegativeSampler, SemanticMargin};

/// Random stream of the random negatives, distinct from other streams of the same seed.
const NEGATIVES_STREAM: u64 = 0x6e65_6761_7469_7665;

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
            let margin_of =
                |picked: &Tensor| (margins(&relevance) * picked).sum_dim_intlist(1, false, scores.kind()).unsqueeze(0);
            triplet_hinges(scores, [&first, &second], [&margin_of(&second), &margin_of(&first)])
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
    use super::super::objective::{EvaluateObjective, ObjectiveContext};
    use super::super::testing::{numbers, square};
    use super::*;
    use pairloom_spec::loss::Objective;

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
            let loss_at =
                |step| evaluate(&S, &phi, Some(&mask), (NegativeSampler::Random, variant, f64::INFINITY), step);
            let seen: Vec<_> = (0..50).map(loss_at).collect();
            assert!(seen.iter().any(|one| *one != seen[0]), "all steps are alike");
            assert!(seen.iter().all(|(_, gradient)| gradient[1] == 0.0 && gradient[3] == 0.0));
            assert_eq!(seen[3], loss_at(3));
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
