//! Forward computation of a model that libtorch differentiates, with layers whose gradients are hand-written.

use std::cell::RefCell;

use az::SaturatingAs;
use tch::Tensor;

use super::buffer_updates::BufferRecorder;
use super::caption_gru::{CaptionGru, WORD_VECTORS};
use super::encoded_items::EncodedItems;
use super::model::LocalBatch;
use super::parameters::{Parameters, gru_parameter_names};
use crate::error::Result;
use crate::model::encoder::word_states::WordStatesTape;
use crate::model::encoder::{MatmulPrecision, differentiable_linear, matmul_transposed};

/// Forward computation of a model. Its parameters are leaves of a graph of libtorch, or plain values without gradient.
pub struct Graph<'p> {
    parameters: &'p Parameters,
    precision: MatmulPrecision,
    /// Layers with hand-written gradients; `None` if no gradient is wanted.
    layers: Option<RefCell<Vec<HandWrittenLayer>>>,
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

/// Backward pass of a layer: from the gradient in its output to gradients in parameters, by their index in
/// [`Parameters::tensors`].
type LayerBackward = Box<dyn FnOnce(&Tensor) -> Vec<(usize, Tensor)>>;

/// Layer whose gradient is hand-written. Its output is a leaf of the graph of libtorch.
pub(super) struct HandWrittenLayer {
    /// Output of the layer.
    pub output: Tensor,
    /// Backward pass.
    pub backward: LayerBackward,
}

impl<'p> Graph<'p> {
    /// Creates a computation without gradient.
    #[must_use]
    pub fn without_gradient(parameters: &'p Parameters, precision: MatmulPrecision) -> Self {
        Self { parameters, precision, layers: None, buffers: None, losses: RefCell::default() }
    }

    /// Creates the computation of a training step, with gradient; `leaves` are those of
    /// [`Parameters::detached_leaves`]. Updates of running statistics are recorded in `buffers`.
    #[must_use]
    pub fn with_gradient(
        leaves: &'p Parameters,
        precision: MatmulPrecision,
        buffers: Option<&'p BufferRecorder>,
    ) -> Self {
        Self { parameters: leaves, precision, layers: Some(RefCell::default()), buffers, losses: RefCell::default() }
    }

    /// True for the computation of a training step.
    #[must_use]
    pub fn is_training(&self) -> bool {
        self.layers.is_some()
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
    ///
    /// # Errors
    /// There is no parameter of this name.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        self.parameters.get(name)
    }

    /// Adds an auxiliary loss of the pairs of the local batch: a scalar, weighted as it enters the objective. It is summed
    /// over the ranks. Its name is one of [`Capabilities::local_losses`](super::contract::Capabilities::local_losses).
    pub fn add_loss(&self, name: &'static str, loss: Tensor) {
        self.losses.borrow_mut().push((name, loss));
    }

    /// Auxiliary losses and layers with hand-written gradients of the computation so far.
    pub(super) fn into_losses_and_layers(self) -> (AuxiliaryLossTensors, Vec<HandWrittenLayer>) {
        (self.losses.into_inner(), self.layers.map(RefCell::into_inner).unwrap_or_default())
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
    ///
    /// # Errors
    /// There are no such parameters.
    pub fn linear(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let [weight, bias] = ["weight", "bias"].map(|part| self.get(&format!("{name}.{part}")));
        Ok(self.matmul_transposed(x, weight?) + bias?)
    }

    /// Linear layer of a batch of rows, `[.., input]`.
    ///
    /// # Errors
    /// As [`Graph::linear`].
    pub fn linear_of_rows(&self, name: &str, x: &Tensor) -> Result<Tensor> {
        let mut size = x.size();
        let rows = x.reshape([-1, size.pop().unwrap_or(1)]);
        let out = self.linear(name, &rows)?;
        size.push(out.size()[1]);
        Ok(out.view(size.as_slice()))
    }

    /// Parameters of one direction of the GRU `name`, in the order of [`gru_parameter_names`].
    ///
    /// # Errors
    /// There are no such parameters.
    pub fn gru_parameters(&self, name: &str, suffix: &str) -> Result<[&Tensor; 4]> {
        let [a, b, c, d] = gru_parameter_names(name, suffix);
        Ok([self.get(&a)?, self.get(&b)?, self.get(&c)?, self.get(&d)?])
    }

    /// States of a GRU of libtorch, `[n, t, h]`, over sequences `[n, t, w]`, from the first step on, with the parameters
    /// of [`Graph::gru_parameters`]. It starts from the state `first`, `[n, h]`, or from zeros.
    ///
    /// # Errors
    /// There are no such parameters.
    pub fn sequence_states(&self, name: &str, suffix: &str, x: &Tensor, first: Option<&Tensor>) -> Result<Tensor> {
        let parameters = self.gru_parameters(name, suffix)?;
        let first = match first {
            Some(first) => first.unsqueeze(0),
            None => Tensor::zeros([1, x.size()[0], parameters[1].size()[1]], (x.kind(), x.device())),
        };
        Ok(x.gru(&first, &parameters, true, 1, 0.0, self.is_training(), false, true).0)
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
        let indices = gru.parameter_indices(self.parameters)?;
        let values: Vec<Tensor> = indices.iter().map(|&index| self.parameters.tensors()[index].detach()).collect();
        let words_frozen = !self.parameters.is_trainable(indices[0]);
        let lengths = captions.iter().map(|words| words.len().saturating_as::<i64>()).collect();
        let precision = self.precision;
        let (tape, states) = tch::no_grad(|| {
            let tape = WordStatesTape::forward(captions, &values, word_mask, precision);
            let states = tape.by_caption(&values);
            (tape, states)
        });
        let Some(layers) = &self.layers else { return Ok(EncodedItems { vectors: states, lengths: Some(lengths) }) };
        let output = states.set_requires_grad(true);
        let backward = move |d: &Tensor| {
            let found = tch::no_grad(|| tape.backward_by_caption(d, &values, words_frozen, precision));
            indices.into_iter().zip(found).filter_map(|(index, found)| Some((index, found?))).collect()
        };
        layers.borrow_mut().push(HandWrittenLayer { output: output.shallow_clone(), backward: Box::new(backward) });
        Ok(EncodedItems { vectors: output, lengths: Some(lengths) })
    }
}
