//! Forward computation of a model that libtorch differentiates, and the word vectors and GRU of captions.

use std::cell::RefCell;

use az::SaturatingAs;
use tch::Tensor;

use super::encode::EncodedItems;
use super::model::LocalBatch;
use super::parameters::{
    BufferRecorder, ParameterInit, ParameterSpec, Parameters, gru_parameter_names, gru_suffixes, tensor_width,
};
use crate::autograd_node::differentiable;
use crate::encoder::packed_captions::PackedCaptions;
use crate::encoder::sequence_states::SequenceTape;
use crate::encoder::{PrecisionProducts, differentiable_linear, matmul_transposed};
use pairloom_base::error::Result;
use pairloom_spec::input_spec::InputSpec;
use pairloom_spec::precision::MatmulPrecision;

use pairloom_spec::family::WORD_VECTORS;

/// Forward computation of a model. Its parameters are leaves of a graph of libtorch, or plain values without gradient.
pub struct Graph<'p> {
    parameters: &'p Parameters,
    precision: MatmulPrecision,
    /// True for the computation of a training step.
    is_training: bool,
    /// Recorder of updated parameters; `None` if updates are not wanted.
    buffers: Option<&'p BufferRecorder>,
    /// Auxiliary losses of the local batch so far.
    losses: RefCell<AuxiliaryLossTensors>,
}

/// `x / max(‖x‖₂, 10⁻¹²)` along a dimension. The gradient of a vector of zeros is 0.
pub fn l2_normalize(x: &Tensor, dimension: i64) -> Tensor {
    x / x.norm_scalaropt_dim(2, [dimension].as_slice(), true).clamp_min(1e-12)
}

/// Leaky ReLU with this slope, at most 1, for negative values.
pub fn leaky_relu(x: &Tensor, slope: f64) -> Tensor {
    x.maximum(&(x * slope))
}

