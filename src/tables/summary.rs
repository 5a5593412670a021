//! `summary`: main results of every protocol and method, as a paper's table shows them.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use super::Table;
use super::column::{TableBuilder, counts, flags, floats, optional_floats, optional_texts, texts};
use pairloom_base::error::Result;

/// Row of the table: the results of a method under a protocol.
#[derive(Debug, Clone, PartialEq)]
pub struct SummaryRow {
    /// Evaluation protocol.
    pub protocol: String,
    /// Ranking method.
    pub method: String,
    /// Parameters of the method.
    pub parameters: Option<String>,
    /// True if the method saw all test queries together.
    pub transductive: bool,
    /// Number of images of one fold.
    pub n_images: usize,
    /// Number of captions of one fold.
    pub n_captions: usize,
    /// Results of the direction image to text.
    pub i2t: DirectionSummary,
    /// Results of the direction text to image.
    pub t2i: DirectionSummary,
    /// Sum of the recalls.
    pub rsum: f64,
    /// Sum of the hubness skewness.
    pub hs_sum: f64,
}

/// Results of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct DirectionSummary {
    /// Recall at each cut-off, percent.
    pub recalls: Vec<f64>,
    /// Median rank, from 1; `None` for a matching.
    pub medr: Option<f64>,
    /// Mean rank, from 1; `None` for a matching.
    pub meanr: Option<f64>,
}

fn columns(cutoffs: &[usize], rows: &[SummaryRow]) -> TableBuilder {
    let columns = TableBuilder::default()
        .with(
            "protocol",
            "Evaluation protocol, which defines the ranked pools: `coco-5k`, `coco-1k-five-fold`.",
            texts(rows, |row| &row.protocol),
        )
        .with("method", "Ranking method: `nns` is the nearest neighbour.", texts(rows, |row| &row.method))
        .with_parameters(optional_texts(rows, |row| row.parameters.as_deref()))
        .with("transductive", "True if the method saw all test queries together.", flags(rows, |row| row.transductive))
        .with("n_images", "Number of images in the pool of one fold.", counts(rows, |row| row.n_images))
        .with("n_captions", "Number of captions in the pool of one fold.", counts(rows, |row| row.n_captions));
    let columns = with_direction(columns, ("i2t", "Image to text"), cutoffs, rows, |row| &row.i2t);
    with_direction(columns, ("t2i", "Text to image"), cutoffs, rows, |row| &row.t2i)
        .with(
            "rsum",
            "Sum of the recalls of this table over both directions, each in percent.",
            floats(rows, |row| row.rsum),
        )
        .with(
            "hs_sum",
            "Hubness: sum of the skewness of the k-occurrences over the cut-offs of this table and both directions; 0 \
             if all items have the same k-occurrences.",
            floats(rows, |row| row.hs_sum),
        )
}

/// Adds the columns of a direction.
fn with_direction(
    columns: TableBuilder,
    (name, title): (&str, &str),
    cutoffs: &[usize],
    rows: &[SummaryRow],
    results_of: fn(&SummaryRow) -> &DirectionSummary,
) -> TableBuilder {
    let with_recall = |columns: TableBuilder, (index, k): (usize, &usize)| {
        let description = format!("{title}: recall at {k}, in percent.");
        columns.with(format!("{name}_r{k}"), description, floats(rows, |row| results_of(row).recalls[index]))
    };
    let rank_description =
        |measure: &str| format!("{title}: {measure} rank of the best match, from 1; missing for a matching.");
    cutoffs
        .iter()
        .enumerate()
        .fold(columns, with_recall)
        .with(format!("{name}_medr"), rank_description("median"), optional_floats(rows, |row| results_of(row).medr))
        .with(format!("{name}_meanr"), rank_description("mean"), optional_floats(rows, |row| results_of(row).meanr))
}

/// Describes the table, with columns `i2t_rK` and `t2i_rK` for each cut-off K. Without cut-offs, it has the other
/// columns only.
#[must_use]
pub fn table(cutoffs: &[usize]) -> Table {
    columns(cutoffs, &[])
        .table("summary", "One row per protocol and method: the main results, as a paper's table shows them.")
}

/// Returns the cut-offs that a `summary` table has columns for, ascending.
#[must_use]
pub fn cutoffs(schema: &Schema) -> Vec<usize> {
    super::cutoffs(schema, "i2t_r")
}

/// Builds a batch of rows.
///
/// # Errors
/// None for rows with a recall for each cut-off.
pub fn batch(cutoffs: &[usize], rows: &[SummaryRow]) -> Result<RecordBatch> {
    columns(cutoffs, rows).batch()
}
