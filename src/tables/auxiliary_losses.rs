//! `auxiliary_losses`: losses that a model adds to the objective, step by step.

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::column::table;

table! {
    /// One row per optimiser step and auxiliary loss, for models that have auxiliary losses.
    "auxiliary_losses" {
        /// Number of optimiser steps before this one, over all epochs.
        step: Int64Array,
        /// Epoch, from 0.
        epoch: Int64Array,
        /// Name of the loss, as the family of the model defines it.
        name: StringArray,
        /// Value of the loss on the batch before the step, multiplied by its weight in the objective.
        value: Float64Array,
    }
}
