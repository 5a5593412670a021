//! Scores of all images with all captions by a model of any family: computed in one pass, or block by block as a search
//! asks for them.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use az::SaturatingAs;
use tch::Tensor;

use super::family::encode;
use super::family::encode::{CAPTIONS_PER_BLOCK, EncodedItems};
use super::family::model::Model;
use super::family::registry::ModelConfig;
use super::malloc::{keep_freed_memory, return_freed_memory};
use super::tensor_slices::to_vec;
use super::threads::use_one_thread;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_kernels::identity::IdentityWriter;
use pairloom_search::{ConsumePanel, MatrixSide, PanelRow, ScoreBound, ScorePrecision, Scores, consume_row_major};

/// Encoded captions in blocks of like length.
#[derive(Debug)]
pub struct CaptionBlocks {
    blocks: Vec<EncodedItems>,
    /// Captions of a block, except for the last ones of those that were encoded together.
    per_block: usize,
    /// Captions from long to short.
    order: Vec<usize>,
}

impl CaptionBlocks {
    /// Encodes captions, given as token ids with `<start>` and `<end>`.
    ///
    /// # Cost
    /// Memory: the encoded captions, once.
    ///
    /// # Errors
    /// A failure of libtorch. The run was cancelled.
    pub fn encode(model: &dyn Model, captions: &[&[i32]], cancel: &CancelToken) -> Result<Self> {
        let mut order: Vec<usize> = (0..captions.len()).collect();
        // The longest first: the memory of a block is then enough for the next one.
        order.sort_by_key(|&caption| Reverse(captions[caption].len()));
        let (mut blocks, per_block) = (Vec::new(), model.score_block()[1]);
        for together in order.chunks(CAPTIONS_PER_BLOCK) {
            cancel.check()?;
            let token_ids: Vec<&[i32]> = together.iter().map(|&caption| captions[caption]).collect();
            let encoded = model.encode_captions(&token_ids)?;
            let starts = (0..together.len()).step_by(per_block);
            blocks.extend(starts.map(|start| encoded.slice(start..(start + per_block).min(together.len()))));
        }
        Ok(Self { blocks, per_block, order })
    }

    /// Number of captions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True if there are no captions.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Encoded captions of each block, and the captions in the order of the blocks.
    pub(super) fn into_parts(self) -> (Vec<EncodedItems>, Vec<usize>) {
        (self.blocks, self.order)
    }

    /// Returns the same captions for another thread. Vectors are shared, not copied.
    fn share(&self) -> Vec<EncodedItems> {
        self.blocks.iter().map(share_items).collect()
    }
}

/// Computation of the scores of all images with all captions.
#[derive(Debug, Clone, Copy)]
pub struct PairScoring<'s> {
    /// Description of the model.
    pub config: &'s ModelConfig,
    /// Ids of the images and of the captions, for messages.
    pub ids: [&'s [i64]; 2],
    /// Number of threads.
    pub threads: usize,
    /// Token that ends the computation.
    pub cancel: &'s CancelToken,
}

/// Model and encoded items for one thread. They share their tensors' memory, but each tensor handle may be used by one
/// thread only.
struct ScoringThread {
    model: Box<dyn Model>,
    /// Images in blocks.
    images: Vec<EncodedItems>,
    captions: Vec<EncodedItems>,
}

