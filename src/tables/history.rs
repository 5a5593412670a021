//! `history`: training history, step by step.

use arrow::array::{Float64Array, Int64Array};

use super::Nullable;
use super::column::table;

table! {
    /// One row per optimiser step. The table holds no clock times, so a resumed training writes the same rows.
    "history" {
        /// Number of optimiser steps before this one, over all epochs.
        step: Int64Array,
        /// Epoch, from 0.
        epoch: Int64Array,
        /// Number of image-caption pairs in the batch.
        pairs: Int64Array,
        /// Value of the objective on the batch before the step, summed or averaged as in the paper of the loss.
        loss: Float64Array,
        /// Value of the objective of a collapsed model, whose scores are all equal; missing if it depends on more than
        /// the number of pairs.
        collapsed_loss: Nullable<Float64Array>,
        /// Global L2 norm of the gradient before clipping.
        gradient_norm: Float64Array,
        /// Learning rate of the step.
        learning_rate: Float64Array,
    }
}
