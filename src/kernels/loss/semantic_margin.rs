//! SAM, the semantic adaptive margin: a margin for each triplet, by how much less the negative says what the captions of the
//! image say (Biten, Mafla, Gómez, Karatzas, "Is An Image Worth Five Sentences?", WACV 2022, equation 7).

use super::batch::{Anchor, nearest};
use super::{Batch, Loss, Variant};
use crate::kernels::sample::Sample;

/// Keeps the stream of random negatives apart from others of the same seed.
const NEGATIVES: u64 = 0x6e65_6761_7469_7665;

/// Which negative of a query makes its triplet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampler {
    /// The one with the highest score: "hard negative" in the paper, `soft` in the code.
    Nearest,
    /// The one with the lowest score: "soft negative" in the paper, `hard` in the code.
    Furthest,
    /// Any, each as likely.
    Random,
}

/// Settings of the margins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SemanticMargin {
    /// What differences of relevance are divided by, τ.
    pub temperature: f64,
    /// Which negatives.
    pub sampler: Sampler,
    /// Paper or published code.
    pub variant: Variant,
    /// Larger margins become this one; ∞ for none.
    pub largest: f64,
}

/// Random numbers of \[0, 1) that choose the negatives of step `step`: one for each image, then one for each caption.
#[must_use]
pub fn draws(pairs: usize, seed: u64, step: u64) -> [Vec<f64>; 2] {
    [0, 1].map(|side| {
        let mut sample = Sample::new(seed, &[NEGATIVES, step, side]);
        (0..pairs).map(|_| sample.unit()).collect()
    })
}

/// Σᵢ \[(φᵢᵢ − φᵢⱼ)/τ + Sᵢⱼ − Sᵢᵢ\]₊ with caption j chosen for image i, + Σᵢ \[(φᵢᵢ − φᵢₖ)/τ + Sₖᵢ − Sᵢᵢ\]₊ with image k chosen for
/// caption i; φᵢⱼ = `relevance[i·n + j]` is the similarity of caption j to the captions of image i.
///
/// A margin may be negative, where the negative says it better than the caption itself. The draws of [`Sampler::Random`] are
/// those of [`draws`]. A query without negatives has no triplet.
///
/// Published code ([`Variant::Official`]) differs:
/// - both negatives are chosen along rows: the second one, too, is a caption j' of image i, and its term \[… + Sᵢⱼ' − Sⱼ'ⱼ'\]₊
///   is of caption j';
/// - the matching pair is among those that are ranked, and the second of the ranking is taken: the nearest negative if the
///   matching pair ranks first, else the second-nearest, or the pair itself; and so from the other end. The second ranking is of
///   Sᵢⱼ − Sⱼⱼ;
/// - the margins are swapped between the two terms, and taken from the row of the negative in place of the query's:
///   the first term has (φⱼⱼ − φ of j with j'(j))/τ, the second one (φⱼ'ⱼ' − φ of j' with j(j'))/τ;
/// - margins above 1 are cut to 1 (`largest`).
///
/// Cost: n² log n steps.
///
/// # Panics
/// `relevance` is not `n × n`.
#[must_use]
pub fn semantic_margin(batch: &Batch<'_>, relevance: &[f64], settings: &SemanticMargin, seed: u64, step: u64) -> Loss {
    let n = batch.pairs;
    assert_eq!(relevance.len(), n * n, "relevance of {n} pairs");
    let draws = draws(n, seed, step);
    let margin = |pair: usize, other: usize| {
        ((relevance[pair * n + pair] - relevance[pair * n + other]) / settings.temperature).min(settings.largest)
    };
    let mut loss = Loss::zero(n);
    if settings.variant == Variant::Official {
        let cost = |place: usize| batch.scores[place] - batch.matching(place % n);
        let first = picks(batch, settings.sampler, &draws[0], |place| batch.scores[place]);
        let second = picks(batch, settings.sampler, &draws[1], cost);
        let margins = |picks: &[Option<usize>]| -> Vec<f64> {
            picks.iter().enumerate().map(|(pair, pick)| pick.map_or(0.0, |other| margin(pair, other))).collect()
        };
        let (first_margins, second_margins) = (margins(&second), margins(&first));
        for image in 0..n {
            if let Some(caption) = first[image] {
                loss.hinge(batch.scores, first_margins[caption], image * n + caption, image * n + image);
            }
            if let Some(caption) = second[image] {
                loss.hinge(batch.scores, second_margins[caption], image * n + caption, caption * n + caption);
            }
        }
        return loss;
    }
    for (Anchor { pair, matching, negatives }, draw) in
        batch.images().chain(batch.captions()).zip(draws.iter().flatten())
    {
        let chosen = match settings.sampler {
            Sampler::Nearest => nearest(negatives, 1, |place| batch.scores[place]).first().copied(),
            Sampler::Furthest => nearest(negatives, 1, |place| -batch.scores[place]).first().copied(),
            Sampler::Random => at(&negatives, *draw),
        };
        if let Some(place) = chosen {
            let other = if place / n == pair { place % n } else { place / n };
            loss.hinge(batch.scores, margin(pair, other), place, matching);
        }
    }
    loss
}