impl PairScoring<'_> {
    /// Computes the scores of all `images` with all `captions` by `model`, row-major with a row for each image. Its
    /// parameters are shared by all threads and must not change.
    ///
    /// A thread scores [`Model::score_block`] images and captions of like length at a time. So a score depends on the
    /// device, the other captions, and the place of the image among the others, but not on the number of threads.
    ///
    /// # Cost
    /// Each score is computed once. Memory: the result, and for each thread that of the model for a block.
    ///
    /// # Errors
    /// A score that is not finite, reported with image and caption; a failure of libtorch; or cancellation.
    pub fn compute(&self, model: &dyn Model, images: &EncodedItems, captions: &CaptionBlocks) -> Result<Vec<f32>> {
        keep_freed_memory();
        let columns = captions.len();
        let [together, _] = model.score_block();
        let starts: Vec<usize> = (0..images.len()).step_by(together).collect();
        let tasks = starts.len() * captions.blocks.len();
        let scores = Mutex::new(vec![0.0f32; images.len() * columns]);
        let workers = (0..self.threads.clamp(1, tasks.max(1))).map(|_| {
            let images =
                starts.iter().map(|&start| images.slice(start..(start + together).min(images.len()))).collect();
            Ok(ScoringThread { model: share_model(self.config, model)?, images, captions: captions.share() })
        });
        let workers = workers.collect::<Result<Vec<_>>>()?;
        let (next, blocks, order) = (AtomicUsize::new(0), captions.blocks.len(), captions.order.as_slice());
        let per_block = captions.per_block;
        let work = |worker: &ScoringThread| -> Result<()> {
            use_one_thread();
            loop {
                let task = next.fetch_add(1, Ordering::Relaxed);
                if task >= tasks {
                    return Ok(());
                }
                self.cancel.check()?;
                let (stripe, block) = (task / blocks, task % blocks);
                let found = to_vec(&worker.model.scores(&worker.images[stripe], &worker.captions[block])?)?;
                let places = &order[block * per_block..((block + 1) * per_block).min(columns)];
                check_finite(self.ids, &found, starts[stripe], places)?;
                let mut scores = scores.lock().unwrap_or_else(PoisonError::into_inner);
                let rows = scores[starts[stripe] * columns..].chunks_exact_mut(columns);
                for (row, found) in rows.zip(found.chunks_exact(places.len())) {
                    places.iter().zip(found).for_each(|(&caption, &score)| row[caption] = score);
                }
            }
        };
        let work = &work;
        std::thread::scope(|scope| {
            let threads: Vec<_> = workers.into_iter().map(|worker| scope.spawn(move || work(&worker))).collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined
                .map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Result<Vec<()>>>()
        })?;
        // The next block of images is read before its scores are computed, and takes other memory.
        return_freed_memory();
        Ok(scores.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Checks that the scores of the images from `first` on with `captions` are finite. `ids` are those of all images and
/// captions.
pub(super) fn check_finite(ids: [&[i64]; 2], scores: &[f32], first: usize, captions: &[usize]) -> Result<()> {
    let Some(wrong) = scores.iter().position(|score| !score.is_finite()) else { return Ok(()) };
    let (image, caption) = (first + wrong / captions.len(), captions[wrong % captions.len()]);
    let (image, caption, score) = (ids[0][image], ids[1][caption], scores[wrong]);
    let message = format!("the model gives image_id {image} and caption_id {caption} the score {score}");
    Err(Error::stage(message).hint("try a lower `learning_rate`, or check the features"))
}

/// Returns the same model for another thread. Parameters are shared, not copied.
pub(super) fn share_model(config: &ModelConfig, model: &dyn Model) -> Result<Box<dyn Model>> {
    config.with_parameters(model.parameters().tensors().iter().map(Tensor::shallow_clone).collect())
}

/// Returns the same items for another thread. Vectors are shared, not copied.
pub(super) fn share_items(items: &EncodedItems) -> EncodedItems {
    items.with_vectors(items.vectors.shallow_clone())
}

/// Features or regions of images, read by several threads.
pub trait ImageValues: Sync {
    /// Appends the values of image `image`, row-major.
    fn append(&self, image: usize, values: &mut Vec<f32>) -> Result<()>;
}

/// Images and captions of [`StreamedScores`].
#[derive(Clone, Copy)]
pub struct StreamedItems<'i> {
    /// Ids of the images and of the captions.
    pub ids: [&'i [i64]; 2],
    /// Features or regions of the images.
    pub images: &'i dyn ImageValues,
    /// Token ids of the captions.
    pub token_ids: &'i [&'i [i32]],
    /// Captions of each image whose scores with it a search asks for: its positives.
    pub positives: &'i [Vec<usize>],
    /// Digest of everything that the scores depend on.
    pub digest: blake3::Hash,
}

/// Scores of images with captions by a model of any family, which are never stored.
///
/// Rows are images. A pass over the scores computes them in blocks of [`Model::score_block`] images and captions of like
/// length, as [`PairScoring`] does. A search asks for the scores of the positives before
/// its pass. They are computed first, together with those of the other images of their block, and replace the scores of
/// the pass. So each pair has one score, which depends on the device, the other images and captions, and the other
/// positives.
///
/// # Cost
/// Each pass computes all scores. Memory: the encoded captions; the scores of the positives; for each thread a block of
/// images with its scores; and for searches that ask for the scores of other pairs, at most 8,192 blocks of scores.
pub struct StreamedScores<'i> {
    items: StreamedItems<'i>,
    cancel: CancelToken,
    blocks: PairBlocks,
    cost: u64,
    /// At least one.
    workers: Mutex<Vec<ScoringWorker>>,
    /// Scores of each image with its positives, by caption.
    positive_scores: Vec<HashMap<usize, f32>>,
    /// Scores of the latest blocks that [`Scores::exact_scores`] computed, by block of images and of captions.
    latest: Mutex<HashMap<[usize; 2], Vec<f32>>>,
}

