//! `plan`: what the order of the epochs of a training follows from, together with its `samples`.

use arrow::datatypes::DataType;

use super::{Column, Table};

/// One row a data set.
#[must_use]
pub fn table() -> Table {
    Table {
        name: "plan",
        about: "One row a data set: what the order of every epoch follows from, together with `samples`. \
                `epoch_plan('stage', epoch, ranks)` gives the order itself.",
        columns: vec![
            Column::new("data_set", DataType::Int64, "The data set, from 0."),
            Column::new("samples", DataType::Int64, "Its training samples."),
            Column::new("shards", DataType::Int64, "Shards that hold them."),
            Column::new("weight", DataType::Float64, "Its share of an epoch is this over the sum of all weights."),
            Column::optional(
                "window",
                DataType::Int64,
                "Shards that are shuffled together; missing where all samples are.",
            ),
            Column::new("batch", DataType::Int64, "Samples of a batch, over all ranks."),
            Column::new("seed", DataType::Int64, "The seed, as a signed number of 64 bits."),
        ],
    }
}
