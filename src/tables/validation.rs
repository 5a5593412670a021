//! `validation`: results on the validation split, epoch by epoch.

use arrow::array::{BooleanArray, Float64Array, Int64Array};

use super::column::table;

table! {
    /// One row per epoch: results of the model after the epoch on the whole validation split, ranked by nearest
    /// neighbour.
    "validation" {
        /// Epoch, from 0.
        epoch: Int64Array,
        /// Number of optimiser steps so far.
        step: Int64Array,
        /// Mean of the batch losses of the epoch.
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
        /// Score that selects the best epoch: rsum, or the measure of the setting `selection_metric`.
        selection_score: Float64Array,
        /// True if the score is above that of every earlier epoch. The result of the training is the model of the last
        /// such epoch.
        best: BooleanArray,
    }
}