/// Largest absolute score. It bounds the error of a score less the shift of an item, which is rounded to f32.
const LARGEST_SCORE: f32 = 4096.0;

/// Largest number of blocks that are kept for [`Scores::exact_scores`].
const BLOCKS_KEPT: usize = 8192;

/// Division of images and captions into blocks.
struct PairBlocks {
    images: usize,
    images_per_block: usize,
    captions_per_block: usize,
    /// Captions from long to short, block by block.
    order: Vec<usize>,
    /// Place of each caption in `order`.
    places: Vec<usize>,
}

impl PairBlocks {
    /// Images of a block.
    fn images(&self, block: usize) -> Range<usize> {
        let first = block * self.images_per_block;
        first..self.images.min(first + self.images_per_block)
    }

    /// Captions of each block.
    fn captions(&self) -> impl Iterator<Item = &[usize]> {
        self.order.chunks(self.captions_per_block)
    }
}

/// Model and encoded captions for one thread. They share the memory of their tensors, but a tensor handle may be used by
/// one thread only.
struct ScoringWorker {
    config: ModelConfig,
    model: Box<dyn Model>,
    /// Captions of each block.
    captions: Vec<EncodedItems>,
}

impl ScoringWorker {
    fn share(&self) -> Result<Self> {
        let model = share_model(&self.config, &*self.model)?;
        Ok(Self { config: self.config.clone(), model, captions: self.captions.iter().map(share_items).collect() })
    }

    /// Captions of any blocks, given by their places in the order of the blocks.
    fn select_captions(&self, places: &[usize], per_block: usize) -> Result<EncodedItems> {
        let one = |&place: &usize| {
            let in_block = place % per_block;
            self.captions[place / per_block].slice(in_block..in_block + 1)
        };
        EncodedItems::concat(&places.iter().map(one).collect::<Vec<_>>())
    }
}

