//! `auxiliary_losses`: what a model adds to the objective, step by step.

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::values::table;

table! {
    /// One row an optimiser step and auxiliary loss, for models that have such losses.
    "auxiliary_losses" {
        /// Optimiser steps before this one, over all epochs.
        step: Int64Array,
        /// Epoch, from 0.
        epoch: Int64Array,
        /// Name of the loss, one of those of the model's family.
        name: StringArray,
        /// Its value on the batch, before the step, weighted as it is added to the objective.
        value: Float64Array,
    }
}
