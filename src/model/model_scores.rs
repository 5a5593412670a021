//! Scores of images with captions by a model of any family, computed in blocks, for searches.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use tch::Tensor;

use super::family::encoded_items::EncodedItems;
use super::family::model::Model;
use super::family::registry::ModelConfig;
use super::tensor_slices::to_vec;
use super::threads::use_one_thread;
use crate::error::{Error, Result};
use crate::kernels::identity::IdentityWriter;
use crate::kernels::product::TILE_COLUMNS;
use crate::runtime::CancelToken;
use crate::search::{ConsumePanel, MatrixSide, PanelRow, ScoreBound, ScoreMatrix, ScorePrecision, Scores, Search};

/// Scores of images with captions, computed by a model.
///
/// The score of a pair is defined as the model's result in a block of 32 images and 32 captions, whose first indices
/// are multiples of 32, computed on one thread. So a score depends on the device, but not on the number of threads or
/// on the other requested scores.
///
/// # Cost
/// One pass over all scores on creation, which computes the largest values and a digest and checks that all are finite.
/// Then one pass for each pass of a search, and a block of 1,024 scores for each block with a requested exact score.
/// Memory: the encoded images and captions, and for each thread the memory of the model for a block.
#[derive(Debug)]
pub struct ModelScores {
    config: ModelConfig,
    /// Numbers of images and captions.
    sizes: [usize; 2],
    threads: usize,
    /// Workers that no thread uses at present. They share their tensors' memory, but each tensor handle may be used by
    /// one thread only. The first worker stays here as the template of new ones.
    workers: Mutex<Vec<ModelWorker>>,
    /// Largest absolute score of every image and of every caption.
    largest: [Vec<f32>; 2],
    digest: blake3::Hash,
}

/// Model and encoded items for one thread.
#[derive(Debug)]
struct ModelWorker {
    model: Box<dyn Model>,
    images: EncodedItems,
    captions: EncodedItems,
}

/// Summary of a row of blocks: the scores of 32 images with all captions.
struct ScoreStripe {
    digest: blake3::Hash,
    image_maxima: Vec<f32>,
    caption_maxima: Vec<f32>,
}

impl ModelScores {
    /// Creates the scores of all `images` with all `captions` by `model`, which `config` describes, on `threads`
    /// threads. The parameters are shared and must not change. `ids` are the ids of images and captions, for messages.
    ///
    /// # Errors
    /// A score that is not finite, reported with image and caption; a failure of libtorch; or cancellation.
    pub fn new(
        config: &ModelConfig,
        model: &dyn Model,
        [images, captions]: [EncodedItems; 2],
        ids: [&[i64]; 2],
        threads: usize,
        cancel: &CancelToken,
    ) -> Result<Self> {
        let sizes = [images.len(), captions.len()];
        let workers = Mutex::new(vec![ModelWorker { model: share_model(config, model)?, images, captions }]);
        let (largest, digest) = ([vec![0.0; sizes[0]], vec![0.0; sizes[1]]], blake3::hash(b""));
        let mut scores = Self { config: config.clone(), sizes, threads: threads.max(1), workers, largest, digest };
        let stripes = scores.summarise_stripes(ids, cancel)?;
        let mut hasher = blake3::Hasher::new();
        for (number, ScoreStripe { digest, image_maxima, caption_maxima }) in stripes.into_iter().enumerate() {
            hasher.update(digest.as_bytes());
            scores.largest[0][number * TILE_COLUMNS..][..image_maxima.len()].copy_from_slice(&image_maxima);
            scores.largest[1]
                .iter_mut()
                .zip(caption_maxima)
                .for_each(|(largest, maximum)| *largest = maximum.max(*largest));
        }
        scores.digest = hasher.finalize();
        Ok(scores)
    }