impl<'i> StreamedScores<'i> {
    /// Encodes the captions, and scores the positives on `threads` threads.
    ///
    /// # Errors
    /// A caption without tokens; a score that is not finite; a failure of libtorch; or cancellation.
    pub fn new(
        (config, model): (&ModelConfig, &dyn Model),
        items: StreamedItems<'i>,
        threads: usize,
        cancel: &CancelToken,
    ) -> Result<Self> {
        keep_freed_memory();
        let [images_per_block, captions_per_block] = model.score_block();
        let (captions, order) = CaptionBlocks::encode(model, items.token_ids, cancel)?.into_parts();
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, &caption)| places[caption] = place);
        let words: i64 = captions.iter().map(|block| block.vectors.size()[0]).sum();
        let [words, images, captions_in_all] = [words.saturating_as(), items.positives.len(), order.len()];
        let width = captions.first().map_or(0, EncodedItems::width);
        // Each word is multiplied by all regions of an image.
        let mut image = Vec::new();
        if images > 0 {
            items.images.append(0, &mut image)?;
        }
        let regions = (image.len() / model.input_spec().image.max(1)).max(1);
        let made = Self {
            cost: (words * width * regions).div_ceil(captions_in_all.max(1)).max(1) as u64,
            blocks: PairBlocks { images, images_per_block, captions_per_block, order, places },
            items,
            cancel: cancel.clone(),
            workers: Mutex::new(vec![ScoringWorker {
                config: config.clone(),
                model: share_model(config, model)?,
                captions,
            }]),
            positive_scores: Vec::new(),
            latest: Mutex::default(),
        };
        Ok(Self { positive_scores: made.score_positives(threads)?, ..made })
    }

    /// Calls `work` with a worker that no other thread uses.
    fn with_worker<T>(&self, work: impl FnOnce(&ScoringWorker) -> Result<T>) -> Result<T> {
        use_one_thread();
        let mut idle = lock(&self.workers);
        let worker = if idle.len() > 1 { idle.pop() } else { None };
        let worker = worker.map_or_else(|| idle[0].share(), Ok)?;
        drop(idle);
        let result = work(&worker);
        lock(&self.workers).push(worker);
        result
    }

    /// Encodes a block of images.
    fn encode_images(&self, worker: &ScoringWorker, images: Range<usize>) -> Result<EncodedItems> {
        let (mut values, count) = (Vec::new(), images.len());
        for image in images {
            self.items.images.append(image, &mut values)?;
        }
        encode::images(&*worker.model, &values, values.len() / count.max(1), &self.cancel)
    }

    /// Scores of a block of images, encoded, with captions of like length.
    fn scores(
        &self,
        worker: &ScoringWorker,
        images: (&EncodedItems, usize),
        (captions, numbers): (&EncodedItems, &[usize]),
    ) -> Result<Vec<f32>> {
        self.cancel.check()?;
        let (images, first) = images;
        let scores = to_vec(&worker.model.scores(images, captions)?)?;
        check_finite(self.items.ids, &scores, first, numbers)?;
        if let Some(score) = scores.iter().find(|score| score.abs() > LARGEST_SCORE) {
            let message = format!("the model gives a pair the score {score}, expected at most {LARGEST_SCORE}");
            return Err(Error::stage(message).hint("keep the scores with `score_pairs`, and evaluate that table"));
        }
        Ok(scores)
    }

    /// Scores of each image with its positives.
    fn score_positives(&self, threads: usize) -> Result<Vec<HashMap<usize, f32>>> {
        let blocks = self.blocks.images.div_ceil(self.blocks.images_per_block);
        let (next, found) = (AtomicUsize::new(0), Mutex::new(vec![HashMap::new(); self.blocks.images]));
        let work = || -> Result<()> {
            loop {
                let block = next.fetch_add(1, Ordering::Relaxed);
                if block >= blocks {
                    return Ok(());
                }
                let block_scores = self.score_positives_of(self.blocks.images(block))?;
                let mut found = lock(&found);
                self.blocks.images(block).zip(block_scores).for_each(|(image, scores)| found[image] = scores);
            }
        };
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined
                .map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect::<Result<Vec<()>>>()
        })?;
        Ok(found.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Scores of each image of a block with its positives: those of all images of the block are scored with all of them.
    fn score_positives_of(&self, images: Range<usize>) -> Result<Vec<HashMap<usize, f32>>> {
        let PairBlocks { captions_per_block, order, places, .. } = &self.blocks;
        let positives = &self.items.positives[images.clone()];
        let mut found = vec![HashMap::new(); images.len()];
        let mut expected: Vec<usize> = positives.iter().flatten().map(|&caption| places[caption]).collect();
        expected.sort_unstable();
        expected.dedup();
        if expected.is_empty() {
            return Ok(found);
        }
        self.with_worker(|worker| {
            let encoded = self.encode_images(worker, images.clone())?;
            for places in expected.chunks(*captions_per_block) {
                let numbers: Vec<usize> = places.iter().map(|&place| order[place]).collect();
                let captions = worker.select_captions(places, *captions_per_block)?;
                let scores = self.scores(worker, (&encoded, images.start), (&captions, &numbers))?;
                for ((own, found), scores) in positives.iter().zip(&mut found).zip(scores.chunks_exact(numbers.len())) {
                    let own_scores = numbers.iter().zip(scores).filter(|(caption, _)| own.contains(caption));
                    found.extend(own_scores.map(|(&caption, &score)| (caption, score)));
                }
            }
            Ok(found)
        })
    }

    /// Score of a pair that is no positive: that of its block.
    fn score_of_block(&self, image: usize, caption: usize) -> Result<f32> {
        let PairBlocks { images_per_block, captions_per_block, order, places, .. } = &self.blocks;
        let (image_block, caption_block) = (image / images_per_block, places[caption] / captions_per_block);
        let images = self.blocks.images(image_block);
        let first = caption_block * captions_per_block;
        let numbers = &order[first..order.len().min(first + captions_per_block)];
        let place = (image - images.start) * numbers.len() + places[caption] - first;
        if let Some(scores) = lock(&self.latest).get(&[image_block, caption_block]) {
            return Ok(scores[place]);
        }
        let scores = self.with_worker(|worker| {
            let encoded = self.encode_images(worker, images.clone())?;
            self.scores(worker, (&encoded, images.start), (&worker.captions[caption_block], numbers))
        })?;
        let mut latest = lock(&self.latest);
        if latest.len() >= BLOCKS_KEPT {
            latest.clear();
        }
        Ok(latest.entry([image_block, caption_block]).or_insert(scores)[place])
    }
}

