//! The gates of a gated recurrent unit and their gradient, for vectors of [`COLUMNS`] units: what lies between two matrix
//! products, in one pass.
//!
//! Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", EMNLP 2014, in the form that PyTorch documents.
//! With `x`, the product of the word with `W_ih` plus `b_ih`, and `q`, that of the state `h` with `W_hh` plus `b_hh`:
//!
//! ```text
//! r = σ(x_r + q_r)    z = σ(x_z + q_z)    n = tanh(x_n + r∘q_n)    h' = (1 − z)∘n + z∘h
//! ```

use super::cpu::widest;
use super::product::COLUMNS;

/// Values of as many units as a tile has columns.
pub type Units = [f32; COLUMNS];

/// What one step of the recurrence reads and writes for some units of a caption.
#[derive(Debug)]
pub struct Step<'v> {
    /// `x` for r, z and n.
    pub inputs: &'v [Units; 3],
    /// `q` without the bias, for r, z and n.
    pub products: [&'v Units; 3],
    /// `b_hh`, for r, z and n.
    pub bias: &'v [Units; 3],
    /// `h`.
    pub before: &'v Units,
    /// r, z and n.
    pub gates: &'v mut [Units; 3],
    /// `q_n`.
    pub candidate: &'v mut Units,
    /// `h'`.
    pub state: &'v mut Units,
}

/// What one step backwards reads and writes for some units of a caption.
#[derive(Debug)]
pub struct StepBack<'v> {
    /// `h`.
    pub before: &'v Units,
    /// The gradient of `h'`; then the part of that of `h` which does not go through `q`.
    pub state: &'v mut Units,
    /// r, z and n; then the gradients of `q`.
    pub gates: &'v mut [Units; 3],
    /// `q_n`; then the gradient of `x_n`. Those of `x_r` and `x_z` are those of `q_r` and `q_z`.
    pub candidate: &'v mut Units,
}

