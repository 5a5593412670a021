//! `validation`: how a model did on the validation split, epoch by epoch.

use arrow::datatypes::DataType;

use super::{Column, Table};

/// One row an epoch.
#[must_use]
pub fn table() -> Table {
    let float = |name, about| Column::new(name, DataType::Float64, about);
    Table {
        name: "validation",
        about: "One row an epoch: the model after it, on the whole validation split, by nearest neighbour.",
        columns: vec![
            Column::new("epoch", DataType::Int64, "Epoch, from 0."),
            Column::new("step", DataType::Int64, "Optimiser steps done."),
            float("loss", "Mean of the epoch's batch losses."),
            float("i2t_r1", "Image to text, recall at 1, percent."),
            float("i2t_r5", "Image to text, recall at 5, percent."),
            float("i2t_r10", "Image to text, recall at 10, percent."),
            float("t2i_r1", "Text to image, recall at 1, percent."),
            float("t2i_r5", "Text to image, recall at 5, percent."),
            float("t2i_r10", "Text to image, recall at 10, percent."),
            float("rsum", "Sum of the six recalls."),
            float("score", "What the best epoch is chosen by: rsum, or what `select` says."),
            Column::new(
                "best",
                DataType::Boolean,
                "Whether the score is above that of every epoch before; the last such epoch is the model.",
            ),
        ],
    }
}
