//! Scores of a split from the tables `scores` and `scored_captions`.

use std::collections::{BTreeSet, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::embeddings::no_rows;
use super::pool::SplitPool;
use crate::error::{Error, Result};
use crate::io::shard::ShardVectors;
use crate::stage::{StageContext, StageInput, TableRef};
use crate::tables;

/// Scores of all pairs of a split.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ScoredSplit {
    /// Scores.
    pub scores: TableRef,
    /// Captions of the scores.
    pub captions: TableRef,
}

impl ScoredSplit {
    /// Inputs, whose names begin with `prefix`.
    pub(super) fn inputs(&self, prefix: &str) -> [StageInput; 2] {
        [
            StageInput::table(format!("{prefix}scores"), &self.scores, &tables::scores::table()),
            StageInput::table(format!("{prefix}captions"), &self.captions, &tables::scored_captions::table()),
        ]
    }
}

/// Scores of all images of a split with all its captions, in the order of its pool.
#[derive(Debug)]
pub(super) enum ScoreRows {
    /// Columns of the shards of the table, memory-mapped.
    Mapped(Vec<ShardVectors>),
    /// Copies of the rows, one after the other, with this number of captions.
    Copied(Vec<f32>, usize),
}

impl ScoreRows {
    /// Opens the rows of `split`. `prefix` begins the names of the inputs. The rows are memory-mapped, unless captions
    /// have to be left out or put in another order.
    ///
    /// # Errors
    /// No rows of the split; an image or a caption twice; a number of scores that is not the number of captions; and as
    /// [`SplitPool::join`].
    pub(super) fn read(prefix: &str, split: &str, cx: &mut StageContext<'_>) -> Result<(SplitPool, Self)> {
        let [of_scores, of_captions] = ["scores", "captions"].map(|input| format!("{prefix}{input}"));
        let captions = read_captions(&of_captions, split, cx)?;
        let shards = cx.shards(&of_scores)?;
        let (mut image_ids, mut rows, mut splits) = (Vec::new(), Vec::new(), BTreeSet::new());
        for shard in 0..shards.len() {
            let shard = shards.open(shard)?;
            let (ids, of_rows) = (shard.ids("image_id")?, shard.texts("split")?);
            for row in 0..ids.rows() {
                if of_rows.value(row)? == split {
                    image_ids.push(ids.value(row)?);
                } else {
                    splits.insert(of_rows.value(row)?.to_owned());
                }
            }
            rows.push(shard.vectors("scores")?);
        }
        if image_ids.is_empty() {
            return Err(no_rows(split, &of_scores, &splits));
        }
        if let Some(other) = splits.first() {
            let message = format!("`{of_scores}` has rows of the splits `{split}` and `{other}`, wanted one split");
            return Err(Error::data(message));
        }
        if let Some(twice) = duplicate(&image_ids) {
            return Err(Error::data(format!("`{of_scores}` has image {twice} twice, wanted one row")));
        }
        let count = captions.ids.len();
        if let Some(wrong) = rows.iter().find(|rows| rows.width() != count) {
            let message =
                format!("`{of_scores}` has {} scores of an image, `{of_captions}` {count} captions", wrong.width());
            return Err(Error::data(message).hint("both tables must come from one stage"));
        }
        let (pool, order) = SplitPool::join(image_ids, &captions.ids, &captions.image_ids, (split, &of_scores), cx)?;
        if order.len() == count && order.is_sorted() {
            return Ok((pool, Self::Mapped(rows)));
        }
        let mut copies = Vec::with_capacity(pool.images.len() * order.len());
        for rows in &rows {
            cx.check_cancelled()?;
            for row in 0..rows.rows() {
                let row = rows.row(row)?;
                copies.extend(order.iter().map(|&caption| row[caption]));
            }
        }
        Ok((pool, Self::Copied(copies, order.len())))
    }

    /// Scores of each image.
    ///
    /// # Errors
    /// A file is damaged.
    pub(super) fn rows(&self) -> Result<Vec<&[f32]>> {
        match self {
            Self::Mapped(shards) => {
                shards.iter().flat_map(|shard| (0..shard.rows()).map(|row| shard.row(row))).collect()
            }
            Self::Copied(scores, captions) => Ok(scores.chunks_exact((*captions).max(1)).collect()),
        }
    }
}

/// Captions of a split, in the order of their table.
#[derive(Default)]
struct ScoredCaptions {
    ids: Vec<i64>,
    image_ids: Vec<i64>,
}

fn read_captions(input: &str, split: &str, cx: &mut StageContext<'_>) -> Result<ScoredCaptions> {
    let (mut captions, mut splits) = (ScoredCaptions::default(), BTreeSet::new());
    while let Some(batch) = cx.read_next(input)? {
        let (ids, of) = (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
        splits.extend(tables::text_column(&batch, "split")?.iter().flatten().map(str::to_owned));
        captions.ids.extend(ids.values());
        captions.image_ids.extend(of.values());
    }
    if splits.iter().any(|other| other != split) || splits.is_empty() {
        return Err(no_rows(split, input, &splits));
    }
    match duplicate(&captions.ids) {
        Some(twice) => Err(Error::data(format!("`{input}` has caption {twice} twice, wanted one row"))),
        None => Ok(captions),
    }
}

/// First identifier that occurs twice.
fn duplicate(ids: &[i64]) -> Option<i64> {
    let mut seen = HashSet::new();
    ids.iter().copied().find(|id| !seen.insert(*id))
}
