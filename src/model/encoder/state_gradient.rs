//! Gradient of the states of a GRU, from which its backward pass begins.

use tch::Tensor;

/// Gradient of the states.
#[derive(Debug, Clone, Copy)]
pub(super) enum StateGradient<'t> {
    /// Gradient of the state after the last word of each caption, longest caption first, `[b, h]`.
    LastWord(&'t Tensor),
    /// Gradient of every state, `[n, h]`.
    EveryWord(&'t Tensor),
}