    /// Computes all rows of blocks once.
    fn summarise_stripes(&self, ids: [&[i64]; 2], cancel: &CancelToken) -> Result<Vec<ScoreStripe>> {
        let count = self.sizes[0].div_ceil(TILE_COLUMNS);
        let threads = self.threads.clamp(1, count.max(1));
        let part = |i: usize| count * i / threads..count * (i + 1) / threads;
        let work = |part: Range<usize>| -> Result<Vec<ScoreStripe>> {
            let stripe =
                |worker: &ModelWorker, row| cancel.check().and_then(|()| self.summarise_stripe(worker, row, ids));
            self.with_worker(|worker| part.map(|row| stripe(worker, row)).collect())
        };
        let work = &work;
        let parts: Vec<Result<Vec<ScoreStripe>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|i| scope.spawn(move || work(part(i)))).collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        Ok(parts.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn summarise_stripe(&self, worker: &ModelWorker, row: usize, ids: [&[i64]; 2]) -> Result<ScoreStripe> {
        let mut hasher = blake3::Hasher::new();
        let (images, mut caption_maxima) = (self.block_items(0, row), Vec::with_capacity(self.sizes[1]));
        let mut image_maxima = vec![0.0f32; images.len()];
        for column in 0..self.sizes[1].div_ceil(TILE_COLUMNS) {
            let captions = self.block_items(1, column);
            let scores = worker.block(images.clone(), captions.clone())?;
            if let Some(place) = scores.iter().position(|score| !score.is_finite()) {
                let (image, caption) = (images.start + place / captions.len(), captions.start + place % captions.len());
                let got = scores[place];
                let (image, caption) = (ids[0][image], ids[1][caption]);
                let message = format!("the model gives image_id {image} and caption_id {caption} the score {got}");
                return Err(Error::stage(message).hint("try a lower `learning_rate`, or check the features"));
            }
            hasher.update(&scores.iter().flat_map(|score| score.to_le_bytes()).collect::<Vec<_>>());
            let mut maxima = vec![0.0f32; captions.len()];
            for (row, largest) in scores.chunks_exact(captions.len()).zip(&mut image_maxima) {
                row.iter().zip(&mut maxima).for_each(|(score, maximum)| *maximum = maximum.max(score.abs()));
                *largest = row.iter().fold(*largest, |largest, score| largest.max(score.abs()));
            }
            caption_maxima.extend(maxima);
        }
        Ok(ScoreStripe { digest: hasher.finalize(), image_maxima, caption_maxima })
    }

    /// Range of items of a block of images (`side` 0) or captions (`side` 1).
    fn block_items(&self, side: usize, block: usize) -> Range<usize> {
        block * TILE_COLUMNS..self.sizes[side].min((block + 1) * TILE_COLUMNS)
    }

    /// Calls `work` with a worker that no other thread uses; libtorch uses only this thread.
    fn with_worker<T>(&self, work: impl FnOnce(&ModelWorker) -> Result<T>) -> Result<T> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let worker = match workers.len() {
            0 => return Err(Error::internal("no worker to copy")),
            1 => workers[0].share(&self.config)?,
            _ => workers.remove(1),
        };
        drop(workers);
        use_one_thread();
        let done = work(&worker);
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        done
    }
}

impl ScoreMatrix for ModelScores {
    fn shape(&self) -> [usize; 2] {
        self.sizes
    }

    fn search(&self, captions: MatrixSide) -> Result<Search<'_>> {
        Ok(Search::from_boxed(Box::new(OrientedScores { scores: self, captions }), self.threads))
    }
}

/// Returns the same model for another thread. Parameters are shared, not copied.
fn share_model(config: &ModelConfig, model: &dyn Model) -> Result<Box<dyn Model>> {
    config.with_parameters(model.parameters().tensors().iter().map(Tensor::shallow_clone).collect())
}

impl ModelWorker {
    /// Returns the same worker for another thread.
    fn share(&self, config: &ModelConfig) -> Result<Self> {
        let side = |side: &EncodedItems| side.with_vectors(side.vectors.shallow_clone());
        let (images, captions) = (side(&self.images), side(&self.captions));
        Ok(Self { model: share_model(config, &*self.model)?, images, captions })
    }

    /// Computes the scores of a block, row-major.
    fn block(&self, images: Range<usize>, captions: Range<usize>) -> Result<Vec<f32>> {
        let scores = self.model.scores(&self.images.slice(images), &self.captions.slice(captions))?;
        to_vec(&scores)
    }
}

/// View of the scores with images or captions as rows.
#[derive(Debug)]
struct OrientedScores<'s> {
    scores: &'s ModelScores,
    captions: MatrixSide,
}