/// Auxiliary losses as (name, scalar tensor), already weighted as they enter the objective.
pub type AuxiliaryLossTensors = Vec<(&'static str, Tensor)>;

impl<'p> Graph<'p> {
    /// Creates a computation without gradient.
    #[must_use]
    pub fn without_gradient(parameters: &'p Parameters, precision: MatmulPrecision) -> Self {
        Self { parameters, precision, is_training: false, buffers: None, losses: RefCell::default() }
    }

    /// Creates the computation of a training step, with gradient; `leaves` are those of
    /// [`Parameters::detached_leaves`]. Updates of running statistics are recorded in `buffers`.
    #[must_use]
    pub fn with_gradient(
        leaves: &'p Parameters,
        precision: MatmulPrecision,
        buffers: Option<&'p BufferRecorder>,
    ) -> Self {
        Self { parameters: leaves, precision, is_training: true, buffers, losses: RefCell::default() }
    }

    /// True for the computation of a training step.
    #[must_use]
    pub fn is_training(&self) -> bool {
        self.is_training
    }

    /// Recorder of updated parameters.
    pub(super) fn buffers(&self) -> Option<&'p BufferRecorder> {
        self.buffers
    }

    /// The parameters.
    #[must_use]
    pub fn parameters(&self) -> &Parameters {
        self.parameters
    }

    /// Finds one of the model's own parameters by name.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        self.parameters.get(name)
    }

    /// Adds an auxiliary loss of the pairs of the local batch: a scalar, weighted as it enters the objective. It is summed
    /// over the ranks. Its name is one of [`Capabilities::local_losses`](pairloom_spec::family::Capabilities::local_losses).
    pub fn add_loss(&self, name: &'static str, loss: Tensor) {
        self.losses.borrow_mut().push((name, loss));
    }

    /// Auxiliary losses of the computation so far.
    pub(super) fn into_losses(self) -> AuxiliaryLossTensors {
        self.losses.into_inner()
    }

    /// Precision of matrix products.
    pub(super) fn precision(&self) -> MatmulPrecision {
        self.precision
    }

    /// Matrix product `a · b` in the precision of the model, in the type of `a`. Both have two dimensions, or both
    /// three: a batch of products.
    pub fn matmul(&self, a: &Tensor, b: &Tensor) -> Tensor {
        self.precision.matmul(a, b)
    }

    /// Matrix product `a · bᵀ` of two matrices in the precision of the model, in the type of `a`. It and its gradients are
    /// computed by this project's kernels where they apply.
    pub fn matmul_transposed(&self, a: &Tensor, b: &Tensor) -> Tensor {
        if self.is_training() {
            differentiable_linear(a, b, self.precision)
        } else {
            matmul_transposed(a, b, self.precision)
        }
    }

    /// Linear layer `x · Wᵀ + b` with the parameters `name.weight` and `name.bias`.
    pub fn linear(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let [weight, bias] = ["weight", "bias"].map(|part| self.get(&format!("{name}.{part}")));
        Ok(self.matmul_transposed(x, weight?) + bias?)
    }

    /// Linear layer of a batch of rows, `[.., input]`.
    pub fn linear_of_rows(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let mut size = x.size();
        let rows = x.reshape([-1, size.pop().unwrap_or(1)]);
        let out = self.linear(name, &rows)?;
        size.push(out.size()[1]);
        Ok(out.view(size.as_slice()))
    }

    /// Parameters of one direction of the GRU `name`, in the order of [`gru_parameter_names`].
    pub fn gru_parameters(&self, name: &str, suffix: &str) -> Result<[&Tensor; 4]> {
        let [a, b, c, d] = gru_parameter_names(name, suffix);
        Ok([self.get(&a)?, self.get(&b)?, self.get(&c)?, self.get(&d)?])
    }

    /// States of the GRU `name` after every vector of sets, `[rows, h]`: the mean over its `directions`, one or two. Each
    /// set has a vector at least. Factors are rounded by `precision`: that of the computation, or f32.
    pub fn gru_states(
        &self,
        name: &str,
        directions: usize,
        sets: &EncodedItems,
        precision: MatmulPrecision,
    ) -> Result<EncodedItems> {
        let lengths = sets.counts();
        let packed = PackedCaptions::of_sets(&lengths);
        let states = self.packed_states(name, directions, packed, &sets.vectors, precision)?;
        Ok(EncodedItems { vectors: states, lengths: Some(lengths) })
    }

    /// As [`Graph::gru_states`], of packed sequences; `vectors` are those of their distinct words.
    fn packed_states(
        &self,
        name: &str,
        directions: usize,
        packed: PackedCaptions,
        vectors: &Tensor,
        precision: MatmulPrecision,
    ) -> Result<Tensor> {
        let parameters: Vec<&Tensor> = gru_suffixes(directions)
            .map(|suffix| self.gru_parameters(name, suffix))
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .flatten()
            .collect();
        let weights: Vec<Tensor> = parameters.iter().map(|parameter| parameter.detach()).collect();
        let (tape, states) = tch::no_grad(|| {
            let tape = SequenceTape::forward(packed, vectors.detach(), &weights, precision);
            let states = tape.by_sequence(&weights);
            (tape, states)
        });
        if !self.is_training {
            return Ok(states);
        }
        let inputs: Vec<&Tensor> = std::iter::once(vectors).chain(parameters).collect();
        Ok(differentiable(&states, &inputs, move |d, needed| {
            let (d_vectors, d_weights) = tape.backward_by_sequence(d, &weights, needed[0], precision);
            std::iter::once(d_vectors).chain(d_weights.into_iter().map(Some)).collect()
        }))
    }

    /// Dropout mask of the word vectors of captions, for [`Graph::word_states`]. `None` without dropout.
    ///
    /// # Errors
    /// There are no word vectors.
    pub fn word_dropout(
        &self,
        captions: &[&[i32]],
        batch: Option<&LocalBatch<'_>>,
        stream: u64,
        probability: f64,
    ) -> Result<Option<Tensor>> {
        let Some(batch) = batch.filter(|_| probability > 0.0) else { return Ok(None) };
        let counts: Vec<i64> = captions.iter().map(|words| words.len().saturating_as::<i64>()).collect();
        let vectors = self.get(WORD_VECTORS)?;
        Ok(Some(batch.dropout_mask(stream, &counts, vectors.size()[1], probability, vectors)))
    }

    /// States of a GRU after every word of captions: the mean over its directions. The word vectors are multiplied by
    /// `word_mask`, one row for each word, caption by caption.
    ///
    /// # Errors
    /// There are no parameters of such a GRU.
    pub fn word_states(
        &self,
        gru: &CaptionGru,
        captions: &[&[i32]],
        word_mask: Option<&Tensor>,
    ) -> Result<EncodedItems> {
        let lengths: Vec<i64> = captions.iter().map(|words| words.len().saturating_as()).collect();
        let table = self.get(WORD_VECTORS)?;
        let (packed, vectors) = match word_mask {
            None => {
                let packed = PackedCaptions::new(captions);
                let vectors = table.index_select(0, &packed.distinct_rows(table.device()));
                (packed, vectors)
            }
            // Words with factors of their own are distinct.
            Some(mask) => {
                let words: Vec<i64> = captions.iter().copied().flatten().map(|&word| i64::from(word)).collect();
                let words = Tensor::from_slice(&words).to_device(table.device());
                (PackedCaptions::of_sets(&lengths), table.index_select(0, &words) * mask)
            }
        };
        let states = self.packed_states(CAPTION_GRU, gru.directions(), packed, &vectors, self.precision)?;
        Ok(EncodedItems { vectors: states, lengths: Some(lengths) })
    }
}

/// Prefix of the parameters of the GRU.
pub(super) const CAPTION_GRU: &str = "txt_enc.rnn";

/// Word vectors and a GRU over them, in one or two directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptionGru {
    /// Width of the word vectors.
    pub word: usize,
    /// Width of the state of each direction.
    pub state: usize,
    /// True if there is a second direction, from the last word to the first.
    pub bidirectional: bool,
}

