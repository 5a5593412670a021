//! From the states after each word of a caption to one vector.

use tch::{Device, Kind, Tensor};

use super::packed::Packed;
use crate::model::form::Pooling;

/// What the gradient needs.
#[derive(Debug)]
pub(super) struct Pooled {
    pooling: Pooling,
    /// With [`Pooling::Max`], the position of the word that had the largest value, `[b, d]`.
    largest: Option<Tensor>,
}

/// Pools `states`, `[n, d]` of packed words, to `[b, d]`, longest caption first. With [`Pooling::Last`] the state after the
/// last word.
pub(super) fn forward(states: &Tensor, packed: &Packed, pooling: Pooling) -> (Tensor, Pooled) {
    let device = states.device();
    let (pooled, largest) = match pooling {
        Pooling::Last => (states.index_select(0, &rows(&packed.last(), device)), None),
        Pooling::Mean => {
            let sums = Tensor::zeros([number(packed.places.len()), states.size()[1]], (states.kind(), device));
            (sums.index_add(0, &rows(&packed.captions(), device), states) / lengths(packed, states), None)
        }
        Pooling::Max => {
            let mut start = number(packed.sizes[0]);
            let pooled = states.narrow(0, 0, start).copy();
            let largest = Tensor::zeros(pooled.size(), (Kind::Int64, device));
            for (t, &size) in packed.sizes.iter().enumerate().skip(1) {
                let state = states.narrow(0, start, number(size));
                let mut best = pooled.narrow(0, 0, number(size));
                let _ = largest.narrow(0, 0, number(size)).masked_fill_(&state.gt_tensor(&best), number(t));
                best.copy_(&best.maximum(&state));
                start += number(size);
            }
            (pooled, Some(largest))
        }
    };
    (pooled, Pooled { pooling, largest })
}

impl Pooled {
    /// The gradient in the states, `[n, d]`, from that in the pooled vectors, `[b, d]`. Of equal largest values the first
    /// one takes it.
    pub(super) fn backward(self, d: &Tensor, packed: &Packed) -> Tensor {
        let (words, device) = (number(packed.words.len()), d.device());
        match (self.pooling, self.largest) {
            (Pooling::Mean, _) => (d / lengths(packed, d)).index_select(0, &rows(&packed.captions(), device)),
            (Pooling::Max, Some(largest)) => {
                let parts: Vec<Tensor> = (0..)
                    .zip(&packed.sizes)
                    .map(|(t, &size)| {
                        let here = largest.narrow(0, 0, number(size)).eq(t).to_kind(d.kind());
                        here * d.narrow(0, 0, number(size))
                    })
                    .collect();
                Tensor::cat(&parts, 0)
            }
            _ => {
                Tensor::zeros([words, d.size()[1]], (d.kind(), device)).index_copy(0, &rows(&packed.last(), device), d)
            }
        }
    }
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
