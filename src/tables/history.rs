//! `history`: the course of a training, step by step.

use arrow::array::{Float64Array, Int64Array};

use super::Optional;
use super::values::table;

table! {
    /// One row an optimiser step. Holds no clock times, so that a resumed training writes the same rows.
    "history" {
        /// Optimiser steps before this one, over all epochs.
        step: Int64Array,
        /// Epoch, from 0.
        epoch: Int64Array,
        /// Image-caption pairs in the batch.
        pairs: Int64Array,
        /// Value of the objective on the batch, before the step; summed as its paper sums it.
        loss: Float64Array,
        /// What the loss would be if all scores of the batch were equal, for objectives of which that is a number.
        collapsed_loss: Optional<Float64Array>,
        /// Global L2 norm of the gradient before clipping.
        gradient_norm: Float64Array,
        /// Learning rate of the step.
        learning_rate: Float64Array,
    }
}
