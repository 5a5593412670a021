//! Relevances of cross attention: cosines of queries with the contexts that they attend to.
//!
//! ```text
//! a_cq = f(s_cq) / (‖f(s_c·)‖₂ + 10⁻⁸)      p_cq = softmax over contexts c of λ · a_cq
//! r_q = Σ_c p_cq · s_cq / √(pᵀ G p)         G = products of the contexts with each other
//! ```
//!
//! `s_cq` is the cosine of context c and query q, and f a (leaky) ReLU. Source: Lee et al., "Stacked Cross Attention for
//! Image-Text Matching", ECCV 2018, equations 1 to 4; the denominator is the norm of the attended vector Σ p · c.

#![expect(clippy::inline_always, reason = "functions take the instructions of the function that they are in")]

use crate::cpu::widest;
use crate::exp::exp;

/// Added to the norms of products, and smallest norm of an attended vector.
const EPSILON: f32 = 1e-8;

/// Queries that are computed together: a vector of AVX-512.
const LANES: usize = 16;

/// Contexts whose products with the others are summed together, so that additions do not wait for each other.
const GROUP: usize = 4;

/// Form of the attention.
#[derive(Debug, Clone, Copy)]
pub struct CrossAttention {
    /// Slope of f for negative cosines: 0 for a ReLU.
    pub negative_slope: f32,
    /// Inverse temperature λ.
    pub lambda: f32,
}

/// Contexts of one set and queries of another.
#[derive(Debug, Clone, Copy)]
pub struct CrossProducts<'s> {
    /// Products of contexts and queries: rows of `stride` values, one for each context, with `queries` values in use.
    pub products: &'s [f32],
    /// Distance of two rows.
    pub stride: usize,
    /// Number of queries.
    pub queries: usize,
    /// Products of the contexts with each other, `[contexts, contexts]`.
    pub gram: &'s [f32],
    /// Number of contexts.
    pub contexts: usize,
}

/// Memory of [`relevances`], to be used again.
#[derive(Debug, Default)]
pub struct AttentionMemory {
    /// λ / (norm + ε) of each context.
    scales: Vec<f32>,
    /// Weights of a group of queries, a row for each context.
    weights: Vec<[f32; LANES]>,
}

