//! From the states after each word of a caption to one vector: mean and maximum with their gradients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::{Device, Kind, Tensor};

use super::packed::Packed;

/// How the states after each word of a caption become one vector. Words beyond the end of a caption take no part.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The state after the last word (VSE++); of the direction that starts at the end, the state after the first.
    #[default]
    Last,
    /// The mean over the words.
    Mean,
    /// The largest over the words, value by value.
    Max,
}

/// The mean over the words of each caption: `[n, d]` of packed words to `[b, d]`, longest caption first.
pub(super) fn mean(states: &Tensor, packed: &Packed) -> Tensor {
    let sums = Tensor::zeros([number(packed.places.len()), states.size()[1]], (states.kind(), states.device()));
    sums.index_add(0, &rows(&packed.captions(), states.device()), states) / lengths(packed, states)
}

/// The gradient in the states, `[n, d]`, from that in their [mean], `[b, d]`.
pub(super) fn mean_backward(d: &Tensor, packed: &Packed) -> Tensor {
    (d / lengths(packed, d)).index_select(0, &rows(&packed.captions(), d.device()))
}

/// The largest value over the words of each caption, as [mean] its mean, and the position of the first word that has it.
pub(super) fn max(states: &Tensor, packed: &Packed) -> (Tensor, Tensor) {
    let mut start = number(packed.sizes[0]);
    let pooled = states.narrow(0, 0, start).copy();
    let largest = Tensor::zeros(pooled.size(), (Kind::Int64, states.device()));
    for (t, &size) in packed.sizes.iter().enumerate().skip(1) {
        let state = states.narrow(0, start, number(size));
        let mut best = pooled.narrow(0, 0, number(size));
        let _ = largest.narrow(0, 0, number(size)).masked_fill_(&state.gt_tensor(&best), number(t));
        best.copy_(&best.maximum(&state));
        start += number(size);
    }
    (pooled, largest)
}

/// The gradient in the states, `[n, d]`, from that in their [max], `[b, d]`, and the positions that it gave.
pub(super) fn max_backward(d: &Tensor, largest: &Tensor, packed: &Packed) -> Tensor {
    let positions = (0..).zip(&packed.sizes).map(|(t, &size)| {
        let here = largest.narrow(0, 0, number(size)).eq(t).to_kind(d.kind());
        here * d.narrow(0, 0, number(size))
    });
    Tensor::cat(&positions.collect::<Vec<_>>(), 0)
}

/// Words of each caption, `[b, 1]`.
fn lengths(packed: &Packed, like: &Tensor) -> Tensor {
    rows(&packed.lengths(), like.device()).to_kind(like.kind()).unsqueeze(1)
}

/// Indices as a tensor.
pub(super) fn rows(rows: &[usize], device: Device) -> Tensor {
    let rows: Vec<i64> = rows.iter().map(|&row| number(row)).collect();
    Tensor::from_slice(&rows).to_device(device)
}

/// A count as libtorch has it.
pub(super) fn number(count: usize) -> i64 {
    i64::try_from(count).expect("a batch has fewer than 2^63 words")
}
