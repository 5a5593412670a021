//! Scores of a model, computed block by block as a search asks for them.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use az::SaturatingAs;

use super::family::encode;
use super::family::encoded_items::EncodedItems;
use super::family::model::Model;
use super::family::registry::ModelConfig;
use super::malloc::keep_freed_memory;
use super::pair_scores::{CaptionBlocks, check_finite, share_items, share_model};
use super::tensor_slices::to_vec;
use super::threads::use_one_thread;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;
use pairloom_kernels::identity::IdentityWriter;
use pairloom_search::{ConsumePanel, MatrixSide, PanelRow, ScoreBound, ScorePrecision, Scores, consume_row_major};

/// Features or regions of images, read by several threads.
pub trait ImageValues: Sync {
    /// Appends the values of image `image`, row-major.
    ///
    /// # Errors
    /// A file is damaged.
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
/// length, as [`PairScoring`](super::pair_scores::PairScoring) does. A search asks for the scores of the positives before
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
    of_positives: Vec<HashMap<usize, f32>>,
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
            of_positives: Vec::new(),
            latest: Mutex::default(),
        };
        Ok(Self { of_positives: made.score_positives(threads)?, ..made })
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
            let message = format!("the model gives a pair the score {score}, wanted at most {LARGEST_SCORE}");
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
                let of_block = self.score_positives_of(self.blocks.images(block))?;
                let mut found = lock(&found);
                self.blocks.images(block).zip(of_block).for_each(|(image, scores)| found[image] = scores);
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
        let mut wanted: Vec<usize> = positives.iter().flatten().map(|&caption| places[caption]).collect();
        wanted.sort_unstable();
        wanted.dedup();
        if wanted.is_empty() {
            return Ok(found);
        }
        self.with_worker(|worker| {
            let encoded = self.encode_images(worker, images.clone())?;
            for places in wanted.chunks(*captions_per_block) {
                let numbers: Vec<usize> = places.iter().map(|&place| order[place]).collect();
                let captions = worker.select_captions(places, *captions_per_block)?;
                let scores = self.scores(worker, (&encoded, images.start), (&captions, &numbers))?;
                for ((own, found), scores) in positives.iter().zip(&mut found).zip(scores.chunks_exact(numbers.len())) {
                    let of_own = numbers.iter().zip(scores).filter(|(caption, _)| own.contains(caption));
                    found.extend(of_own.map(|(&caption, &score)| (caption, score)));
                }
            }
            Ok(found)
        })
    }

    /// Score of a pair that is no positive: that of its block.
    fn score_of_block(&self, image: usize, caption: usize) -> Result<f32> {
        let PairBlocks { images_per_block, captions_per_block, order, places, .. } = &self.blocks;
        let (of_image, of_caption) = (image / images_per_block, places[caption] / captions_per_block);
        let images = self.blocks.images(of_image);
        let first = of_caption * captions_per_block;
        let numbers = &order[first..order.len().min(first + captions_per_block)];
        let place = (image - images.start) * numbers.len() + places[caption] - first;
        if let Some(scores) = lock(&self.latest).get(&[of_image, of_caption]) {
            return Ok(scores[place]);
        }
        let scores = self.with_worker(|worker| {
            let encoded = self.encode_images(worker, images.clone())?;
            self.scores(worker, (&encoded, images.start), (&worker.captions[of_caption], numbers))
        })?;
        let mut latest = lock(&self.latest);
        if latest.len() >= BLOCKS_KEPT {
            latest.clear();
        }
        Ok(latest.entry([of_image, of_caption]).or_insert(scores)[place])
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
            self.of_positives[image].iter().for_each(|(&caption, &score)| row[caption] = score);
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
            let known = self.of_positives[image].get(&caption);
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