impl OrientedScores<'_> {
    /// Reorders (images, captions) to (rows, columns).
    fn to_rows_and_columns<T>(&self, [images, captions]: [T; 2]) -> [T; 2] {
        match self.captions {
            MatrixSide::Columns => [images, captions],
            MatrixSide::Rows => [captions, images],
        }
    }

    /// Computes the scores of a block of rows with a block of columns, as one panel row for each row.
    fn panel_rows(&self, worker: &ModelWorker, row: usize, column: usize) -> Result<Vec<PanelRow>> {
        let [image, caption] = self.to_rows_and_columns([row, column]);
        let (images, captions) = (self.scores.block_items(0, image), self.scores.block_items(1, caption));
        let scores = worker.block(images.clone(), captions.clone())?;
        let [rows, columns] = self.to_rows_and_columns([images.len(), captions.len()]);
        let place = |row: usize, column: usize| match self.captions {
            MatrixSide::Columns => row * columns + column,
            MatrixSide::Rows => column * rows + row,
        };
        let panel_row = |row: usize| {
            let mut values = [0.0; TILE_COLUMNS];
            (0..columns).for_each(|column| values[column] = scores[place(row, column)]);
            values
        };
        Ok((0..rows).map(panel_row).collect())
    }
}

impl Scores for OrientedScores<'_> {
    fn shape(&self) -> [usize; 2] {
        self.to_rows_and_columns(self.scores.sizes)
    }

    /// About a million multiply-adds, as for a few dozen vectors of an image and a dozen words. So a search of two
    /// thousand items is saved in checkpoints.
    fn cost(&self) -> u64 {
        1 << 20
    }

    fn bounds(&self, _precision: ScorePrecision) -> [Vec<ScoreBound>; 2] {
        let bounds = |largest: &Vec<f32>| {
            largest.iter().map(|&largest| ScoreBound { error: 0.0, largest: f64::from(largest) }).collect()
        };
        self.to_rows_and_columns(self.scores.largest.each_ref().map(bounds))
    }

    fn block_rows(&self, _precision: ScorePrecision) -> usize {
        8 * TILE_COLUMNS
    }

    fn compute_block(
        &self,
        _precision: ScorePrecision,
        rows: Range<usize>,
        buffer: &mut Vec<PanelRow>,
        consume: ConsumePanel<'_>,
    ) -> Result<()> {
        for panel in 0..self.shape()[1].div_ceil(TILE_COLUMNS) {
            let blocks = rows.start / TILE_COLUMNS..rows.end.div_ceil(TILE_COLUMNS);
            let first = blocks.start * TILE_COLUMNS;
            let compute = |worker: &ModelWorker| -> Result<Vec<Vec<PanelRow>>> {
                blocks.map(|block| self.panel_rows(worker, block, panel)).collect()
            };
            let panel_rows = on_own_thread(|| self.scores.with_worker(compute))?;
            buffer.clear();
            // The range of rows need not begin at the start of a block.
            buffer.extend(
                (first..)
                    .zip(panel_rows.into_iter().flatten())
                    .filter(|(row, _)| rows.contains(row))
                    .map(|(_, panel_row)| panel_row),
            );
            consume(panel, buffer)?;
        }
        Ok(())
    }

    fn exact_scores(&self, side: MatrixSide, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        let mut blocks: Vec<usize> = items.iter().map(|item| item / TILE_COLUMNS).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let of_block = |worker: &ModelWorker, block: usize| -> Result<Vec<f32>> {
            Ok(match side {
                MatrixSide::Rows => {
                    self.panel_rows(worker, query / TILE_COLUMNS, block)?[query % TILE_COLUMNS].to_vec()
                }
                MatrixSide::Columns => {
                    let panel_rows = self.panel_rows(worker, block, query / TILE_COLUMNS)?;
                    panel_rows.iter().map(|panel_row| panel_row[query % TILE_COLUMNS]).collect()
                }
            })
        };
        let found: Vec<Vec<f32>> = on_own_thread(|| {
            self.scores.with_worker(|worker| blocks.iter().map(|&block| of_block(worker, block)).collect())
        })?;
        scores.clear();
        for item in items {
            let block = blocks
                .binary_search(&(item / TILE_COLUMNS))
                .map_err(|_| Error::internal("a block was not computed"))?;
            scores.push(found[block][item % TILE_COLUMNS]);
        }
        Ok(())
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("model");
        fields.write_text(if self.captions == MatrixSide::Columns {
            "captions are columns"
        } else {
            "captions are rows"
        });
        fields.write_usizes(&self.scores.sizes);
        fields.write_bytes(self.scores.digest.as_bytes());
    }
}

/// Runs `work` on a new thread, so that limiting libtorch to one thread does not affect the calling thread.
fn on_own_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}
