//! Gradients of all references against finite differences.

use super::*;
use crate::kernels::sample::Sample;

type Objective<'o> = Box<dyn Fn(&Batch<'_>) -> Loss + 'o>;

#[test]
fn gradients_are_finite_differences() {
    let n = 6;
    let mut sample = Sample::new(3, &[]);
    let mut random = |count: usize| -> Vec<f64> { (0..count).map(|_| 2.0 * sample.unit() - 1.0).collect() };
    let (scores, phi, captions, images) = (random(n * n), random(n * n), random(n * 9), random(n * 9));
    let mut masked = vec![false; n * n];
    (masked[1], masked[n]) = (true, true);
    let bank = Bank { captions: &captions, images: &images, rows: 9 };
    let settings = BankWeights { neighbours: 4, alpha: 4.0, beta: 3.0, epsilon_positive: 0.2, epsilon_negative: 0.1 };

    let mut objectives: Vec<Objective<'_>> = vec![
        Box::new(|batch| sum(batch, 0.2)),
        Box::new(|batch| max(batch, 0.2)),
        Box::new(|batch| knn_margin(batch, 0.2, 3)),
        Box::new(|batch| local_scaling(batch, 0.2, 2, Over::Sum, Exponent::Differentiated)),
        Box::new(|batch| local_scaling(batch, 0.2, 3, Over::Max, Exponent::Differentiated)),
        Box::new(|batch| info_nce(batch, 0.3)),
    ];
    for variant in [Variant::Paper, Variant::Official] {
        objectives.push(Box::new(move |batch| hal(batch, 3.0, 0.3, variant, None)));
        let weights = bank_weights(&Batch::new(&scores, n), &bank, &settings, variant);
        objectives.push(Box::new(move |batch| hal(batch, 3.0, 0.3, variant, Some(&weights))));
        for sampler in [Sampler::Nearest, Sampler::Furthest, Sampler::Random] {
            let (settings, phi) = (SemanticMargin { temperature: 2.0, sampler, variant, largest: 0.5 }, phi.clone());
            objectives.push(Box::new(move |batch| semantic_margin(batch, &phi, &settings, 1, 2)));
        }
    }
    for (which, objective) in objectives.iter().enumerate() {
        for mask in [&[][..], &masked] {
            let exact = objective(&Batch::with_mask(&scores, n, mask));
            assert!(exact.gradient.iter().any(|slope| *slope != 0.0), "objective {which} is flat");
            for (place, exact) in exact.gradient.into_iter().enumerate() {
                let moved = |by: f64| {
                    let mut scores = scores.clone();
                    scores[place] += by;
                    objective(&Batch::with_mask(&scores, n, mask)).value
                };
                let difference = (moved(1e-6) - moved(-1e-6)) / 2e-6;
                assert!((difference - exact).abs() < 1e-6, "objective {which}, {place}: {difference} and {exact}");
            }
        }
    }
}
