//! Pooling of the states of a caption: mean and maximum, with their gradients.

use tch::{Device, Kind, Tensor};

use super::packed_captions::PackedCaptions;
pub use pairloom_spec::family::vse::CaptionPooling;

/// Mean over the words of each caption: `[n, d]` of packed words to `[b, d]`, longest caption first.
pub(super) fn mean(states: &Tensor, packed: &PackedCaptions) -> Tensor {
    let sums =
        Tensor::zeros([to_i64(packed.unsorted_indices.len()), states.size()[1]], (states.kind(), states.device()));
    sums.index_add(0, &index_tensor(&packed.caption_of_word(), states.device()), states) / lengths(packed, states)
}

/// Gradient in the states, `[n, d]`, from that in their [mean], `[b, d]`.
pub(super) fn mean_backward(d: &Tensor, packed: &PackedCaptions) -> Tensor {
    (d / lengths(packed, d)).index_select(0, &index_tensor(&packed.caption_of_word(), d.device()))
}

/// Maximum over the words of each caption, of the shape of [mean], and the position of the first word that has it.
pub(super) fn max(states: &Tensor, packed: &PackedCaptions) -> (Tensor, Tensor) {
    let mut start = to_i64(packed.batch_sizes[0]);
    let pooled = states.narrow(0, 0, start).copy();
    let argmax = Tensor::zeros(pooled.size(), (Kind::Int64, states.device()));
    for (t, &size) in packed.batch_sizes.iter().enumerate().skip(1) {
        let state = states.narrow(0, start, to_i64(size));
        let mut best = pooled.narrow(0, 0, to_i64(size));
        let _ = argmax.narrow(0, 0, to_i64(size)).masked_fill_(&state.gt_tensor(&best), to_i64(t));
        best.copy_(&best.maximum(&state));
        start += to_i64(size);
    }
    (pooled, argmax)
}

/// Gradient in the states, `[n, d]`, from that in their [max], `[b, d]`, and the positions that [max] returned.
pub(super) fn max_backward(d: &Tensor, argmax: &Tensor, packed: &PackedCaptions) -> Tensor {
    let positions = (0..).zip(&packed.batch_sizes).map(|(t, &size)| {
        let here = argmax.narrow(0, 0, to_i64(size)).eq(t).to_kind(d.kind());
        here * d.narrow(0, 0, to_i64(size))
    });
    Tensor::cat(&positions.collect::<Vec<_>>(), 0)
}

/// Number of words of each caption, `[b, 1]`.
fn lengths(packed: &PackedCaptions, like: &Tensor) -> Tensor {
    index_tensor(&packed.lengths(), like.device()).to_kind(like.kind()).unsqueeze(1)
}

/// Converts indices to a tensor.
pub(super) fn index_tensor(rows: &[usize], device: Device) -> Tensor {
    let rows: Vec<i64> = rows.iter().map(|&row| to_i64(row)).collect();
    Tensor::from_slice(&rows).to_device(device)
}

/// Converts a count to libtorch's type.
pub(super) fn to_i64(count: usize) -> i64 {
    i64::try_from(count).expect("a batch has fewer than 2^63 words")
}
