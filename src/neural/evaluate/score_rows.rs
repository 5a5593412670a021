//! Scores of a split from the tables `scores` and `scored_captions`.

use std::collections::{BTreeSet, HashSet};

use super::embeddings::no_rows;
use super::pool::{SplitPool, positions_by_id};
use pairloom_base::error::{Error, Result};
use pairloom_stage::StageContext;
use pairloom_storage::shard::ShardVectors;
use pairloom_tables as tables;

/// Scores of images with captions, in the order that is wanted.
#[derive(Debug)]
pub(super) struct ScoreRows {
    values: ScoreValues,
    /// Number of captions.
    captions: usize,
    /// Row of the table for each image; `None` if all rows are wanted, in their order.
    order: Option<Vec<usize>>,
}

#[derive(Debug)]
enum ScoreValues {
    /// Columns of the shards of the table, memory-mapped.
    Mapped(Vec<ShardVectors>),
    /// Copies of the rows, one after the other.
    Copied(Vec<f32>),
}

impl ScoreRows {
    /// Opens the rows of `split`. `prefix` begins the names of the inputs. The rows are memory-mapped, unless captions
    /// have to be left out or put in another order.
    ///
    /// # Errors
    /// As [`ScoreTables::open`] and [`SplitPool::join`].
    pub(super) fn read(prefix: &str, split: &str, cx: &mut StageContext<'_>) -> Result<(SplitPool, Self)> {
        let tables = ScoreTables::open(prefix, [split, split], cx)?;
        let ScoredCaptions { ids, image_ids } = &tables.captions;
        let of_scores = tables.of_scores.clone();
        let (pool, order) = SplitPool::join(tables.image_ids.clone(), ids, image_ids, (split, &of_scores), cx)?;
        Ok((pool, tables.rows(None, &order, cx)?))
    }

    /// Number of captions.
    pub(super) fn captions(&self) -> usize {
        self.captions
    }

    /// Scores of each image.
    ///
    /// # Errors
    /// A file is damaged.
    pub(super) fn rows(&self) -> Result<Vec<&[f32]>> {
        let all: Vec<&[f32]> = match &self.values {
            ScoreValues::Mapped(shards) => {
                shards.iter().flat_map(|shard| (0..shard.rows()).map(|row| shard.row(row))).collect::<Result<_>>()?
            }
            ScoreValues::Copied(scores) => scores.chunks_exact(self.captions.max(1)).collect(),
        };
        Ok(match &self.order {
            Some(order) => order.iter().map(|&row| all[row]).collect(),
            None => all,
        })
    }
}

/// Tables `scores` and `scored_captions` of one stage.
pub(super) struct ScoreTables {
    /// Names of the inputs.
    of_scores: String,
    of_captions: String,
    /// Image of each row.
    pub(super) image_ids: Vec<i64>,
    captions: ScoredCaptions,
    shards: Vec<ShardVectors>,
}

impl ScoreTables {
    /// Opens the tables of the inputs that begin with `prefix`. `splits` are those of the images and of the captions.
    ///
    /// # Errors
    /// No rows of the splits, or rows of others; an image or a caption twice; a number of scores that is not the number
    /// of captions.
    pub(super) fn open(prefix: &str, splits: [&str; 2], cx: &mut StageContext<'_>) -> Result<Self> {
        let [split, of_captions_split] = splits;
        let [of_scores, of_captions] = ["scores", "captions"].map(|input| format!("{prefix}{input}"));
        let captions = read_captions(&of_captions, of_captions_split, cx)?;
        let shards = cx.shards(&of_scores)?;
        let (mut image_ids, mut rows, mut others) = (Vec::new(), Vec::new(), BTreeSet::new());
        for shard in 0..shards.len() {
            let shard = shards.open(shard)?;
            let (ids, of_rows) = (shard.ids("image_id")?, shard.texts("split")?);
            for row in 0..ids.rows() {
                if of_rows.value(row)? == split {
                    image_ids.push(ids.value(row)?);
                } else {
                    others.insert(of_rows.value(row)?.to_owned());
                }
            }
            rows.push(shard.vectors("scores")?);
        }
        if image_ids.is_empty() {
            return Err(no_rows(split, &of_scores, &others));
        }
        if let Some(other) = others.first() {
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
        Ok(Self { of_scores, of_captions, image_ids, captions, shards: rows })
    }

    /// Identifiers of the captions, in the order of their table.
    pub(super) fn caption_ids(&self) -> &[i64] {
        &self.captions.ids
    }

    /// Scores of these images with these captions; all images in their order if `images` is `None`.
    ///
    /// # Errors
    /// The tables lack one of them.
    pub(super) fn rows_of(
        self,
        images: Option<&[i64]>,
        captions: &[i64],
        cx: &mut StageContext<'_>,
    ) -> Result<ScoreRows> {
        let places = |what: &str, input: &str, wanted: &[i64], there: &[i64]| -> Result<Vec<usize>> {
            let places = positions_by_id(there);
            let place = |id: &i64| {
                let message = format!("`{input}` has no {what} {id}, wanted all {} that are compared", wanted.len());
                let error = || Error::data(message).hint("score the same images and captions as in the other tables");
                places.get(id).copied().ok_or_else(error)
            };
            wanted.iter().map(place).collect()
        };
        let images = images.map(|ids| places("image", &self.of_scores, ids, &self.image_ids)).transpose()?;
        let captions = places("caption", &self.of_captions, captions, &self.captions.ids)?;
        self.rows(images, &captions, cx)
    }

    /// Scores of rows and columns of the table.
    fn rows(self, images: Option<Vec<usize>>, columns: &[usize], cx: &mut StageContext<'_>) -> Result<ScoreRows> {
        let captions = columns.len();
        if captions == self.captions.ids.len() && columns.is_sorted() {
            return Ok(ScoreRows { values: ScoreValues::Mapped(self.shards), captions, order: images });
        }
        let mut copies = Vec::with_capacity(self.image_ids.len() * captions);
        for rows in &self.shards {
            cx.check_cancelled()?;
            for row in 0..rows.rows() {
                let row = rows.row(row)?;
                copies.extend(columns.iter().map(|&caption| row[caption]));
            }
        }
        Ok(ScoreRows { values: ScoreValues::Copied(copies), captions, order: images })
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
