//! `history`: the course of a training, step by step.

use arrow::datatypes::DataType;

use super::{Column, Table};

/// One row an optimiser step. Holds no clock times, so that a resumed training writes the same rows.
#[must_use]
pub fn table() -> Table {
    Table {
        name: "history",
        about: "One row an optimiser step. Holds no clock times, so that a resumed training writes the same rows.",
        columns: vec![
            Column::new("step", DataType::Int64, "Optimiser steps before this one, over all epochs."),
            Column::new("epoch", DataType::Int64, "Epoch, from 0."),
            Column::new("pairs", DataType::Int64, "Image-caption pairs in the batch."),
            Column::new(
                "loss",
                DataType::Float64,
                "Value of the objective on the batch, before the step; summed as its paper sums it.",
            ),
            Column::optional(
                "collapsed_loss",
                DataType::Float64,
                "What the loss would be if all scores of the batch were equal, for objectives of which that is a number.",
            ),
            Column::new("gradient_norm", DataType::Float64, "Global L2 norm of the gradient before clipping."),
            Column::new("learning_rate", DataType::Float64, "Learning rate of the step."),
        ],
    }
}
