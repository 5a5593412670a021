//! Image and caption encoders of VSE++ with hand-written gradients.
//!
//! No graph of libtorch is recorded; each layer has its backward pass beside it. So the embeddings of several ranks can be
//! gathered between the two passes, and each weight gradient of the GRU is one matrix product.

use tch::{Device, Kind, Tensor};

use self::gru::StateGradient;
use self::linear::weight_gradient;
use self::packed_captions::PackedCaptions;
use self::sequence_states::WordStatesTape;

pub use gru::is_libtorch_faster;
pub use linear::{PrecisionProducts, differentiable_linear, matmul_transposed};
use pairloom_spec::family::vse::CaptionPooling;
use pairloom_spec::precision::MatmulPrecision;

pub mod packed_captions;
pub mod sequence_states;
pub mod gru;
mod fused;
mod linear;

/// Tensors that the backward pass needs.
#[derive(Debug)]
pub struct ImageTape {
    features: Tensor,
    unit: NormalizeTape,
}

/// Gradients of the linear layer.
#[derive(Debug)]
pub struct LinearGradients {
    /// Gradient of the weight, `[d, D]`.
    pub weight: Tensor,
    /// Gradient of the bias, `[d]`.
    pub bias: Tensor,
    /// Gradient of the features, `[n, D]`, if requested.
    pub features: Option<Tensor>,
}

/// Computes the embeddings `[n, d]` of features `[n, D]`, L2-normalised if `normalize`, and ending with |·| if
/// `absolute`.
pub fn image_embeddings(
    features: Tensor,
    [weight, bias]: [&Tensor; 2],
    normalize: bool,
    absolute: bool,
    precision: MatmulPrecision,
) -> (Tensor, ImageTape) {
    let rows = matmul_transposed(&features, weight, precision).g_add_(bias);
    let (out, unit) = normalize_rows(rows, normalize, absolute);
    (out, ImageTape { features, unit })
}

impl ImageTape {
    /// Computes the gradients from that in the embeddings, `[n, d]`; that of the features only if `with_features`.
    #[must_use]
    pub fn backward(
        self,
        d: &Tensor,
        weight: &Tensor,
        with_features: bool,
        precision: MatmulPrecision,
    ) -> LinearGradients {
        let d = self.unit.backward(d);
        LinearGradients {
            weight: weight_gradient(&d, &self.features, precision),
            bias: d.sum_dim_intlist([0i64].as_slice(), false, None),
            features: with_features.then(|| precision.matmul(&d, weight)),
        }
    }
}

/// Options of the encoder of captions.
#[derive(Debug, Clone, Copy)]
pub struct CaptionOptions {
    /// Pooling of the states of a caption.
    pub pooling: CaptionPooling,
    /// True if embeddings end with |·|.
    pub absolute: bool,
    /// True if word vectors get no gradient.
    pub words_frozen: bool,
}

/// Tensors that the backward pass needs.
#[derive(Debug)]
pub struct CaptionTape {
    states: WordStatesTape,
    /// Position of the word with the largest value, `[b, d]`, with [`CaptionPooling::Max`].
    argmax: Option<Tensor>,
    unit: NormalizeTape,
}

/// Computes the embeddings `[n, d]` of captions, in the order given. `parameters` are the word vectors and, for each
/// direction, `W_ih`, `W_hh`, `b_ih` and `b_hh`.
pub fn caption_embeddings(
    captions: &[&[i32]],
    parameters: &[Tensor],
    options: CaptionOptions,
    precision: MatmulPrecision,
) -> (Tensor, CaptionTape) {
    let states = WordStatesTape::forward(captions, parameters, precision);
    let packed = states.packed();
    let (pooled, argmax) = match options.pooling {
        CaptionPooling::Last => (states.last(parameters), None),
        CaptionPooling::Mean => (mean(&states.every(parameters), packed), None),
        CaptionPooling::Max => {
            let (pooled, argmax) = max(&states.every(parameters), packed);
            (pooled, Some(argmax))
        }
    };
    let unsorted = index_tensor(&packed.unsorted_indices, pooled.device());
    let (out, unit) = normalize_rows(pooled.index_select(0, &unsorted), true, options.absolute);
    (out, CaptionTape { states, argmax, unit })
}

