//! `metrics`: every measured number, one a row.

use arrow::datatypes::DataType;

use super::{Column, Table};

/// What else a method is named by than its name, in several tables.
pub(super) fn parameters() -> Column {
    Column::optional(
        "parameters",
        DataType::Utf8,
        "The free numbers of the method, and whom it learned from if not the test: `beta = 30, bank train`.",
    )
}

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
            parameters(),
            Column::optional(
                "bank",
                DataType::Utf8,
                "Whose queries and items the method learned from, if not the test's.",
            ),
            Column::new("transductive", DataType::Boolean, "Whether the method saw the test queries together."),
            Column::new("direction", DataType::Utf8, "`i2t`, `t2i`, or `both`."),
            Column::new(
                "measure",
                DataType::Utf8,
                "`recall` (one hit counts), `set_recall`, `map_at_r`, `r_precision`, `medr`, `meanr`, `rsum`; of a graded \
                 relevance also `semantic_recall` (`_any`, `_soft`), `ncs`, `ncs_ordered`, `nsum`; of hubs, by how many \
                 of the first `k` rankings an item is in: `hub_skewness`, `hs_sum`, `robin_hood`, `antihub_rate`, \
                 `hub_rate`, `hub_occurrence`, `hub_gini`, `largest_hub`, and `found_by` (percent of items that are the \
                 best of none, of one, or from m = 2 on of at least `m` queries).",
            ),
            Column::optional(
                "relevance",
                DataType::Utf8,
                "What is relevant, as the pipeline names it; nothing where the query's own matches are.",
            ),
            Column::optional(
                "variant",
                DataType::Utf8,
                "`paper` or `official`, where the published code differs from the paper; `official_whole_split`: NCS of the \
                 first 1,000 images over what all captions of the split have, as published for COCO-1K; `duplicated`: `found_by` \
                 where an item counts once for each query that it matches (an image five times), as in the papers.",
            ),
            Column::optional(
                "ground_truth",
                DataType::Boolean,
                "Of a graded relevance: whether the query's own matches count; deleted from ranking and pool where not, (N).",
            ),
            Column::optional(
                "m",
                DataType::Int64,
                "Neighbours that are relevant, if a number says so: items (`paper`), images (`official`). Of `found_by`, queries.",
            ),
            Column::optional("k", DataType::Int64, "Cut-off of the measure, if it has one."),
            Column::new("value", DataType::Float64, "The number: in percent, ranks from 1, sums of percentages."),
            Column::optional(
                "ci95_low",
                DataType::Float64,
                "Lower end of the 95 % confidence interval, where one is defined.",
            ),
            Column::optional("ci95_high", DataType::Float64, "Upper end of the 95 % confidence interval."),
            Column::new("n_queries", DataType::Int64, "Queries that have something relevant, of one fold."),
            Column::new("n_items", DataType::Int64, "Items in the pool, of one fold."),
        ],
    }
}
