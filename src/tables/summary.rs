//! `summary`: a row of a paper's table.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use super::Table;
use super::rows::{RowColumns, counts, flags, floats, optional_floats, optional_texts, texts};
use crate::error::Result;

/// A protocol and method, and how it did.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Name of the pools.
    pub protocol: String,
    /// How items were ranked.
    pub method: String,
    /// Free numbers of the method.
    pub parameters: Option<String>,
    /// True if the method saw the test queries together.
    pub transductive: bool,
    /// Images of one fold.
    pub n_images: usize,
    /// Captions of one fold.
    pub n_captions: usize,
    /// Image to text.
    pub i2t: Direction,
    /// Text to image.
    pub t2i: Direction,
    /// Sum of the recalls.
    pub rsum: f64,
    /// Sum of the skewness of hubs.
    pub hs_sum: f64,
}

/// One direction of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Direction {
    /// Recall at each cut-off, percent.
    pub recalls: Vec<f64>,
    /// Median rank, from 1; a matching has none.
    pub medr: Option<f64>,
    /// Mean rank, from 1; a matching has none.
    pub meanr: Option<f64>,
}

fn columns(cutoffs: &[usize], rows: &[Row]) -> RowColumns {
    let columns = RowColumns::default()
        .with("protocol", "Which pools were ranked: `coco-5k`, `coco-1k-five-fold`.", texts(rows, |row| &row.protocol))
        .with("method", "How items were ranked: `nns` is the nearest neighbour.", texts(rows, |row| &row.method))
        .with_parameters(optional_texts(rows, |row| row.parameters.as_deref()))
        .with("transductive", "Whether the method saw the test queries together.", flags(rows, |row| row.transductive))
        .with("n_images", "Images in the pool, of one fold.", counts(rows, |row| row.n_images))
        .with("n_captions", "Captions in the pool, of one fold.", counts(rows, |row| row.n_captions));
    let columns = direction(columns, ("i2t", "Image to text"), cutoffs, rows, |row| &row.i2t);
    direction(columns, ("t2i", "Text to image"), cutoffs, rows, |row| &row.t2i)
        .with(
            "rsum",
            "Sum of the recalls of this table, both ways; at most 100 for each.",
            floats(rows, |row| row.rsum),
        )
        .with(
            "hs_sum",
            "Sum of the skewness of hubs at the cut-offs of this table, both ways: 0 where every item is found as \
             often.",
            floats(rows, |row| row.hs_sum),
        )
}

/// Adds the columns of a direction.
fn direction(
    columns: RowColumns,
    (name, about): (&str, &str),
    cutoffs: &[usize],
    rows: &[Row],
    of: fn(&Row) -> &Direction,
) -> RowColumns {
    let recall = |columns: RowColumns, (place, k): (usize, &usize)| {
        let about = format!("{about}, recall at {k}, percent.");
        columns.with(format!("{name}_r{k}"), about, floats(rows, |row| of(row).recalls[place]))
    };
    let rank = |measure: &str| format!("{about}, {measure} rank, from 1.");
    cutoffs
        .iter()
        .enumerate()
        .fold(columns, recall)
        .with(format!("{name}_medr"), rank("median"), optional_floats(rows, |row| of(row).medr))
        .with(format!("{name}_meanr"), rank("mean"), optional_floats(rows, |row| of(row).meanr))
}

/// One row a protocol and method, with columns `i2t_rK` and `t2i_rK` for each cut-off K; without any, what is there for all
/// cut-offs.
#[must_use]
pub fn table(cutoffs: &[usize]) -> Table {
    columns(cutoffs, &[]).table("summary", "One row a protocol and method: the row of a paper's table.")
}

/// The cut-offs of a `summary`, ascending: those that it has columns of.
#[must_use]
pub fn cutoffs(schema: &Schema) -> Vec<usize> {
    super::cutoffs(schema, "i2t_r")
}

/// Rows as a batch.
///
/// # Errors
/// None that rows with a recall for each cut-off could cause.
pub fn rows(cutoffs: &[usize], rows: &[Row]) -> Result<RecordBatch> {
    columns(cutoffs, rows).batch()
}