impl Scores for StreamedScores<'_> {
    fn shape(&self) -> [usize; 2] {
        [self.blocks.images, self.blocks.order.len()]
    }

    fn cost(&self) -> u64 {
        self.cost
    }

    fn is_exact(&self) -> bool {
        true
    }

    fn bounds(&self, _precision: ScorePrecision) -> [Vec<ScoreBound>; 2] {
        self.shape().map(|count| vec![ScoreBound { error: 0.0, largest: f64::from(LARGEST_SCORE) }; count])
    }

    fn block_rows(&self, _precision: ScorePrecision) -> usize {
        self.blocks.images_per_block
    }

    fn compute_block(
        &self,
        _precision: ScorePrecision,
        rows: Range<usize>,
        buffer: &mut Vec<PanelRow>,
        consume: ConsumePanel<'_>,
    ) -> Result<()> {
        let columns = self.blocks.order.len();
        let mut matrix = vec![0.0f32; rows.len() * columns];
        let per_block = self.blocks.images_per_block;
        self.with_worker(|worker| {
            // Rows may begin within a block of images, whose scores depend on the whole block.
            for block in rows.start / per_block..rows.end.div_ceil(per_block) {
                let images = self.blocks.images(block);
                let encoded = self.encode_images(worker, images.clone())?;
                for (captions, numbers) in worker.captions.iter().zip(self.blocks.captions()) {
                    let scores = self.scores(worker, (&encoded, images.start), (captions, numbers))?;
                    for (image, scores) in images.clone().zip(scores.chunks_exact(numbers.len())) {
                        if rows.contains(&image) {
                            let row = &mut matrix[(image - rows.start) * columns..][..columns];
                            numbers.iter().zip(scores).for_each(|(&caption, &score)| row[caption] = score);
                        }
                    }
                }
            }
            Ok(())
        })?;
        for (image, row) in rows.zip(matrix.chunks_exact_mut(columns.max(1))) {
            self.positive_scores[image].iter().for_each(|(&caption, &score)| row[caption] = score);
        }
        consume_row_major(&matrix, columns, buffer, consume)
    }

    fn exact_scores(&self, side: MatrixSide, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        scores.clear();
        for &item in items {
            let (image, caption) = match side {
                MatrixSide::Rows => (query, item),
                MatrixSide::Columns => (item, query),
            };
            let known = self.positive_scores[image].get(&caption);
            scores.push(known.map_or_else(|| self.score_of_block(image, caption), |&score| Ok(score))?);
        }
        Ok(())
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("model");
        fields.write_bytes(self.items.digest.as_bytes());
        for numbers in self.items.positives {
            fields.write_usizes(numbers);
        }
    }
}

impl fmt::Debug for StreamedScores<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamedScores").field("shape", &self.shape()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