/// One step of the recurrence.
pub fn forward(step: Step<'_>) {
    widest!(forward_in(step: Step<'_>));
}

/// One step of its gradient.
pub fn backward(step: StepBack<'_>) {
    widest!(backward_in(step: StepBack<'_>));
}

/// Adds `values` to `sums`.
#[inline(never)] // Compiled here, with the optimisation of this package.
pub fn add(sums: &mut [f32], values: &[f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// Sums over all rows of `panels` panels of units each.
pub fn column_sums(rows: &[[Units; 3]], panels: usize) -> Vec<[Units; 3]> {
    let mut sums = vec![[[0.0; COLUMNS]; 3]; panels];
    for row in rows.chunks_exact(panels) {
        add(sums.as_flattened_mut().as_flattened_mut(), row.as_flattened().as_flattened());
    }
    sums
}

/// Gradients of `x` of each of `distinct` words, summed over its occurrences. `gates` and `candidates` are what [`backward`]
/// made of them, `panels` panels of units for each of `words`.
pub fn occurrence_sums(
    words: &[usize],
    distinct: usize,
    panels: usize,
    gates: &[[Units; 3]],
    candidates: &[Units],
) -> Vec<[Units; 3]> {
    let mut sums = vec![[[0.0; COLUMNS]; 3]; distinct * panels];
    let rows = gates.chunks_exact(panels).zip(candidates.chunks_exact(panels));
    for (&word, (gates, candidates)) in words.iter().zip(rows) {
        for ((sums, [r, z, _]), n) in sums[word * panels..][..panels].iter_mut().zip(gates).zip(candidates) {
            for (sums, values) in sums.iter_mut().zip([r, z, n]) {
                add(sums, values);
            }
        }
    }
    sums
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn forward_in(step: Step<'_>) {
    let Step { inputs: [x_r, x_z, x_n], products: [q_r, q_z, q_n], bias: [b_r, b_z, b_n], .. } = step;
    let [r, z, n] = step.gates;
    for i in 0..COLUMNS {
        r[i] = sigmoid(x_r[i] + (q_r[i] + b_r[i]));
        z[i] = sigmoid(x_z[i] + (q_z[i] + b_z[i]));
        step.candidate[i] = q_n[i] + b_n[i];
    }
    for i in 0..COLUMNS {
        n[i] = tanh(x_n[i] + r[i] * step.candidate[i]);
        step.state[i] = n[i] + z[i] * (step.before[i] - n[i]);
    }
}

/// ∂h'/∂z = h − n, ∂h'/∂n = 1 − z, ∂h'/∂h = z; then through σ and tanh.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn backward_in(step: StepBack<'_>) {
    let [rs, zs, ns] = step.gates;
    for i in 0..COLUMNS {
        let (r, z, n, d) = (rs[i], zs[i], ns[i], step.state[i]);
        let d_z = (step.before[i] - n) * d * (z * (1.0 - z));
        let d_n = (d - d * z) * (1.0 - n * n);
        rs[i] = d_n * step.candidate[i] * (r * (1.0 - r));
        zs[i] = d_z;
        ns[i] = d_n * r;
        step.candidate[i] = d_n;
        step.state[i] = d * z;
    }
}

/// 1 / (1 + e⁻ˣ).
#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The hyperbolic tangent: its series near 0, where the other formula loses digits.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn tanh(x: f32) -> f32 {
    let far = 1.0 - 2.0 / (1.0 + exp(2.0 * x));
    let s = x * x;
    let series = s * (-1.0 / 3.0 + s * (2.0 / 15.0 + s * (-17.0 / 315.0 + s * (62.0 / 2835.0))));
    if s < 0.0625 { x + x * series } else { far }
}

/// eˣ to 2 units in the last place, for x within ±87; beyond, as at the ends. x = k·ln 2 + r with |r| ≤ ln 2 / 2, then the
/// series of eʳ to r⁷, whose rest is below 6·10⁻⁹.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Adding 1.5·2²³ rounds to a whole number, which then stands in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    // ln 2 in two parts: the product of k with the first one is exact.
    const LN2: [f32; 2] = [355.0 / 512.0, -2.121_944_4e-4];
    let x = x.clamp(-87.0, 87.0);
    let rounded = x * std::f32::consts::LOG2_E + ROUND;
    let k = rounded - ROUND;
    let r = x - k * LN2[0] - k * LN2[1];
    let series = 1.0 / 120.0 + r * (1.0 / 720.0 + r * (1.0 / 5040.0));
    let series = 1.0 + r * (1.0 + r * (0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * series))));
    series * f32::from_bits(rounded.to_bits().wrapping_add(127) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "the standard library's value, rounded once")]
    fn the_functions_are_those_of_the_standard_library() {
        for i in -20_000..20_000i16 {
            let x = f32::from(i) / 233.0;
            let exact = f64::from(x);
            let relative = |got: f32, wanted: f64| ((f64::from(got) - wanted) / wanted).abs();
            assert!(relative(exp(x), exact.exp()) < 3e-7, "exp({x}) = {}", exp(x));
            assert!(relative(sigmoid(x), 1.0 / (1.0 + (-exact).exp())) < 5e-7, "sigmoid({x})");
            assert!(
                i == 0 || relative(tanh(x), exact.tanh()) < 1e-6,
                "tanh({x}) = {}, {}",
                tanh(x),
                exact.tanh() as f32
            );
        }
        assert_eq!((tanh(0.0), sigmoid(0.0), exp(0.0)), (0.0, 0.5, 1.0));
        assert_eq!((sigmoid(f32::INFINITY), tanh(f32::NEG_INFINITY)), (1.0, -1.0));
        assert!([exp(f32::NAN), tanh(f32::NAN), sigmoid(f32::NAN)].iter().all(|value| value.is_nan()));
    }

    fn units(seed: u16) -> Units {
        std::array::from_fn(|i| ((f32::from(seed) * 0.37 + f32::from(u8::try_from(i).expect("a unit"))) * 1.7).sin())
    }

    /// The formulas in f64.
    fn state(x: [f64; 3], q: [f64; 3], before: f64) -> f64 {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let (r, z) = (sigmoid(x[0] + q[0]), sigmoid(x[1] + q[1]));
        (1.0 - z) * (x[2] + r * q[2]).tanh() + z * before
    }

    /// Against the formula, and its central differences.
    #[test]
    fn a_step_and_its_gradient_are_those_of_the_formula() {
        let (inputs, bias) = ([units(1), units(2), units(3)], [units(4), units(5), units(6)]);
        let (products, before, pull) = ([units(7), units(8), units(9)], units(10), units(11));
        let (mut gates, mut candidate, mut after) = ([[0.0; COLUMNS]; 3], [0.0; COLUMNS], [0.0; COLUMNS]);
        let (gates, candidate) = (&mut gates, &mut candidate);
        forward(Step {
            inputs: &inputs,
            products: products.each_ref(),
            bias: &bias,
            before: &before,
            gates,
            candidate,
            state: &mut after,
        });
        let mut d = pull;
        backward(StepBack { before: &before, state: &mut d, gates, candidate });
        for i in 0..COLUMNS {
            let x = inputs.map(|x| f64::from(x[i]));
            let q = [0, 1, 2].map(|g| f64::from(products[g][i]) + f64::from(bias[g][i]));
            let h = f64::from(before[i]);
            assert!((f64::from(after[i]) - state(x, q, h)).abs() < 1e-6, "unit {i}");
            let slope = |f: &dyn Fn(f64) -> f64| f64::from(pull[i]) * (f(1e-4) - f(-1e-4)) / 2e-4;
            let moved = |values: [f64; 3], g: usize, by: f64| {
                let mut values = values;
                values[g] += by;
                values
            };
            for (g, gate) in gates.iter().enumerate() {
                let wanted = slope(&|by| state(x, moved(q, g, by), h));
                assert!((f64::from(gate[i]) - wanted).abs() < 1e-5, "q {g} of unit {i}");
                let wanted = slope(&|by| state(moved(x, g, by), q, h));
                let got = if g == 2 { candidate[i] } else { gate[i] };
                assert!((f64::from(got) - wanted).abs() < 1e-5, "x {g} of unit {i}");
            }
            assert!((f64::from(d[i]) - slope(&|by| state(x, q, h + by))).abs() < 1e-5, "h of unit {i}");
        }
    }

    /// Three words, of which the first and the last are the same one.
    #[test]
    fn gradients_of_a_word_are_summed_over_its_occurrences() {
        let gates = [1.0, 2.0, 4.0].map(|x| [[x; COLUMNS], [10.0 * x; COLUMNS], [100.0 * x; COLUMNS]]);
        let candidates = [3.0, 5.0, 7.0].map(|x| [x; COLUMNS]);
        let sums = occurrence_sums(&[1, 0, 1], 2, 1, &gates, &candidates);
        assert_eq!(sums, [[2.0, 20.0, 5.0], [5.0, 50.0, 10.0]].map(|word| word.map(|x| [x; COLUMNS])));
        assert_eq!(column_sums(&sums, 1), [[7.0, 70.0, 15.0].map(|x| [x; COLUMNS])]);
        assert_eq!(column_sums(&sums, 2), sums);
    }
}
