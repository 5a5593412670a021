//! `metrics`: every measured number, one a row.

use arrow::datatypes::DataType;

use super::{Column, Table};

/// One row a number.
#[must_use]
pub fn table() -> Table {
    Table {
        name: "metrics",
        about: "One row a measured number, with all that is needed to compare it.",
        columns: vec![
            Column::new("protocol", DataType::Utf8, "Which pools were ranked: `coco-5k`, `coco-1k-five-fold`."),
            Column::new("folds", DataType::Int64, "Folds that the value is the mean of."),
            Column::new("method", DataType::Utf8, "How items were ranked: `nns` is the nearest neighbour."),
            Column::new("transductive", DataType::Boolean, "Whether the method saw the test queries together."),
            Column::new("direction", DataType::Utf8, "`i2t`, `t2i`, or `both`."),
            Column::new("measure", DataType::Utf8, "`recall`, `medr`, `meanr` or `rsum`."),
            Column::optional("k", DataType::Int64, "Cut-off of the measure, if it has one."),
            Column::new("value", DataType::Float64, "The number: recalls in percent, ranks from 1."),
            Column::optional(
                "ci95_low",
                DataType::Float64,
                "Lower end of the 95 % confidence interval, where one is defined.",
            ),
            Column::optional("ci95_high", DataType::Float64, "Upper end of the 95 % confidence interval."),
            Column::new("n_queries", DataType::Int64, "Queries, of one fold."),
            Column::new("n_items", DataType::Int64, "Items in the pool, of one fold."),
        ],
    }
}
