//! `metrics`: every measured number, one a row.

use arrow::array::{RecordBatch, StringArray};

use super::rows::{
    RowColumns, counts, flags, floats, optional_counts, optional_flags, optional_floats, optional_texts, texts,
};
use super::{Optional, Table};
use crate::error::Result;

const MEASURE: &str = "`recall` (one hit counts), `set_recall`, `map_at_r`, `r_precision`, `medr`, `meanr`, `mrr`, `rsum`; of a graded \
    relevance also `semantic_recall` (`_any`, `_soft`), `ncs`, `ncs_ordered`, `nsum`; of hubs, by how many \
    of the first `k` rankings an item is in: `hub_skewness`, `hs_sum`, `robin_hood`, `antihub_rate`, \
    `hub_rate`, `hub_occurrence`, `hub_gini`, `largest_hub`, and `found_by` (percent of items that are the \
    best of none, of one, or from m = 2 on of at least `m` queries).";
const VARIANT: &str = "`paper` or `official`, where the published code differs from the paper; `official_whole_split`: NCS of the \
    first 1,000 images over what all captions of the split have, as published for COCO-1K; `duplicated`: `found_by` \
    where an item counts once for each query that it matches (an image five times), as in the papers; \
    `at 1, 3, 20`: of a sum over other cut-offs than 1, 5 and 10, which.";

/// A measured number.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Name of the pools.
    pub protocol: String,
    /// Folds that the value is the mean of.
    pub folds: usize,
    /// How items were ranked.
    pub method: String,
    /// Free numbers of the method.
    pub parameters: Option<String>,
    /// Whose queries and items the method learned from.
    pub bank: Option<String>,
    /// True if the method saw the test queries together.
    pub transductive: bool,
    /// `i2t`, `t2i` or `both`.
    pub direction: &'static str,
    /// What is measured.
    pub measure: &'static str,
    /// Name of the relevance, where it is not the queries' own matches.
    pub relevance: Option<String>,
    /// Which form of the measure.
    pub variant: Option<String>,
    /// True if the query's own matches count.
    pub ground_truth: Option<bool>,
    /// Neighbours or queries, as the measure says.
    pub m: Option<usize>,
    /// Cut-off.
    pub k: Option<usize>,
    /// The number.
    pub value: f64,
    /// 95 % confidence interval: (low, high).
    pub ci95: Option<(f64, f64)>,
    /// Queries of one fold.
    pub n_queries: usize,
    /// Items of one fold.
    pub n_items: usize,
}

impl RowColumns {
    /// Adds the column `parameters`, which tells apart methods of one name, in several tables.
    #[must_use]
    pub(super) fn with_parameters(self, values: Optional<StringArray>) -> Self {
        let about =
            "The free numbers of the method, and whom it learned from if not the test: `beta = 30, bank train`.";
        self.with("parameters", about, values)
    }
}

fn columns(rows: &[Row]) -> RowColumns {
    RowColumns::default()
        .with(
            "protocol",
            "Which pools were ranked: `coco-5k`, `coco-1k-five-fold`.",
            texts(rows, |row| &row.protocol),
        )
        .with("folds", "Folds that the value is the mean of.", counts(rows, |row| row.folds))
        .with("method", "How items were ranked: `nns` is the nearest neighbour.", texts(rows, |row| &row.method))
        .with_parameters(optional_texts(rows, |row| row.parameters.as_deref()))
        .with(
            "bank",
            "Whose queries and items the method learned from, if not the test's.",
            optional_texts(rows, |row| row.bank.as_deref()),
        )
        .with(
            "transductive",
            "Whether the method saw the test queries together.",
            flags(rows, |row| row.transductive),
        )
        .with("direction", "`i2t`, `t2i`, or `both`.", texts(rows, |row| row.direction))
        .with("measure", MEASURE, texts(rows, |row| row.measure))
        .with(
            "relevance",
            "What is relevant, as the pipeline names it; nothing where the query's own matches are.",
            optional_texts(rows, |row| row.relevance.as_deref()),
        )
        .with("variant", VARIANT, optional_texts(rows, |row| row.variant.as_deref()))
        .with(
            "ground_truth",
            "Of a graded relevance: whether the query's own matches count; deleted from ranking and pool where not, (N).",
            optional_flags(rows, |row| row.ground_truth),
        )
        .with(
            "m",
            "Neighbours that are relevant, if a number says so: items (`paper`), images (`official`). Of `found_by`, queries.",
            optional_counts(rows, |row| row.m),
        )
        .with("k", "Cut-off of the measure, if it has one.", optional_counts(rows, |row| row.k))
        .with("value", "The number: in percent, ranks from 1, sums of percentages.", floats(rows, |row| row.value))
        .with(
            "ci95_low",
            "Lower end of the 95 % confidence interval, where one is defined.",
            optional_floats(rows, |row| row.ci95.map(|(low, _)| low)),
        )
        .with(
            "ci95_high",
            "Upper end of the 95 % confidence interval.",
            optional_floats(rows, |row| row.ci95.map(|(_, high)| high)),
        )
        .with("n_queries", "Queries that have something relevant, of one fold.", counts(rows, |row| row.n_queries))
        .with("n_items", "Items in the pool, of one fold.", counts(rows, |row| row.n_items))
}

/// One row a number.
#[must_use]
pub fn table() -> Table {
    columns(&[]).table("metrics", "One row a measured number, with all that is needed to compare it.")
}

/// Rows as a batch.
///
/// # Errors
/// None that rows could cause.
pub fn rows(rows: &[Row]) -> Result<RecordBatch> {
    columns(rows).batch()
}
