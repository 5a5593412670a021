//! Parameters that a forward pass in training updates, such as running statistics.

use std::cell::RefCell;
use std::collections::BTreeMap;

use tch::Tensor;

/// New values of parameters by their index in [`Parameters::tensors`](super::parameters::Parameters::tensors).
pub type BufferUpdates = BTreeMap<usize, Tensor>;

/// Updates of a forward pass that is under way.
pub type BufferRecorder = RefCell<BufferUpdates>;
