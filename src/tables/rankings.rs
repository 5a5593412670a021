//! `rankings`: what each query found.

use arrow::array::{BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float32Type, Int64Type, Schema};
use az::SaturatingAs;

use super::rows::{RowColumns, ids, optional_counts};
use super::{Lists, Optional, Table, repeated};
use crate::error::Result;

/// Values that all rows of a batch have in common.
#[derive(Debug, Clone, Copy, Default)]
pub struct Subject<'s> {
    /// Name of the pools.
    pub protocol: &'s str,
    /// Fold of the protocol.
    pub fold: usize,
    /// How items were ranked.
    pub method: &'s str,
    /// Free numbers of the method.
    pub parameters: Option<&'s str>,
    /// `i2t` or `t2i`.
    pub direction: &'s str,
}

impl Subject<'_> {
    /// The first columns, of so many rows; `direction` is what that column means.
    pub(super) fn columns(&self, direction: &'static str, rows: usize) -> RowColumns {
        let parameters: StringArray = std::iter::repeat_n(self.parameters, rows).collect();
        RowColumns::default()
            .with("protocol", "Which pools were ranked: `coco-5k`, `coco-1k-five-fold`.", repeated(self.protocol, rows))
            .with(
                "fold",
                "Fold of the protocol, from 0.",
                Int64Array::from_value(self.fold.saturating_as::<i64>(), rows),
            )
            .with("method", "How items were ranked: `nns` is the nearest neighbour.", repeated(self.method, rows))
            .with_parameters(Optional(parameters))
            .with("direction", direction, repeated(self.direction, rows))
    }
}

/// A query and what it found.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The query.
    pub query_id: i64,
    /// Its image.
    pub image_id: i64,
    /// True at each cut-off where a match is among the first.
    pub hits: Vec<bool>,
    /// Place of the best match, from 0.
    pub rank: Option<usize>,
    /// The rank if every tie were won.
    pub rank_optimistic: Option<usize>,
    /// The rank if every tie were lost.
    pub rank_pessimistic: Option<usize>,
    /// The best items.
    pub top_ids: Vec<i64>,
    /// Their scores.
    pub top_scores: Vec<f32>,
}

fn columns(cutoffs: &[usize], subject: &Subject<'_>, rows: &[Row]) -> Result<RowColumns> {
    let columns = subject
        .columns("`i2t`: an image looks for captions; `t2i`: a caption looks for images.", rows.len())
        .with("query_id", "`image_id` (i2t) or `caption_id` (t2i) of the query.", ids(rows, |row| row.query_id))
        .with(
            "image_id",
            "The image of the query: itself (i2t), or that of the caption (t2i).",
            ids(rows, |row| row.image_id),
        );
    let hit = |columns: RowColumns, (place, k): (usize, &usize)| {
        let about = match k {
            1 => "Whether a match is the best item; of a matching, whether one is in its set for R@1.".to_owned(),
            _ => format!("The same of the {k} best items."),
        };
        let hits: BooleanArray = rows.iter().map(|row| row.hits.get(place).copied()).collect();
        columns.with(format!("hit_{k}"), about, hits)
    };
    let top_ids = rows.iter().flat_map(|row| row.top_ids.iter().copied());
    let top_scores = rows.iter().flat_map(|row| row.top_scores.iter().copied());
    let columns = cutoffs.iter().enumerate().fold(columns, hit);
    Ok(columns
        .with(
            "rank",
            "Place of the best matching item, from 0; of equal scores the lower index comes first. A matching gives sets, \
             not places.",
            optional_counts(rows, |row| row.rank),
        )
        .with("rank_optimistic", "The rank if every tie were won.", optional_counts(rows, |row| row.rank_optimistic))
        .with("rank_pessimistic", "The rank if every tie were lost.", optional_counts(rows, |row| row.rank_pessimistic))
        .with(
            "top_ids",
            "The ten best items, best first: `caption_id` (i2t) or `image_id` (t2i). Of a matching, those accepted.",
            Lists::<Int64Type>::new(rows.iter().map(|row| row.top_ids.len()), top_ids)?,
        )
        .with(
            "top_scores",
            "Their scores, as the method corrects them.",
            Lists::<Float32Type>::new(rows.iter().map(|row| row.top_scores.len()), top_scores)?,
        ))
}

/// One row a query, with a column `hit_K` for each cut-off K; without any, what is there for all cut-offs.
#[must_use]
pub fn table(cutoffs: &[usize]) -> Table {
    let columns = columns(cutoffs, &Subject::default(), &[]).expect("no lists of no rows");
    columns.table("rankings", "One row a query of one protocol and method.")
}

/// The cut-offs of a `rankings`, ascending: those that it has columns of.
#[must_use]
pub fn cutoffs(schema: &Schema) -> Vec<usize> {
    super::cutoffs(schema, "hit_")
}

/// Rows as a batch.
///
/// # Errors
/// A row without a hit for each cut-off.
pub fn rows(cutoffs: &[usize], subject: &Subject<'_>, rows: &[Row]) -> Result<RecordBatch> {
    columns(cutoffs, subject, rows)?.batch()
}
