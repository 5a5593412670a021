//! `loss_scalars`: learned scalars of a loss, step by step.

use arrow::array::{Float64Array, Int64Array, StringArray};

use super::column::table;

table! {
    /// One row per optimiser step and learned scalar of the loss, for losses with `learned = true`.
    "loss_scalars" {
        /// Number of optimiser steps before this one, over all epochs.
        step: Int64Array,
        /// Epoch, from 0.
        epoch: Int64Array,
        /// Name: `log_temperature` or `bias` of `sigmoid`, `log_inverse_temperature` of `info_nce`. A logarithm is natural.
        name: StringArray,
        /// Value before the step.
        value: Float64Array,
    }
}
