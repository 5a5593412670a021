//! `hubs`: how often every item is found.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use super::Table;
use super::rankings::Subject;
use super::rows::{RowColumns, counts, ids};
use crate::error::Result;

/// An item and how often it is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// The item.
    pub item_id: i64,
    /// Queries that have it among their first, at each cut-off.
    pub found: Vec<usize>,
    /// Queries that it matches.
    pub own: usize,
}

fn columns(cutoffs: &[usize], subject: &Subject<'_>, rows: &[Row]) -> RowColumns {
    let columns = subject.columns("`i2t`: captions are found; `t2i`: images are found.", rows.len()).with(
        "item_id",
        "`caption_id` (i2t) or `image_id` (t2i) of the item.",
        ids(rows, |row| row.item_id),
    );
    let found = |columns: RowColumns, (place, k): (usize, &usize)| {
        let about = match k {
            1 => "Queries whose best item it is.".to_owned(),
            _ => format!("Queries that have it among their {k} best."),
        };
        columns.with(format!("n{k}"), about, counts(rows, |row| row.found[place]))
    };
    let columns = cutoffs.iter().enumerate().fold(columns, found);
    columns.with("own", "Queries that it matches.", counts(rows, |row| row.own))
}

/// One row an item, with a column `nK` for each cut-off K; without any, what is there for all cut-offs.
#[must_use]
pub fn table(cutoffs: &[usize]) -> Table {
    let about =
        "One row an item of one protocol, method and direction: in how many rankings it is among the first, Nₖ.";
    columns(cutoffs, &Subject::default(), &[]).table("hubs", about)
}

/// The cut-offs of a `hubs`, ascending: those that it has columns of.
#[must_use]
pub fn cutoffs(schema: &Schema) -> Vec<usize> {
    super::cutoffs(schema, "n")
}

/// Rows as a batch.
///
/// # Errors
/// None that rows with a number for each cut-off could cause.
pub fn rows(cutoffs: &[usize], subject: &Subject<'_>, rows: &[Row]) -> Result<RecordBatch> {
    columns(cutoffs, subject, rows).batch()
}