impl CaptionTape {
    /// Computes the gradients in the parameters, in their order, from that in the embeddings, `[n, d]`. The first is
    /// `None` if word vectors are frozen.
    #[must_use]
    pub fn backward(
        self,
        d: &Tensor,
        parameters: &[Tensor],
        options: CaptionOptions,
        precision: MatmulPrecision,
    ) -> Vec<Option<Tensor>> {
        let Self { states, argmax, unit } = self;
        let packed = states.packed();
        let d = unit.backward(d);
        let d = d.zeros_like().index_copy(0, &index_tensor(&packed.unsorted_indices, d.device()), &d);
        let d = match (options.pooling, argmax) {
            (CaptionPooling::Mean, _) => mean_backward(&d, packed),
            (CaptionPooling::Max, Some(argmax)) => max_backward(&d, &argmax, packed),
            _ => d,
        };
        let gradient = if options.pooling == CaptionPooling::Last {
            StateGradient::LastWord(&d)
        } else {
            StateGradient::EveryWord(&d)
        };
        states.backward(gradient, parameters, options.words_frozen, precision)
    }
}

/// Mean over the words of each caption: `[n, d]` of packed words to `[b, d]`, longest caption first.
fn mean(states: &Tensor, packed: &PackedCaptions) -> Tensor {
    let sums =
        Tensor::zeros([to_i64(packed.unsorted_indices.len()), states.size()[1]], (states.kind(), states.device()));
    sums.index_add(0, &index_tensor(&packed.caption_of_word(), states.device()), states) / lengths(packed, states)
}

/// Gradient in the states, `[n, d]`, from that in their [mean], `[b, d]`.
fn mean_backward(d: &Tensor, packed: &PackedCaptions) -> Tensor {
    (d / lengths(packed, d)).index_select(0, &index_tensor(&packed.caption_of_word(), d.device()))
}

/// Maximum over the words of each caption, of the shape of [mean], and the position of the first word that has it.
fn max(states: &Tensor, packed: &PackedCaptions) -> (Tensor, Tensor) {
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
fn max_backward(d: &Tensor, argmax: &Tensor, packed: &PackedCaptions) -> Tensor {
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
fn index_tensor(rows: &[usize], device: Device) -> Tensor {
    let rows: Vec<i64> = rows.iter().map(|&row| to_i64(row)).collect();
    Tensor::from_slice(&rows).to_device(device)
}

/// Converts a count to libtorch's type.
fn to_i64(count: usize) -> i64 {
    i64::try_from(count).expect("a batch has fewer than 2^63 words")
}

/// Lower bound of norms.
const MIN_NORM: f64 = 1e-12;

/// Tensors that the backward pass needs.
#[derive(Debug)]
struct NormalizeTape {
    /// Rows before |·|.
    rows: Tensor,
    /// Norms before the division, `[n, 1]`, if the rows were normalised.
    norms: Option<Tensor>,
    absolute: bool,
}

/// Computes `y = v / max(‖v‖, 10⁻¹²)` if `normalize`, then |y| if `absolute`. A row of zeros stays zero.
fn normalize_rows(rows: Tensor, normalize: bool, absolute: bool) -> (Tensor, NormalizeTape) {
    let norms = normalize.then(|| rows.norm_scalaropt_dim(2, [1i64].as_slice(), true));
    let rows = norms.as_ref().map_or_else(|| rows.shallow_clone(), |norms| &rows / norms.clamp_min(MIN_NORM));
    let out = if absolute { rows.abs() } else { rows.shallow_clone() };
    (out, NormalizeTape { rows, norms, absolute })
}

impl NormalizeTape {
    /// Gradient in the input rows from that in the result: `(d − y·⟨y, d⟩) / ‖v‖`, with `d` multiplied by the sign of
    /// `y` if `absolute`. Where the norm is below the lower bound, it is `d / 10⁻¹²`.
    fn backward(self, d: &Tensor) -> Tensor {
        let Self { rows, norms, absolute } = self;
        let d = if absolute { d * rows.sign() } else { d.shallow_clone() };
        let Some(norms) = norms else { return d };
        let along = (&d * &rows).sum_dim_intlist([1i64].as_slice(), true, None);
        let along = along.masked_fill(&norms.lt(MIN_NORM), 0.0);
        (d - rows * along) / norms.clamp_min(MIN_NORM)
    }
}
