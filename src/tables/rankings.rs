//! `rankings`: best items of every query, and the rank of its best match.

use arrow::array::{BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float32Type, Int64Type, Schema};
use az::SaturatingAs;

use super::column::{ListReader, TableBuilder, ids, optional_counts};
use super::{ListColumn, Nullable, Table, int_column, repeated};
use pairloom_base::error::Result;

/// Version of `evaluate` from which ranks begin at 1. They began at 0 before.
pub const RANKS_FROM_1: u32 = 10;

/// Values of the columns that are the same in all rows of a batch.
#[derive(Debug, Clone, Copy, Default)]
pub struct RankingScope<'s> {
    /// Evaluation protocol.
    pub protocol: &'s str,
    /// Fold of the protocol.
    pub fold: usize,
    /// Ranking method.
    pub method: &'s str,
    /// Parameters of the method.
    pub parameters: Option<&'s str>,
    /// `i2t` or `t2i`.
    pub direction: &'s str,
}

impl RankingScope<'_> {
    /// Starts a table of `rows` rows with these columns; `direction` is the description of the column of that name.
    pub(super) fn columns(&self, direction: &'static str, rows: usize) -> TableBuilder {
        let parameters: StringArray = std::iter::repeat_n(self.parameters, rows).collect();
        TableBuilder::default()
            .with(
                "protocol",
                "Evaluation protocol, which defines the ranked pools: `coco-5k`, `coco-1k-five-fold`.",
                repeated(self.protocol, rows),
            )
            .with(
                "fold",
                "Fold of the protocol, from 0.",
                Int64Array::from_value(self.fold.saturating_as::<i64>(), rows),
            )
            .with("method", "Ranking method: `nns` is the nearest neighbour.", repeated(self.method, rows))
            .with_parameters(Nullable(parameters))
            .with("direction", direction, repeated(self.direction, rows))
    }
}

/// Row of the table: the result of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingRow {
    /// Identifier of the query.
    pub query_id: i64,
    /// Image of the query.
    pub image_id: i64,
    /// True for each cut-off k if a match is among the k best items.
    pub hits: Vec<bool>,
    /// Rank of the best match, from 1; `None` for a matching.
    pub rank: Option<usize>,
    /// Rank of the best match if it won every tie.
    pub rank_optimistic: Option<usize>,
    /// Rank of the best match if it lost every tie.
    pub rank_pessimistic: Option<usize>,
    /// Identifiers of the best items, best first.
    pub top_ids: Vec<i64>,
    /// Scores of these items.
    pub top_scores: Vec<f32>,
}

fn columns(cutoffs: &[usize], scope: &RankingScope<'_>, rows: &[RankingRow]) -> Result<TableBuilder> {
    let columns = scope
        .columns(
            "Direction of retrieval: `i2t` ranks captions for an image, `t2i` ranks images for a caption.",
            rows.len(),
        )
        .with(
            "query_id",
            "Identifier of the query: `image_id` (i2t) or `caption_id` (t2i).",
            ids(rows, |row| row.query_id),
        )
        .with(
            "image_id",
            "Identifier of the query's image: the query itself (i2t), or the image of the caption (t2i).",
            ids(rows, |row| row.image_id),
        );
    let with_hit = |columns: TableBuilder, (index, k): (usize, &usize)| {
        let description = match k {
            1 => "True if a match is the best item; for a matching, true if a match is in the query's set for R@1."
                .to_owned(),
            _ => format!(
                "True if a match is among the {k} best items; for a matching, true if a match is in the query's set for \
                 R@{k}."
            ),
        };
        let hits: BooleanArray = rows.iter().map(|row| row.hits.get(index).copied()).collect();
        columns.with(format!("hit_{k}"), description, hits)
    };
    let top_ids = rows.iter().flat_map(|row| row.top_ids.iter().copied());
    let top_scores = rows.iter().flat_map(|row| row.top_scores.iter().copied());
    let columns = cutoffs.iter().enumerate().fold(columns, with_hit);
    Ok(columns
        .with(
            "rank",
            "Rank of the best match, from 1; of equal scores the lower index comes first. Missing for a matching, \
             which returns sets.",
            optional_counts(rows, |row| row.rank),
        )
        .with(
            "rank_optimistic",
            "Rank of the best match if it won every tie, from 1.",
            optional_counts(rows, |row| row.rank_optimistic),
        )
        .with(
            "rank_pessimistic",
            "Rank of the best match if it lost every tie, from 1.",
            optional_counts(rows, |row| row.rank_pessimistic),
        )
        .with(
            "top_ids",
            "Identifiers of the best items, best first: ten, or `ranking_depth`. They are `caption_id` (i2t) or `image_id` \
             (t2i); for a matching, of the items that it accepts.",
            ListColumn::<Int64Type>::new(rows.iter().map(|row| row.top_ids.len()), top_ids)?,
        )
        .with(
            "top_scores",
            "Scores of the items in `top_ids`, with the corrections of the method.",
            ListColumn::<Float32Type>::new(rows.iter().map(|row| row.top_scores.len()), top_scores)?,
        ))
}

/// Best items of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TopItems<'b> {
    /// Identifier of the query.
    pub query_id: i64,
    /// Identifiers of the items, best first.
    pub item_ids: &'b [i64],
    /// Scores of the items.
    pub scores: &'b [f32],
}

/// Returns the best items of each row of a batch of the table without a copy.
pub fn top_items(batch: &RecordBatch) -> Result<Vec<TopItems<'_>>> {
    let query_ids = int_column(batch, "query_id")?;
    let items = ListReader::<Int64Type>::new(batch, "top_ids")?;
    let scores = ListReader::<Float32Type>::new(batch, "top_scores")?;
    let row =
        |row| Ok(TopItems { query_id: query_ids.value(row), item_ids: items.row(row)?, scores: scores.row(row)? });
    (0..batch.num_rows()).map(row).collect()
}

/// Describes the table, with a column `hit_K` for each cut-off K. Without cut-offs, it has the other columns only.
#[must_use]
pub fn table(cutoffs: &[usize]) -> Table {
    let columns = columns(cutoffs, &RankingScope::default(), &[]).expect("a table without rows");
    columns.table(
        "rankings",
        "One row per query, protocol, fold and method: the best items, and the rank of the best match.",
    )
}

/// Returns the cut-offs that a `rankings` table has columns for, ascending.
#[must_use]
pub fn cutoffs(schema: &Schema) -> Vec<usize> {
    super::cutoffs(schema, "hit_")
}

/// Builds a batch of rows.
///
/// # Errors
/// A row lacks the hit of a cut-off.
pub fn batch(cutoffs: &[usize], scope: &RankingScope<'_>, rows: &[RankingRow]) -> Result<RecordBatch> {
    columns(cutoffs, scope, rows)?.batch()
}
