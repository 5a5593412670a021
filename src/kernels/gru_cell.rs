//! The cell of a gated recurrent unit (GRU) and its gradient: the elementwise operations between two matrix products,
//! in one pass over blocks of [`TILE_COLUMNS`] units.
//!
//! Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", EMNLP 2014, in the form documented by
//! PyTorch. With `x = W_ih · word + b_ih` and `q = W_hh · h + b_hh`:
//!
//! ```text
//! r = σ(x_r + q_r)    z = σ(x_z + q_z)    n = tanh(x_n + r∘q_n)    h' = (1 − z)∘n + z∘h
//! ```

use super::cpu::widest;
use super::product::TILE_COLUMNS;

/// Values of a block of hidden units, one a column of a tile.
pub type UnitBlock = [f32; TILE_COLUMNS];

/// Inputs and outputs of one forward step, for a block of hidden units of a caption.
#[derive(Debug)]
pub struct GruForward<'v> {
    /// `x` for r, z and n.
    pub input_products: &'v [UnitBlock; 3],
    /// `W_hh · h`, for r, z and n.
    pub hidden_products: [&'v UnitBlock; 3],
    /// `b_hh`, for r, z and n.
    pub hidden_bias: &'v [UnitBlock; 3],
    /// `h`.
    pub previous_state: &'v UnitBlock,
    /// r, z and n.
    pub gates: &'v mut [UnitBlock; 3],
    /// `q_n`.
    pub hidden_candidate: &'v mut UnitBlock,
    /// `h'`.
    pub state: &'v mut UnitBlock,
}

/// Inputs and outputs of one backward step, for a block of hidden units of a caption. Gradients overwrite their inputs.
#[derive(Debug)]
pub struct GruBackward<'v> {
    /// `h`.
    pub previous_state: &'v UnitBlock,
    /// In: the gradient of `h'`. Out: the gradient of `h`, without the part through `q`.
    pub state: &'v mut UnitBlock,
    /// In: r, z and n. Out: the gradients of `q_r`, `q_z` and `q_n`.
    pub gates: &'v mut [UnitBlock; 3],
    /// In: `q_n`. Out: the gradient of `x_n`. The gradients of `x_r` and `x_z` equal those of `q_r` and `q_z`.
    pub hidden_candidate: &'v mut UnitBlock,
}

