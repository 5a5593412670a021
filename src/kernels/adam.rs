//! The optimisers Adam and `AdamW` on slices, one pass a step: Kingma and Ba, "Adam: A Method for Stochastic
//! Optimization", ICLR 2015; Loshchilov and Hutter, "Decoupled Weight Decay Regularization", ICLR 2019.

use super::cpu::widest;

/// β₁ and β₂ of the paper.
pub const BETAS: [f64; 2] = [0.9, 0.999];
/// ε of the paper.
pub const EPSILON: f64 = 1e-8;

/// Partial sums of [`sum_of_squares`], so that the compiler can use vector instructions.
const LANES: usize = 16;

/// Scalar factors of one Adam step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdamCoefficients {
    /// Factor of the gradient (gradient clipping).
    pub gradient_scale: f32,
    /// −learning rate / (1 − β₁ᵗ).
    pub negative_step_size: f32,
    /// √(1 − β₂ᵗ).
    pub bias_correction2_sqrt: f32,
    /// Factor of the parameters before the step: 1 − learning rate · weight decay.
    pub parameter_scale: f32,
}

/// Updates parameters and moments as `torch.optim.AdamW` does, and without weight decay as `torch.optim.Adam`, with `g` the gradient times `gradient_scale`:
///
/// ```text
/// m ← m + (1 − β₁)(g − m)
/// v ← β₂·v + (1 − β₂)·g²
/// p ← p · parameter_scale + negative_step_size · m / (√v / bias_correction2_sqrt + ε)
/// ```
///
/// # Shapes
/// All slices: `n_parameters`.
pub fn step(parameters: &mut [f32], gradients: &[f32], m: &mut [f32], v: &mut [f32], rates: AdamCoefficients) {
    widest!(step_in(parameters: &mut [f32], gradients: &[f32], m: &mut [f32], v: &mut [f32], rates: AdamCoefficients));
}

/// Sum of the squares, in f64.
#[must_use]
pub fn sum_of_squares(values: &[f32]) -> f64 {
    widest!(squares_in(values: &[f32]) -> f64)
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
#[expect(clippy::cast_possible_truncation, reason = "constants in f32")]
fn step_in(parameters: &mut [f32], gradients: &[f32], m: &mut [f32], v: &mut [f32], rates: AdamCoefficients) {
    let [keep, rest] = [BETAS[1], 1.0 - BETAS[1]].map(|beta| beta as f32);
    let (follow, epsilon) = ((1.0 - BETAS[0]) as f32, EPSILON as f32);
    for (((p, g), m), v) in parameters.iter_mut().zip(gradients).zip(m).zip(v) {
        let g = g * rates.gradient_scale;
        *m += follow * (g - *m);
        *v = *v * keep + g * g * rest;
        let change = rates.negative_step_size * (*m / (v.sqrt() / rates.bias_correction2_sqrt + epsilon));
        *p = *p * rates.parameter_scale + change;
    }
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn squares_in(values: &[f32]) -> f64 {
    let (blocks, rest) = values.as_chunks::<LANES>();
    let mut sums = [0.0f64; LANES];
    for block in blocks {
        for (sum, &value) in sums.iter_mut().zip(block) {
            *sum += f64::from(value) * f64::from(value);
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three steps against the paper's formulas in f64.
    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "the parameters are f32")]
    fn three_steps_match_the_formulas_of_the_paper() {
        let gradients = [[0.5f32, -2.0, 0.0], [0.25, 1.0, 0.0], [-0.5, 3.0, 1e-3]];
        let (mut p, mut m, mut v) = ([1.0f32, -1.0, 0.5], [0.0f32; 3], [0.0f32; 3]);
        let (mut expected, mut first, mut second) = ([1.0f64, -1.0, 0.5], [0.0f64; 3], [0.0f64; 3]);
        for (t, gradient) in (1..).zip(gradients) {
            let corrected = [1.0 - BETAS[0].powi(t), 1.0 - BETAS[1].powi(t)];
            let rates = AdamCoefficients {
                gradient_scale: 0.5,
                negative_step_size: (-0.01 / corrected[0]) as f32,
                bias_correction2_sqrt: corrected[1].sqrt() as f32,
                parameter_scale: 1.0 - 0.01 * 0.5,
            };
            step(&mut p, &gradient, &mut m, &mut v, rates);
            for i in 0..3 {
                let g = 0.5 * f64::from(gradient[i]);
                first[i] = BETAS[0] * first[i] + (1.0 - BETAS[0]) * g;
                second[i] = BETAS[1] * second[i] + (1.0 - BETAS[1]) * g * g;
                expected[i] -= 0.01 * 0.5 * expected[i];
                expected[i] -= 0.01 * (first[i] / corrected[0]) / ((second[i] / corrected[1]).sqrt() + EPSILON);
                assert!((f64::from(p[i]) - expected[i]).abs() < 1e-6, "step {t}, {i}: {} and {}", p[i], expected[i]);
            }
        }
    }

    #[test]
    fn squares_are_summed_in_f64() {
        let values: Vec<f32> = (0..1001u16).map(f32::from).collect();
        assert_eq!(sum_of_squares(&values), 1000.0 * 1001.0 * 2001.0 / 6.0);
        assert_eq!(sum_of_squares(&[3e38; 2]), 2.0 * f64::from(3e38f32).powi(2));
        assert!(sum_of_squares(&[f32::NAN]).is_nan());
    }
}
