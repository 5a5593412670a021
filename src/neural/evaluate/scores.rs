//! Scores of a split: from the tables `scores` and `scored_captions`, or computed by a model as the evaluation needs them.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;

use super::embeddings::no_rows;
use super::pool::{SplitPool, positions_by_id};
use crate::model_input::{TokenizedCaptions, check_image_input, no_rows_of_split};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::hubness::distance::Distance;
use pairloom_kernels::identity::IdentityWriter;
use pairloom_model::pair_scores::{ImageValues, StreamedItems};
use pairloom_model::rows_encoder::{BlockShare, ImageEncoder};
use pairloom_model::trained_model::TrainedModel;
use pairloom_retrieval::{BinaryRelevance, PoolScores, ScoreSet, ScoreSource};
use pairloom_search::Search;
use pairloom_spec::input_spec::ImageInput;
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
            let message = format!("`{of_scores}` has rows of the splits `{split}` and `{other}`, expected one split");
            return Err(Error::data(message));
        }
        if let Some(twice) = duplicate(&image_ids) {
            return Err(Error::data(format!("`{of_scores}` has image {twice} twice, expected one row")));
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
        let places = |what: &str, input: &str, ids: &[i64], there: &[i64]| -> Result<Vec<usize>> {
            let places = positions_by_id(there);
            let place = |id: &i64| {
                let message = format!("`{input}` has no {what} {id}, expected all {} that are compared", ids.len());
                let error = || Error::data(message).hint("score the same images and captions as in the other tables");
                places.get(id).copied().ok_or_else(error)
            };
            ids.iter().map(place).collect()
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
        let (ids, image_ids) = (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
        splits.extend(tables::text_column(&batch, "split")?.iter().flatten().map(str::to_owned));
        captions.ids.extend(ids.values());
        captions.image_ids.extend(image_ids.values());
    }
    if splits.iter().any(|other| other != split) || splits.is_empty() {
        return Err(no_rows(split, input, &splits));
    }
    match duplicate(&captions.ids) {
        Some(twice) => Err(Error::data(format!("`{input}` has caption {twice} twice, expected one row"))),
        None => Ok(captions),
    }
}

/// First identifier that occurs twice.
fn duplicate(ids: &[i64]) -> Option<i64> {
    let mut seen = HashSet::new();
    ids.iter().copied().find(|id| !seen.insert(*id))
}

/// Images and captions of a split, with the model that scores them.
pub(super) struct ModelScores<'m> {
    trained: &'m TrainedModel,
    image_ids: Vec<i64>,
    caption_ids: Vec<i64>,
    /// Token ids of the captions.
    token_ids: Vec<Vec<i32>>,
    images: MappedImages,
    /// Captions of each image whose scores the measures ask for.
    positives: Vec<Vec<usize>>,
    /// Digest of model, images and captions.
    digest: blake3::Hash,
    threads: usize,
}

/// Features or regions of the images of a split, memory-mapped.
struct MappedImages {
    shards: Vec<ShardVectors>,
    /// Shard and row of each image.
    places: Vec<(usize, usize)>,
}

/// Names of the tables of images and captions, for messages.
pub(super) struct ModelInputs {
    pub(super) images: (String, ImageInput),
    pub(super) captions: String,
    /// Digest of the files of the model.
    pub(super) model_digest: blake3::Hash,
}

impl<'m> ModelScores<'m> {
    /// Reads a split.
    ///
    /// # Errors
    /// Images or captions that the model cannot score, no rows of the split, or as [`SplitPool::join`].
    pub(super) fn read(
        trained: &'m TrainedModel,
        inputs: &ModelInputs,
        split: &str,
        cx: &mut StageContext<'_>,
    ) -> Result<(SplitPool, Self)> {
        let (table, input) = &inputs.images;
        check_image_input(trained, *input)?;
        let image_ids = check_images(trained, (table, *input), split, cx)?;
        let captions = TokenizedCaptions::read(trained, (split, &inputs.captions), cx)?;
        let (pool, order) =
            SplitPool::join(image_ids.clone(), &captions.ids, &captions.image_ids, (split, input.name()), cx)?;
        let token_ids: Vec<Vec<i32>> = order.iter().map(|&caption| captions.token_ids[caption].clone()).collect();
        let shards = cx.shards(input.name())?;
        let (mut at, mut vectors, mut hasher) = (HashMap::new(), Vec::new(), blake3::Hasher::new());
        let mut sink = |bytes: &[u8]| {
            hasher.update(bytes);
        };
        let mut fields = IdentityWriter::new(&mut sink);
        fields.write_bytes(inputs.model_digest.as_bytes());
        for shard in 0..shards.len() {
            let open = shards.open(shard)?;
            let ids = open.ids("image_id")?;
            for row in 0..ids.rows() {
                at.insert(ids.value(row)?, (shard, row));
            }
            vectors.push(open.vectors(input.column())?);
            fields.write_text(shards.digest(shard));
        }
        let place = |id: &i64| at.get(id).copied().ok_or_else(|| Error::internal(format!("image {id} has no row")));
        let places = image_ids.iter().map(place).collect::<Result<Vec<_>>>()?;
        for ids in [&pool.images, &pool.captions] {
            fields.write_bytes(&ids.iter().flat_map(|id| id.to_le_bytes()).collect::<Vec<_>>());
        }
        for words in &token_ids {
            fields.write_bytes(&words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>());
        }
        let positives = pool.first_caption.windows(2).map(|range| (range[0]..range[1]).collect()).collect();
        let (image_ids, caption_ids) = (pool.images.clone(), pool.captions.clone());
        let (digest, threads) = (hasher.finalize(), cx.threads());
        let images = MappedImages { shards: vectors, places };
        let this = Self { trained, image_ids, caption_ids, token_ids, images, positives, digest, threads };
        Ok((pool, this))
    }

