//! `metrics`: all measured values, one per row.

use arrow::array::{RecordBatch, StringArray};

use super::column::{
    TableBuilder, counts, flags, floats, optional_counts, optional_flags, optional_floats, optional_texts, texts,
};
use super::{Nullable, Table};
use pairloom_base::error::Result;

const MEASURE: &str = "Name of the measure. Retrieval: `recall` (percent of queries with a match among the `k` best), \
    `set_recall`, `map_at_r`, `r_precision`, `medr`, `meanr`, `mrr`, `rsum`. Graded relevance: `semantic_recall` (`_any`, \
    `_soft`), `ncs`, `ncs_ordered`, `nsum`. Hubness, from the number of queries that have an item among their `k` best \
    (k-occurrences): `hub_skewness`, `hs_sum`, `robin_hood`, `antihub_rate`, `hub_rate`, `hub_occurrence`, `hub_gini`, \
    `largest_hub`, and `k_occurrence_rate` (percent of items that are the best item of no query for `m` = 0, of one query \
    for `m` = 1, and of at least `m` queries for `m` ≥ 2).";
const VARIANT: &str = "Variant of the measure: `paper` or `official`, where the published code differs from the paper. \
    `official_whole_split`: NCS of the first 1,000 images, normalised by the best captions of the whole split, as \
    published for COCO-1K. `duplicated`: hubness with a row for each caption of an image, as in the papers; of these \
    equal rows the first is always the nearest neighbour. `duplicated_turns`: the same, but the rows take turns. \
    `at 1, 3, 20`: sum over these cut-offs instead of 1, 5 and 10.";

/// Names of the relevances that a table has NCS by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NcsRelevances(pub Vec<String>);

/// Row of the table: a measured value.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricRow {
    /// Evaluation protocol.
    pub protocol: String,
    /// Number of folds that the value is the mean of.
    pub folds: usize,
    /// Ranking method.
    pub method: String,
    /// Parameters of the method.
    pub parameters: Option<String>,
    /// Query bank of the method.
    pub query_bank: Option<String>,
    /// True if the method saw all test queries together.
    pub transductive: bool,
    /// `i2t`, `t2i` or `both`.
    pub direction: &'static str,
    /// Name of the measure.
    pub measure: &'static str,
    /// Name of the relevance; `None` if the query's own matches are relevant.
    pub relevance: Option<String>,
    /// Variant of the measure.
    pub variant: Option<String>,
    /// True if the query's own matches count.
    pub ground_truth: Option<bool>,
    /// Number of neighbours or of queries, by measure.
    pub m: Option<usize>,
    /// Cut-off.
    pub k: Option<usize>,
    /// Measured value.
    pub value: f64,
    /// 95 % confidence interval: (low, high).
    pub ci95: Option<(f64, f64)>,
    /// Number of queries of one fold.
    pub n_queries: usize,
    /// Number of items of one fold.
    pub n_items: usize,
}

impl TableBuilder {
    /// Adds the column `parameters`, which several tables have: it distinguishes methods of the same name.
    #[must_use]
    pub(super) fn with_parameters(self, values: Nullable<StringArray>) -> Self {
        let description =
            "Parameters of the method, and its query bank if it is not the test split: `beta = 30, query bank train`.";
        self.with("parameters", description, values)
    }
}

fn columns(rows: &[MetricRow]) -> TableBuilder {
    TableBuilder::default()
        .with(
            "protocol",
            "Evaluation protocol, which defines the ranked pools: `coco-5k`, `coco-1k-five-fold`.",
            texts(rows, |row| &row.protocol),
        )
        .with("folds", "Number of folds; the value is their mean.", counts(rows, |row| row.folds))
        .with("method", "Ranking method: `nns` is the nearest neighbour.", texts(rows, |row| &row.method))
        .with_parameters(optional_texts(rows, |row| row.parameters.as_deref()))
        .with(
            "query_bank",
            "Query bank: the queries and items that the method learned from, if they are not the test split's.",
            optional_texts(rows, |row| row.query_bank.as_deref()),
        )
        .with("transductive", "True if the method saw all test queries together.", flags(rows, |row| row.transductive))
        .with("direction", "Direction of retrieval: `i2t`, `t2i`, or `both`.", texts(rows, |row| row.direction))
        .with("measure", MEASURE, texts(rows, |row| row.measure))
        .with(
            "relevance",
            "Name of the relevance in the pipeline file; missing if the query's own matches are relevant.",
            optional_texts(rows, |row| row.relevance.as_deref()),
        )
        .with("variant", VARIANT, optional_texts(rows, |row| row.variant.as_deref()))
        .with(
            "ground_truth",
            "For a graded relevance: true if the query's own matches count, false if they are deleted from the ranking \
             and the pool, which papers mark with (N).",
            optional_flags(rows, |row| row.ground_truth),
        )
        .with(
            "m",
            "Number of nearest neighbours that are relevant, for relevances defined by a number: items (`paper`) or \
             images (`official`). For `k_occurrence_rate`: number of queries.",
            optional_counts(rows, |row| row.m),
        )
        .with("k", "Cut-off of the measure, if it has one.", optional_counts(rows, |row| row.k))
        .with(
            "value",
            "Measured value: a percentage, a rank from 1, or a sum of percentages.",
            floats(rows, |row| row.value),
        )
        .with(
            "ci95_low",
            "Lower end of the 95 % confidence interval, if the measure has one. Recalls of images have Wilson's interval, \
             recalls of captions that of the bootstrap over images.",
            optional_floats(rows, |row| row.ci95.map(|(low, _)| low)),
        )
        .with(
            "ci95_high",
            "Upper end of the 95 % confidence interval.",
            optional_floats(rows, |row| row.ci95.map(|(_, high)| high)),
        )
        .with(
            "n_queries",
            "Number of queries of one fold that have a relevant item.",
            counts(rows, |row| row.n_queries),
        )
        .with("n_items", "Number of items in the pool of one fold.", counts(rows, |row| row.n_items))
}

/// Describes the table.
#[must_use]
pub fn table() -> Table {
    columns(&[]).table("metrics", "One row per measured value, with everything that is needed to compare it.")
}

/// Builds a batch of rows.
///
/// # Errors
/// None for well-formed rows.
pub fn batch(rows: &[MetricRow]) -> Result<RecordBatch> {
    columns(rows).batch()
}