/// Computes the relevance of each query, NaN if a product that it depends on is NaN.
///
/// # Cost
/// Time: O(`contexts`² · `queries`). No memory beyond `memory`.
///
/// # Panics
/// `products`, `gram` or `out` are too short.
pub fn relevances(form: CrossAttention, sets: CrossProducts<'_>, memory: &mut AttentionMemory, out: &mut [f32]) {
    widest!(fused(form: CrossAttention, sets: CrossProducts<'_>, memory: &mut AttentionMemory, out: &mut [f32]));
}

#[inline(always)]
fn fused(form: CrossAttention, sets: CrossProducts<'_>, memory: &mut AttentionMemory, out: &mut [f32]) {
    let CrossProducts { products, stride, queries, gram, contexts } = sets;
    let row = |context: usize| &products[context * stride..][..queries];
    let AttentionMemory { scales, weights } = memory;
    scales.clear();
    scales.extend((0..contexts).map(|context| form.lambda / (norm(form, row(context)) + EPSILON)));
    // Rows of zeros fill the last group.
    weights.clear();
    weights.resize(contexts.next_multiple_of(GROUP), [0.0; LANES]);
    for (first, out) in (0..queries).step_by(LANES).zip(out[..queries].chunks_mut(LANES)) {
        let mut most = [f32::NEG_INFINITY; LANES];
        for (context, (weights, &scale)) in weights.iter_mut().zip(&*scales).enumerate() {
            let cosines = lanes(row(context), first);
            for lane in 0..LANES {
                weights[lane] = activate(form, cosines[lane]) * scale;
                most[lane] = most[lane].max(weights[lane]);
            }
        }
        let (mut sum, mut along) = ([0.0; LANES], [0.0; LANES]);
        for (context, weights) in weights[..contexts].iter_mut().enumerate() {
            let cosines = lanes(row(context), first);
            for lane in 0..LANES {
                weights[lane] = exp(weights[lane] - most[lane]);
                sum[lane] += weights[lane];
                along[lane] += weights[lane] * cosines[lane];
            }
        }
        let squares = squared_norms(gram, contexts, weights);
        for (lane, out) in out.iter_mut().enumerate() {
            let square = (squares[lane] / (sum[lane] * sum[lane])).max(EPSILON * EPSILON);
            *out = along[lane] / sum[lane] / square.sqrt();
        }
    }
}

/// `pᵀ G p` of each query, for weights p of the contexts.
#[inline(always)]
fn squared_norms(gram: &[f32], contexts: usize, weights: &[[f32; LANES]]) -> [f32; LANES] {
    let mut squares = [0.0; LANES];
    for (group, group_weights) in weights.as_chunks::<GROUP>().0.iter().enumerate() {
        // The last row is read again in place of those after the end, and multiplied by weights of zero.
        let row = |i: usize| &gram[(group * GROUP + i).min(contexts - 1) * contexts..][..contexts];
        let (rows, mut sums) = ([row(0), row(1), row(2), row(3)], [[0.0; LANES]; GROUP]);
        for (other, weights) in weights[..contexts].iter().enumerate() {
            // One array after another: the compiler keeps each in a register.
            let [a, b, c, d] = sums;
            sums = [
                add_scaled(a, rows[0][other], weights),
                add_scaled(b, rows[1][other], weights),
                add_scaled(c, rows[2][other], weights),
                add_scaled(d, rows[3][other], weights),
            ];
        }
        for (sums, weights) in sums.iter().zip(group_weights) {
            squares = std::array::from_fn(|lane| squares[lane] + sums[lane] * weights[lane]);
        }
    }
    squares
}

#[inline(always)]
fn add_scaled(sums: [f32; LANES], scale: f32, values: &[f32; LANES]) -> [f32; LANES] {
    std::array::from_fn(|lane| sums[lane] + scale * values[lane])
}

/// f of a cosine. NaN stays NaN.
#[inline(always)]
fn activate(form: CrossAttention, cosine: f32) -> f32 {
    if cosine < 0.0 { cosine * form.negative_slope } else { cosine }
}

/// Norm of the activated products of a context.
#[inline(always)]
fn norm(form: CrossAttention, row: &[f32]) -> f32 {
    let mut squares = [0.0; LANES];
    for first in (0..row.len()).step_by(LANES) {
        let cosines = lanes(row, first);
        for lane in 0..LANES {
            let active = activate(form, cosines[lane]);
            squares[lane] += active * active;
        }
    }
    squares.iter().sum::<f32>().sqrt()
}

/// Values of a row from `first` on, zeros after its end.
#[inline(always)]
fn lanes(row: &[f32], first: usize) -> [f32; LANES] {
    match row[first..].first_chunk() {
        Some(values) => *values,
        None => {
            let mut values = [0.0; LANES];
            values[..row.len() - first].copy_from_slice(&row[first..]);
            values
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Rng;

    /// The definition in f64, with the attended vectors formed.
    fn definition(form: CrossAttention, contexts: &[Vec<f64>], queries: &[Vec<f64>]) -> Vec<f64> {
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let active = |c: &[f64], q: &[f64]| {
            let cosine = dot(c, q);
            if cosine < 0.0 { cosine * f64::from(form.negative_slope) } else { cosine }
        };
        let norm = |c: &[f64]| queries.iter().map(|q| active(c, q).powi(2)).sum::<f64>().sqrt() + 1e-8;
        let weight = |c: &[f64], q: &[f64]| (f64::from(form.lambda) * active(c, q) / norm(c)).exp();
        let relevance = |q: &Vec<f64>| {
            let total: f64 = contexts.iter().map(|c| weight(c, q)).sum();
            let mut attended = vec![0.0; q.len()];
            for c in contexts {
                attended.iter_mut().zip(c).for_each(|(sum, value)| *sum += weight(c, q) / total * value);
            }
            dot(&attended, q) / dot(&attended, &attended).sqrt()
        };
        queries.iter().map(relevance).collect()
    }

    #[expect(clippy::cast_possible_truncation, reason = "products are f32")]
    fn products(a: &[Vec<f64>], b: &[Vec<f64>], stride: usize) -> Vec<f32> {
        let row = |a: &Vec<f64>| {
            let dots = b.iter().map(|b| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() as f32);
            dots.chain(std::iter::repeat(f32::NAN)).take(stride).collect::<Vec<_>>()
        };
        a.iter().flat_map(row).collect()
    }

    fn unit_vectors(count: usize, rng: &mut Rng) -> Vec<Vec<f64>> {
        let vector = |rng: &mut Rng| {
            let values: Vec<f64> = (0..7).map(|_| rng.uniform() - 0.3).collect();
            let norm = values.iter().map(|value| value * value).sum::<f64>().sqrt();
            values.into_iter().map(|value| value / norm).collect()
        };
        (0..count).map(|_| vector(rng)).collect()
    }

    #[test]
    fn relevances_follow_the_definition() {
        let mut rng = Rng::new(4, &[]);
        let mut memory = AttentionMemory::default();
        const SIZES: &[(usize, usize)] = if cfg!(miri) {
            &[(1, 17), (5, 3)]
        } else {
            &[(1, 1), (1, 20), (4, 16), (36, 14), (5, 17), (36, 33), (3, 1), (50, 48)]
        };
        for &(contexts, queries) in SIZES {
            for form in [(0.0, 9.0), (0.1, 9.0), (0.1, 4.0), (0.0, 300.0)] {
                let form = CrossAttention { negative_slope: form.0, lambda: form.1 };
                let (c, q) = (unit_vectors(contexts, &mut rng), unit_vectors(queries, &mut rng));
                let stride = queries + 3;
                let (cosines, gram) = (products(&c, &q, stride), products(&c, &c, contexts));
                let sets = CrossProducts { products: &cosines, stride, queries, gram: &gram, contexts };
                let mut out = vec![0.0; queries + 1];
                relevances(form, sets, &mut memory, &mut out);
                for (got, expected) in out.iter().zip(definition(form, &c, &q)) {
                    assert!(
                        (f64::from(*got) - expected).abs() < 2e-5,
                        "{contexts} × {queries}, {form:?}: {got}, {expected}"
                    );
                }
                assert_eq!(out[queries], 0.0);
            }
        }
    }

    #[test]
    fn a_query_that_is_not_a_number_is_reported() {
        let (gram, form) = ([1.0; 4], CrossAttention { negative_slope: 0.1, lambda: 9.0 });
        let mut out = [0.0; 2];
        let sets =
            CrossProducts { products: &[0.5, f32::NAN, 0.5, 0.2], stride: 2, queries: 2, gram: &gram, contexts: 2 };
        relevances(form, sets, &mut AttentionMemory::default(), &mut out);
        assert!(out[1].is_nan(), "{out:?}");
    }
}