    /// Adds the pairs of a relevance to those whose scores the measures ask for.
    pub(super) fn add_positives(&mut self, relevance: &BinaryRelevance) {
        for (image, captions) in relevance.captions_of.iter().enumerate() {
            self.positives[image].extend(captions);
        }
        for (caption, images) in relevance.images_of.iter().enumerate() {
            for &image in images {
                self.positives[image].push(caption);
            }
        }
        for captions in &mut self.positives {
            captions.sort_unstable();
            captions.dedup();
        }
    }
}

/// Identifiers of the images of a split, in the order of their table, after a check of all of them.
///
/// # Errors
/// As [`ImageEncoder::push`], or no image of the split.
fn check_images(
    trained: &TrainedModel,
    (table, input): (&str, ImageInput),
    split: &str,
    cx: &mut StageContext<'_>,
) -> Result<Vec<i64>> {
    let wants = |other: &str| other == split;
    let mut images = ImageEncoder::new(trained, table, &wants).share(BlockShare::NONE);
    let mut ids = Vec::new();
    while let Some(batch) = cx.read_next(input.name())? {
        ids.extend(images.push(&batch)?.into_iter().flat_map(|rows| rows.image_ids));
    }
    ids.extend(images.finish()?.into_iter().flat_map(|rows| rows.image_ids));
    if ids.is_empty() {
        return Err(no_rows_of_split("image", split, table, &images.splits));
    }
    Ok(ids)
}

impl ScoreSource for &ModelScores<'_> {
    fn pool<'s>(&'s self, images: &Range<usize>, captions: &Range<usize>) -> Result<Box<dyn PoolScores + 's>> {
        let in_pool = |all: &Vec<usize>| -> Vec<usize> {
            let within = all.iter().filter(|caption| captions.contains(caption));
            within.map(|caption| caption - captions.start).collect()
        };
        Ok(Box::new(ModelPool {
            scores: self,
            images: PoolImages { all: &self.images, first: images.start },
            ids: [&self.image_ids[images.clone()], &self.caption_ids[captions.clone()]],
            token_ids: self.token_ids[captions.clone()].iter().map(Vec::as_slice).collect(),
            positives: self.positives[images.clone()].iter().map(in_pool).collect(),
        }))
    }
}

/// Images and captions of a pool.
struct ModelPool<'p> {
    scores: &'p ModelScores<'p>,
    images: PoolImages<'p>,
    ids: [&'p [i64]; 2],
    token_ids: Vec<&'p [i32]>,
    /// Captions of each image, from 0 in the pool.
    positives: Vec<Vec<usize>>,
}

/// Images of a pool: those of the split from `first` on.
struct PoolImages<'p> {
    all: &'p MappedImages,
    first: usize,
}

impl ImageValues for PoolImages<'_> {
    fn append(&self, image: usize, values: &mut Vec<f32>) -> Result<()> {
        let (shard, row) = self.all.places[self.first + image];
        values.extend_from_slice(self.all.shards[shard].row(row)?);
        Ok(())
    }
}

impl PoolScores for ModelPool<'_> {
    fn size(&self, set: ScoreSet) -> Option<usize> {
        match set {
            ScoreSet::Images => Some(self.ids[0].len()),
            ScoreSet::Captions => Some(self.ids[1].len()),
            ScoreSet::BankImages | ScoreSet::BankCaptions => None,
        }
    }

    fn search(&self, rows: ScoreSet, columns: ScoreSet) -> Result<Search<'_>> {
        if (rows, columns) != (ScoreSet::Images, ScoreSet::Captions) {
            return Err(not_kept());
        }
        let ModelScores { trained, digest, threads, .. } = *self.scores;
        let (token_ids, positives) = (self.token_ids.as_slice(), self.positives.as_slice());
        let items = StreamedItems { ids: self.ids, images: &self.images, token_ids, positives, digest };
        Ok(Search::from_boxed(Box::new(trained.streamed_scores(items, threads)?), threads))
    }

    fn distance(&self) -> Result<Distance> {
        Err(not_kept())
    }

    fn with_joined_items(
        &self,
        _: ScoreSet,
        _: [ScoreSet; 2],
        _: &mut dyn FnMut(&Search<'_>) -> Result<()>,
    ) -> Result<()> {
        Err(not_kept())
    }
}

/// Error: a method needs scores in another way than image by image. The check of the file refuses such methods.
fn not_kept() -> Error {
    Error::usage("needs other scores than those of all captions for one image after the other")
        .hint("keep the scores with `score_pairs`, and evaluate that table by `scores`")
}