impl CaptionGru {
    /// Number of directions.
    #[must_use]
    pub fn directions(&self) -> usize {
        1 + usize::from(self.bidirectional)
    }

    /// Specifications of the parameters: the word vectors, U(±0.1); then for each direction of the GRU, U(±1/√h),
    /// `weight_ih`, `weight_hh`, `bias_ih` and `bias_hh`.
    ///
    /// # Errors
    /// A width that no tensor can have.
    pub fn parameter_specs(&self, data: &InputSpec) -> Result<Vec<ParameterSpec>> {
        let (word, state, words) = (tensor_width(self.word)?, tensor_width(self.state)?, tensor_width(data.words)?);
        let vectors = ParameterSpec {
            trainable: !data.words_frozen,
            ..ParameterSpec::new(WORD_VECTORS, &[words, word], ParameterInit::Uniform(0.1))
        };
        let d_parameters =
            gru_suffixes(self.directions()).flat_map(|suffix| ParameterSpec::gru(CAPTION_GRU, suffix, word, state));
        Ok(std::iter::once(vectors).chain(d_parameters).collect())
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    /// States of sets of 3, 1 and 2 vectors and their gradients, beside those of libtorch's GRU for each set in f64: by
    /// tensors, and by kernels in f32 and in mixed precision.
    #[test]
    fn states_and_gradients_are_those_of_libtorch() {
        let (lengths, h, w) = ([3, 1, 2], 40, 24);
        for directions in [1, 2] {
            let specs: Vec<ParameterSpec> =
                gru_suffixes(directions).flat_map(|suffix| ParameterSpec::gru("some", suffix, w, h)).collect();
            let spec = InputSpec::for_features(1, 1);
            let drawn = Parameters::random(specs.clone(), &spec, 3, Device::Cpu).expect("parameters");
            let x = Tensor::randn([6, w], (Kind::Float, Device::Cpu));
            let d = Tensor::randn([6, h], (Kind::Float, Device::Cpu));
            let gradients = |states: &Tensor, leaves: &[Tensor]| {
                let sum = (states * d.to_kind(states.kind())).sum(None::<Kind>);
                let found = Tensor::run_backward(&[sum], leaves, false, false);
                let all = std::iter::once(states.detach()).chain(found);
                all.map(|tensor| tensor.to_kind(Kind::Double)).collect::<Vec<_>>()
            };
            let leaf = |tensor: &Tensor, kind: Kind| tensor.detach().to_kind(kind).set_requires_grad(true);
            let theirs: Vec<Tensor> = drawn.tensors().iter().map(|tensor| leaf(tensor, Kind::Double)).collect();
            let their_x = leaf(&x, Kind::Double);
            let mut start = 0;
            let set_lengths = lengths.map(|length| {
                let set = their_x.narrow(0, start, length).unsqueeze(0);
                start += length;
                let first = Tensor::zeros([directions.saturating_as::<i64>(), 1, h], (Kind::Double, Device::Cpu));
                let states = set.gru(&first, &theirs, true, 1, 0.0, true, directions == 2, true).0.squeeze_dim(0);
                states.view([length, -1, h]).mean_dim([1i64].as_slice(), false, None::<Kind>)
            });
            let leaves: Vec<Tensor> = std::iter::once(their_x).chain(theirs).collect();
            let expected = gradients(&Tensor::cat(&set_lengths, 0), &leaves);
            let runs = [
                (Kind::Double, MatmulPrecision::F32, 1e-6),
                (Kind::Float, MatmulPrecision::F32, 1e-5),
                (Kind::Float, MatmulPrecision::Mixed, 3e-2),
                (Kind::Float, MatmulPrecision::MixedByLibtorch, 3e-2),
            ];
            for (kind, precision, most) in runs {
                let values = drawn.tensors().iter().map(|tensor| tensor.to_kind(kind)).collect();
                let parameters = Parameters::new(specs.clone(), &spec, values).expect("parameters");
                let leaves = parameters.detached_leaves(&spec).expect("leaves");
                let own_x = leaf(&x, kind);
                let graph = Graph::with_gradient(&leaves, precision, None);
                let sets = EncodedItems { vectors: own_x.shallow_clone(), lengths: Some(lengths.to_vec()) };
                let states = graph.gru_states("some", directions, &sets, precision).expect("states").vectors;
                let parameters = leaves.tensors().iter().map(Tensor::shallow_clone);
                let found = gradients(&states, &std::iter::once(own_x).chain(parameters).collect::<Vec<_>>());
                for (part, (got, expected)) in found.iter().zip(&expected).enumerate() {
                    let [error, size] =
                        [got - expected, expected.shallow_clone()].map(|tensor| tensor.norm().double_value(&[]));
                    assert!(error <= most * size, "{kind:?} {precision:?}, part {part}: {error} of {size}");
                }
                let plain =
                    Graph::without_gradient(&leaves, precision).gru_states("some", directions, &sets, precision);
                assert_eq!(plain.expect("states").vectors, states.detach());
            }
        }
    }
}
