//! `hubs`: k-occurrences of items.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use super::Table;
use super::column::{TableBuilder, counts, ids};
use super::rankings::RankingScope;
use pairloom_base::error::Result;

/// Row of the table: an item and its k-occurrences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HubRow {
    /// Identifier of the item.
    pub item_id: i64,
    /// Number of queries that have the item among their k best, for each cut-off k.
    pub k_occurrences: Vec<usize>,
    /// Number of queries that the item matches.
    pub matches: usize,
}

fn columns(cutoffs: &[usize], scope: &RankingScope<'_>, rows: &[HubRow]) -> TableBuilder {
    let columns =
        scope.columns("Direction of retrieval: captions (`i2t`) or images (`t2i`) are the items.", rows.len()).with(
            "item_id",
            "Identifier of the item: `caption_id` (i2t) or `image_id` (t2i).",
            ids(rows, |row| row.item_id),
        );
    let with_k_occurrences = |columns: TableBuilder, (index, k): (usize, &usize)| {
        let description = match k {
            1 => "Number of queries that have the item as their best.".to_owned(),
            _ => format!("Number of queries that have the item among their {k} best."),
        };
        columns.with(format!("n{k}"), description, counts(rows, |row| row.k_occurrences[index]))
    };
    let columns = cutoffs.iter().enumerate().fold(columns, with_k_occurrences);
    columns.with("n_matches", "Number of queries that the item matches.", counts(rows, |row| row.matches))
}

/// Describes the table, with a column `nK` for each cut-off K. Without cut-offs, it has the other columns only.
#[must_use]
pub fn table(cutoffs: &[usize]) -> Table {
    let description = "One row per item, protocol, fold, method and direction: the item's k-occurrences Nₖ, the number of \
         rankings that have it among the k best.";
    columns(cutoffs, &RankingScope::default(), &[]).table("hubs", description)
}

/// Returns the cut-offs that a `hubs` table has columns for, ascending.
#[must_use]
pub fn cutoffs(schema: &Schema) -> Vec<usize> {
    super::cutoffs(schema, "n")
}

/// Builds a batch of rows.
///
/// # Errors
/// A row does not have one value for each cut-off.
pub fn batch(cutoffs: &[usize], scope: &RankingScope<'_>, rows: &[HubRow]) -> Result<RecordBatch> {
    columns(cutoffs, scope, rows).batch()
}
