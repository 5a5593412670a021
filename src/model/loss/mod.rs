//! Objectives on tensors: scores of a batch in, one number out, gradient by libtorch.
//!
//! `scores` is `[n, n]`, image by caption, with the matching pairs on the diagonal. Each file has a plain twin in
//! [`kernels::loss`](crate::kernels::loss), which it is tested against.

pub mod sum;
pub mod max;

pub use max::max;
pub use sum::sum;

use tch::{Kind, Tensor};

/// The scores with −∞ in place of the matching pairs.
fn negatives(scores: &Tensor) -> Tensor {
    let matching = Tensor::eye(scores.size()[0], (Kind::Bool, scores.device()));
    scores.masked_fill(&matching, f64::NEG_INFINITY)
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use tch::Tensor;

    use crate::kernels;
    use crate::kernels::sample::Sample;

    type OnTensors = fn(&Tensor, f64) -> Tensor;
    type Reference = fn(&[f64], usize, f64) -> kernels::loss::Loss;

    fn value_and_gradient(loss: OnTensors, scores: &[f64], n: usize, margin: f64) -> (f64, Vec<f64>) {
        let size = i64::try_from(n).expect("a small number");
        let scores = Tensor::from_slice(scores).view([size, size]).set_requires_grad(true);
        let value = loss(&scores, margin);
        let gradient = Tensor::run_backward(&[&value], &[&scores], false, false).remove(0);
        (value.double_value(&[]), Vec::try_from(gradient.flatten(0, -1)).expect("f64 values"))
    }

    fn close(a: &[f64], b: &[f64]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-10)
    }

    #[test]
    fn tensors_agree_with_the_references() {
        let pairs: [(OnTensors, Reference); 2] = [(super::sum, kernels::loss::sum), (super::max, kernels::loss::max)];
        for (n, seed) in [(1, 0), (2, 1), (3, 2), (7, 3), (32, 4), (128, 5)] {
            let mut sample = Sample::new(seed, &[]);
            let scores: Vec<f64> = (0..n * n).map(|_| 2.0 * sample.unit() - 1.0).collect();
            for (on_tensors, reference) in pairs {
                let (value, gradient) = value_and_gradient(on_tensors, &scores, n, 0.2);
                let wanted = reference(&scores, n, 0.2);
                assert!((value - wanted.value).abs() < 1e-10 * wanted.value.max(1.0), "{n}: {value}, {wanted:?}");
                assert!(close(&gradient, &wanted.gradient), "{n}: gradients differ");
            }
        }
    }

    #[derive(Deserialize)]
    struct Case {
        n: usize,
        margin: f64,
        scores: Vec<f64>,
        sum: (f64, Vec<f64>),
        max: (f64, Vec<f64>),
    }

    /// `tests/golden/losses.py` wrote these with PyTorch, from the formulas of the papers.
    #[test]
    fn both_agree_with_pytorch() {
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("../../../tests/golden/losses.json")).expect("golden cases");
        assert!(cases.len() >= 4);
        for case in cases {
            for (on_tensors, reference, (value, gradient)) in [
                (super::sum as OnTensors, kernels::loss::sum as Reference, &case.sum),
                (super::max, kernels::loss::max, &case.max),
            ] {
                let got = value_and_gradient(on_tensors, &case.scores, case.n, case.margin);
                assert!((got.0 - value).abs() < 1e-10 && close(&got.1, gradient), "tensors: {got:?}");
                let got = reference(&case.scores, case.n, case.margin);
                assert!((got.value - value).abs() < 1e-10 && close(&got.gradient, gradient), "reference: {got:?}");
            }
        }
    }

    #[test]
    fn a_single_pair_costs_nothing_and_moves_nothing() {
        for loss in [super::sum as OnTensors, super::max] {
            assert_eq!(value_and_gradient(loss, &[0.3], 1, 0.2), (0.0, vec![0.0]));
        }
    }
}