/// Computes one step of the recurrence.
pub fn forward(step: GruForward<'_>) {
    widest!(forward_in(step: GruForward<'_>));
}

/// Computes the gradient of one step.
pub fn backward(step: GruBackward<'_>) {
    widest!(backward_in(step: GruBackward<'_>));
}

/// Adds `values` to `sums`.
#[inline(never)] // Compiled in this package, which is always optimised.
pub fn add(sums: &mut [f32], values: &[f32]) {
    widest!(add_in(sums: &mut [f32], values: &[f32]));
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn add_in(sums: &mut [f32], values: &[f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// Column sums of a matrix whose rows have `panels` blocks of units each.
pub fn column_sums(rows: &[[UnitBlock; 3]], panels: usize) -> Vec<[UnitBlock; 3]> {
    let mut sums = vec![[[0.0; TILE_COLUMNS]; 3]; panels];
    for row in rows.chunks_exact(panels) {
        add(sums.as_flattened_mut().as_flattened_mut(), row.as_flattened().as_flattened());
    }
    sums
}

/// Gradients of `x` for each of `distinct` words, summed over its occurrences: `words` holds the index of the distinct
/// word at each occurrence. `gates` and `candidates` are the outputs of [`backward`], `panels` blocks of units an
/// occurrence.
pub fn occurrence_sums(
    words: &[usize],
    distinct: usize,
    panels: usize,
    gates: &[[UnitBlock; 3]],
    candidates: &[UnitBlock],
) -> Vec<[UnitBlock; 3]> {
    widest!(occurrence_sums_in(
        words: &[usize],
        distinct: usize,
        panels: usize,
        gates: &[[UnitBlock; 3]],
        candidates: &[UnitBlock],
    ) -> Vec<[UnitBlock; 3]>)
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn occurrence_sums_in(
    words: &[usize],
    distinct: usize,
    panels: usize,
    gates: &[[UnitBlock; 3]],
    candidates: &[UnitBlock],
) -> Vec<[UnitBlock; 3]> {
    let mut sums = vec![[[0.0; TILE_COLUMNS]; 3]; distinct * panels];
    let rows = gates.chunks_exact(panels).zip(candidates.chunks_exact(panels));
    for (&word, (gates, candidates)) in words.iter().zip(rows) {
        for ((sums, [r, z, _]), n) in sums[word * panels..][..panels].iter_mut().zip(gates).zip(candidates) {
            for (sums, values) in sums.iter_mut().zip([r, z, n]) {
                // Of a known length, so that it is a few vectors. An iterator becomes gathers here.
                for i in 0..TILE_COLUMNS {
                    sums[i] += values[i];
                }
            }
        }
    }
    sums
}

#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn forward_in(step: GruForward<'_>) {
    let GruForward {
        input_products: [x_r, x_z, x_n],
        hidden_products: [q_r, q_z, q_n],
        hidden_bias: [b_r, b_z, b_n],
        ..
    } = step;
    let [r, z, n] = step.gates;
    for i in 0..TILE_COLUMNS {
        r[i] = sigmoid(x_r[i] + (q_r[i] + b_r[i]));
        z[i] = sigmoid(x_z[i] + (q_z[i] + b_z[i]));
        step.hidden_candidate[i] = q_n[i] + b_n[i];
    }
    for i in 0..TILE_COLUMNS {
        n[i] = tanh(x_n[i] + r[i] * step.hidden_candidate[i]);
        step.state[i] = n[i] + z[i] * (step.previous_state[i] - n[i]);
    }
}

/// Uses ∂h'/∂z = h − n, ∂h'/∂n = 1 − z and ∂h'/∂h = z, then the derivatives of σ and tanh.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn backward_in(step: GruBackward<'_>) {
    let [rs, zs, ns] = step.gates;
    for i in 0..TILE_COLUMNS {
        let (r, z, n, d) = (rs[i], zs[i], ns[i], step.state[i]);
        let d_z = (step.previous_state[i] - n) * d * (z * (1.0 - z));
        let d_n = (d - d * z) * (1.0 - n * n);
        rs[i] = d_n * step.hidden_candidate[i] * (r * (1.0 - r));
        zs[i] = d_z;
        ns[i] = d_n * r;
        step.hidden_candidate[i] = d_n;
        step.state[i] = d * z;
    }
}

/// 1 / (1 + e⁻ˣ).
#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The hyperbolic tangent: its power series near 0, where the formula with the exponential loses digits.
#[inline(always)]
#[expect(clippy::inline_always, reason = "it takes the instructions of the function that it is in")]
fn tanh(x: f32) -> f32 {
    let far = 1.0 - 2.0 / (1.0 + exp(2.0 * x));
    let s = x * x;
    let series = s * (-1.0 / 3.0 + s * (2.0 / 15.0 + s * (-17.0 / 315.0 + s * (62.0 / 2835.0))));
    if s < 0.0625 { x + x * series } else { far }
}

/// eˣ within 2 units in the last place; x is clamped to ±87. With x = k·ln 2 + r, |r| ≤ ln 2 / 2, eʳ is its power
/// series up to r⁷, whose remainder is below 6·10⁻⁹.
#[inline(always)]
fn exp(x: f32) -> f32 {
    // Adding 1.5·2²³ rounds to an integer and puts it into the lowest bits.
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
    fn exp_tanh_and_sigmoid_match_the_standard_library() {
        for i in (-20_000..20_000i16).step_by(if cfg!(miri) { 500 } else { 1 }) {
            let x = f32::from(i) / 233.0;
            let exact = f64::from(x);
            let relative = |got: f32, expected: f64| ((f64::from(got) - expected) / expected).abs();
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

    fn units(seed: u16) -> UnitBlock {
        std::array::from_fn(|i| ((f32::from(seed) * 0.37 + f32::from(u8::try_from(i).expect("a unit"))) * 1.7).sin())
    }

    /// The next state of one unit by the formulas, in f64.
    fn next_state(x: [f64; 3], q: [f64; 3], before: f64) -> f64 {
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let (r, z) = (sigmoid(x[0] + q[0]), sigmoid(x[1] + q[1]));
        (1.0 - z) * (x[2] + r * q[2]).tanh() + z * before
    }

    /// Compares with the formula in f64 and its central differences.
    #[test]
    fn a_step_and_its_gradient_match_the_formula() {
        let (inputs, bias) = ([units(1), units(2), units(3)], [units(4), units(5), units(6)]);
        let (products, before, pull) = ([units(7), units(8), units(9)], units(10), units(11));
        let (mut gates, mut candidate, mut after) =
            ([[0.0; TILE_COLUMNS]; 3], [0.0; TILE_COLUMNS], [0.0; TILE_COLUMNS]);
        let (gates, candidate) = (&mut gates, &mut candidate);
        forward(GruForward {
            input_products: &inputs,
            hidden_products: products.each_ref(),
            hidden_bias: &bias,
            previous_state: &before,
            gates,
            hidden_candidate: candidate,
            state: &mut after,
        });
        let mut d = pull;
        backward(GruBackward { previous_state: &before, state: &mut d, gates, hidden_candidate: candidate });
        for i in 0..TILE_COLUMNS {
            let x = inputs.map(|x| f64::from(x[i]));
            let q = [0, 1, 2].map(|g| f64::from(products[g][i]) + f64::from(bias[g][i]));
            let h = f64::from(before[i]);
            assert!((f64::from(after[i]) - next_state(x, q, h)).abs() < 1e-6, "unit {i}");
            let slope = |f: &dyn Fn(f64) -> f64| f64::from(pull[i]) * (f(1e-4) - f(-1e-4)) / 2e-4;
            let moved = |values: [f64; 3], g: usize, by: f64| {
                let mut values = values;
                values[g] += by;
                values
            };
            for (g, gate) in gates.iter().enumerate() {
                let expected = slope(&|by| next_state(x, moved(q, g, by), h));
                assert!((f64::from(gate[i]) - expected).abs() < 1e-5, "q {g} of unit {i}");
                let expected = slope(&|by| next_state(moved(x, g, by), q, h));
                let got = if g == 2 { candidate[i] } else { gate[i] };
                assert!((f64::from(got) - expected).abs() < 1e-5, "x {g} of unit {i}");
            }
            assert!((f64::from(d[i]) - slope(&|by| next_state(x, q, h + by))).abs() < 1e-5, "h of unit {i}");
        }
    }

    /// Three occurrences of two words: the first and the last are the same word.
    #[test]
    fn gradients_of_a_word_are_summed_over_its_occurrences() {
        let gates = [1.0, 2.0, 4.0].map(|x| [[x; TILE_COLUMNS], [10.0 * x; TILE_COLUMNS], [100.0 * x; TILE_COLUMNS]]);
        let candidates = [3.0, 5.0, 7.0].map(|x| [x; TILE_COLUMNS]);
        let sums = occurrence_sums(&[1, 0, 1], 2, 1, &gates, &candidates);
        assert_eq!(sums, [[2.0, 20.0, 5.0], [5.0, 50.0, 10.0]].map(|word| word.map(|x| [x; TILE_COLUMNS])));
        assert_eq!(column_sums(&sums, 1), [[7.0, 70.0, 15.0].map(|x| [x; TILE_COLUMNS])]);
        assert_eq!(column_sums(&sums, 2), sums);
    }
}
