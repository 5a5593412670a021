//! `validation`: how a model did on the validation split, epoch by epoch.

use arrow::array::{BooleanArray, Float64Array, Int64Array};

use super::values::table;

table! {
    /// One row an epoch: the model after it, on the whole validation split, by nearest neighbour.
    "validation" {
        /// Epoch, from 0.
        epoch: Int64Array,
        /// Optimiser steps done.
        step: Int64Array,
        /// Mean of the epoch's batch losses.
        loss: Float64Array,
        /// Image to text, recall at 1, percent.
        i2t_r1: Float64Array,
        /// Image to text, recall at 5, percent.
        i2t_r5: Float64Array,
        /// Image to text, recall at 10, percent.
        i2t_r10: Float64Array,
        /// Text to image, recall at 1, percent.
        t2i_r1: Float64Array,
        /// Text to image, recall at 5, percent.
        t2i_r5: Float64Array,
        /// Text to image, recall at 10, percent.
        t2i_r10: Float64Array,
        /// Sum of the six recalls.
        rsum: Float64Array,
        /// What the best epoch is chosen by: rsum, or what `select` says.
        score: Float64Array,
        /// Whether the score is above that of every epoch before; the last such epoch is the model.
        best: BooleanArray,
    }
}