/// What the published code picks in each row: a caption, the image's own one if it ranks second.
fn picks(batch: &Batch<'_>, sampler: Sampler, draws: &[f64], value: impl Fn(usize) -> f64) -> Vec<Option<usize>> {
    let second = |mut places: Vec<usize>, matching: usize, sign: f64| {
        places.push(matching);
        nearest(places, 2, |place| sign * value(place)).get(1).copied()
    };
    let pick = |(Anchor { matching, negatives, .. }, draw): (Anchor, &f64)| match sampler {
        Sampler::Nearest => second(negatives, matching, 1.0),
        Sampler::Furthest => second(negatives, matching, -1.0),
        Sampler::Random => at(&negatives, *draw),
    };
    batch.images().zip(draws).map(|query| pick(query).map(|place| place % batch.pairs)).collect()
}

/// The one of `places` that a number of \[0, 1) points to.
#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "n is small")]
fn at(places: &[usize], draw: f64) -> Option<usize> {
    places.get((draw * places.len() as f64) as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: [f64; 9] = [0.6, 0.5, 0.4, 0.3, 0.4, 0.1, 0.0, 0.2, 0.9];
    const PHI: [f64; 9] = [2.0, 1.1, 0.5, 0.2, 3.0, 0.8, 0.0, 2.5, 2.2];

    fn settings(sampler: Sampler, variant: Variant, largest: f64) -> SemanticMargin {
        SemanticMargin { temperature: 2.0, sampler, variant, largest }
    }

    /// Nearest. Image 0 takes caption 1: 0.45+0.5−0.6 = 0.35; image 1 takes 0: 1.4+0.3−0.4 = 1.3; image 2 takes 1:
    /// −0.15+0.2−0.9 < 0. Caption 0 takes image 1: 0.45+0.3−0.6 = 0.15; caption 1 takes 0: 1.4+0.5−0.4 = 1.5; caption 2
    /// takes 0: 1.1+0.4−0.9 = 0.6.
    #[test]
    fn the_papers_triplets_by_hand() {
        let loss =
            semantic_margin(&Batch::new(&S, 3), &PHI, &settings(Sampler::Nearest, Variant::Paper, f64::INFINITY), 0, 0);
        assert!((loss.value - 3.9).abs() < 1e-12, "{}", loss.value);
        assert_eq!(loss.gradient, [-2.0, 2.0, 1.0, 2.0, -2.0, 0.0, 0.0, 0.0, -1.0]);
    }

    /// Nearest in the code's way, `soft`. Rankings of S: row 0: 0 1 2, row 1: 1 0 2, row 2: 2 1 0, so j = 1, 0, 1. Rankings of
    /// S − matching of the column: row 0: 0, 0.1, −0.5, so j' = 0; row 1: −0.3, 0, −0.8, so j' = 0; row 2: −0.6, −0.2, 0, so
    /// j' = 1. Margins of the first term, by j': 0, 1.4 → 1, −0.15. Of the second, by j: 0.45, 1.4 → 1, −0.15.
    /// First: 0.5−0.6+1 = 0.9; 0.3−0.4+0 < 0; 0.2−0.9+1 = 0.3. Second: 0.6−0.6+0.45 = 0.45; 0.3−0.6+0.45 = 0.15;
    /// 0.2−0.4+1 = 0.8.
    #[test]
    fn the_codes_triplets_by_hand() {
        let loss = semantic_margin(&Batch::new(&S, 3), &PHI, &settings(Sampler::Nearest, Variant::Official, 1.0), 0, 0);
        assert!((loss.value - 2.6).abs() < 1e-12, "{}", loss.value);
        assert_eq!(loss.gradient, [-2.0, 1.0, 0.0, 1.0, -1.0, 0.0, 0.0, 2.0, -1.0]);
    }

    #[test]
    fn random_negatives_differ_by_step_and_are_never_the_pair_or_masked() {
        let mask = [false, true, false, true, false, false, false, false, false];
        let batch = Batch::with_mask(&S, 3, &mask);
        for variant in [Variant::Paper, Variant::Official] {
            // Margins of 10: every triplet counts, so the gradient shows the negatives.
            let phi: Vec<f64> = (0..9).map(|place| if place % 4 == 0 { 20.0 } else { 0.0 }).collect();
            let settings = settings(Sampler::Random, variant, f64::INFINITY);
            let seen: Vec<Loss> = (0..50).map(|step| semantic_margin(&batch, &phi, &settings, 7, step)).collect();
            assert!(seen.iter().any(|loss| *loss != seen[0]), "all steps are alike");
            assert!(seen.iter().all(|loss| loss.gradient[1] == 0.0 && loss.gradient[3] == 0.0));
            assert_eq!(seen[3], semantic_margin(&batch, &phi, &settings, 7, 3));
        }
    }

    #[test]
    fn one_pair_has_no_triplet() {
        for variant in [Variant::Paper, Variant::Official] {
            for sampler in [Sampler::Nearest, Sampler::Furthest, Sampler::Random] {
                let loss = semantic_margin(&Batch::new(&[0.5], 1), &[2.0], &settings(sampler, variant, 1.0), 0, 0);
                assert_eq!(loss, Loss { value: 0.0, gradient: vec![0.0] });
            }
        }
    }
}
