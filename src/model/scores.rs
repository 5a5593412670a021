//! Scores of a model of any family, computed in blocks: a source for searches.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use tch::Tensor;

use super::family::encoded::Encoded;
use super::family::list::Config;
use super::family::model::Model;
use super::slices::to_vec;
use super::threads::stay_in_this_thread;
use crate::error::{Error, Result};
use crate::kernels::identity::Fields;
use crate::kernels::product::COLUMNS;
use crate::runtime::Cancel;
use crate::search::{Bound, Consume, Lane, Precision, ScoreMatrix, Scores, Search, Side};

/// Scores of images with captions, computed by a model.
///
/// The score of a pair is by definition what the model gives for it in a block of 32 images and 32 captions, those whose
/// numbers begin at multiples of 32, on one thread. So it depends neither on the threads nor on what else is asked for; on the
/// device it does.
///
/// # Cost
/// A pass over all scores at first, for their largest values, a digest, and to see that all are finite; then one for each pass
/// of a search, and a block of 1,024 scores for each block that exact scores are asked from. Memory: the encoded sides, and
/// for each thread what the model needs for a block.
#[derive(Debug)]
pub struct ModelScores {
    config: Config,
    /// Images, captions.
    sizes: [usize; 2],
    threads: usize,
    /// Models and sides that no thread uses; they share their tensors, which only one thread may use through one handle. The
    /// first one stays, to make others of.
    workers: Mutex<Vec<Worker>>,
    /// The largest absolute score of every image and of every caption.
    largest: [Vec<f32>; 2],
    digest: blake3::Hash,
}

#[derive(Debug)]
struct Worker {
    model: Box<dyn Model>,
    images: Encoded,
    captions: Encoded,
}

/// A row of blocks: its scores with all captions.
struct Stripe {
    digest: blake3::Hash,
    of_images: Vec<f32>,
    of_captions: Vec<f32>,
}

impl ModelScores {
    /// Scores of all `images` with all `captions` by `model`, which `config` describes; computed on `threads` threads. The
    /// parameters are shared, and must stay as they are. `ids` are the identifiers of both, for messages.
    ///
    /// # Errors
    /// A score that is not finite, named by image and caption; a failure of libtorch; or `cancel` is raised.
    pub fn new(
        config: &Config,
        model: &dyn Model,
        [images, captions]: [Encoded; 2],
        ids: [&[i64]; 2],
        threads: usize,
        cancel: &Cancel,
    ) -> Result<Self> {
        let sizes = [images.len(), captions.len()];
        let workers = Mutex::new(vec![Worker { model: share(config, model)?, images, captions }]);
        let (largest, digest) = ([vec![0.0; sizes[0]], vec![0.0; sizes[1]]], blake3::hash(b""));
        let mut scores = Self { config: config.clone(), sizes, threads: threads.max(1), workers, largest, digest };
        let stripes = scores.stripes(ids, cancel)?;
        let mut hasher = blake3::Hasher::new();
        for (number, Stripe { digest, of_images, of_captions }) in stripes.into_iter().enumerate() {
            hasher.update(digest.as_bytes());
            scores.largest[0][number * COLUMNS..][..of_images.len()].copy_from_slice(&of_images);
            scores.largest[1].iter_mut().zip(of_captions).for_each(|(largest, of)| *largest = of.max(*largest));
        }
        scores.digest = hasher.finalize();
        Ok(scores)
    }

    /// All rows of blocks, once.
    fn stripes(&self, ids: [&[i64]; 2], cancel: &Cancel) -> Result<Vec<Stripe>> {
        let count = self.sizes[0].div_ceil(COLUMNS);
        let threads = self.threads.clamp(1, count.max(1));
        let part = |i: usize| count * i / threads..count * (i + 1) / threads;
        let work = |part: Range<usize>| -> Result<Vec<Stripe>> {
            let stripe = |worker: &Worker, row| cancel.proceed().and_then(|()| self.stripe(worker, row, ids));
            self.with_worker(|worker| part.map(|row| stripe(worker, row)).collect())
        };
        let work = &work;
        let parts: Vec<Result<Vec<Stripe>>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..threads).map(|i| scope.spawn(move || work(part(i)))).collect();
            let joined = threads.into_iter().map(std::thread::ScopedJoinHandle::join);
            joined.map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
        });
        Ok(parts.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
    }

    fn stripe(&self, worker: &Worker, row: usize, ids: [&[i64]; 2]) -> Result<Stripe> {
        let mut hasher = blake3::Hasher::new();
        let (images, mut of_captions) = (self.part(0, row), Vec::with_capacity(self.sizes[1]));
        let mut of_images = vec![0.0f32; images.len()];
        for column in 0..self.sizes[1].div_ceil(COLUMNS) {
            let captions = self.part(1, column);
            let scores = worker.block(images.clone(), captions.clone())?;
            if let Some(place) = scores.iter().position(|score| !score.is_finite()) {
                let (image, caption) = (images.start + place / captions.len(), captions.start + place % captions.len());
                let got = scores[place];
                let (image, caption) = (ids[0][image], ids[1][caption]);
                let message = format!("the model gives image_id {image} and caption_id {caption} the score {got}");
                return Err(Error::stage(message).hint("try a lower `learning_rate`, or look at the features"));
            }
            hasher.update(&scores.iter().flat_map(|score| score.to_le_bytes()).collect::<Vec<_>>());
            let mut of = vec![0.0f32; captions.len()];
            for (row, largest) in scores.chunks_exact(captions.len()).zip(&mut of_images) {
                row.iter().zip(&mut of).for_each(|(score, of)| *of = of.max(score.abs()));
                *largest = row.iter().fold(*largest, |largest, score| largest.max(score.abs()));
            }
            of_captions.extend(of);
        }
        Ok(Stripe { digest: hasher.finalize(), of_images, of_captions })
    }

    /// The items of a block of images (0) or captions (1).
    fn part(&self, side: usize, block: usize) -> Range<usize> {
        block * COLUMNS..self.sizes[side].min((block + 1) * COLUMNS)
    }

    /// Works with a model of this thread, in this thread alone.
    fn with_worker<T>(&self, work: impl FnOnce(&Worker) -> Result<T>) -> Result<T> {
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let worker = match workers.len() {
            0 => return Err(Error::internal("no model to make others of")),
            1 => workers[0].share(&self.config)?,
            _ => workers.remove(1),
        };
        drop(workers);
        stay_in_this_thread();
        let done = work(&worker);
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(worker);
        done
    }
}

impl ScoreMatrix for ModelScores {
    fn sizes(&self) -> [usize; 2] {
        self.sizes
    }

    fn search(&self, captions: Side) -> Result<Search<'_>> {
        Ok(Search::owning(Box::new(Oriented { scores: self, captions }), self.threads))
    }
}

/// The same model for another thread. Parameters are shared, not copied.
fn share(config: &Config, model: &dyn Model) -> Result<Box<dyn Model>> {
    config.with(model.parameters().tensors().iter().map(Tensor::shallow_clone).collect())
}

impl Worker {
    /// The same for another thread.
    fn share(&self, config: &Config) -> Result<Self> {
        let side = |side: &Encoded| side.with(side.vectors.shallow_clone());
        let (images, captions) = (side(&self.images), side(&self.captions));
        Ok(Self { model: share(config, &*self.model)?, images, captions })
    }

    /// Scores of a block, row-major.
    fn block(&self, images: Range<usize>, captions: Range<usize>) -> Result<Vec<f32>> {
        let scores = self.model.scores(&self.images.part(images), &self.captions.part(captions))?;
        to_vec(&scores)
    }
}

/// The scores, with images or with captions as rows.
#[derive(Debug)]
struct Oriented<'s> {
    scores: &'s ModelScores,
    captions: Side,
}

impl Oriented<'_> {
    /// Images and captions, as rows and columns.
    fn order<T>(&self, [images, captions]: [T; 2]) -> [T; 2] {
        match self.captions {
            Side::Columns => [images, captions],
            Side::Rows => [captions, images],
        }
    }

    /// The scores of a block of rows with a block of columns: for each row one lane.
    fn lanes(&self, worker: &Worker, row: usize, column: usize) -> Result<Vec<Lane>> {
        let [image, caption] = self.order([row, column]);
        let (images, captions) = (self.scores.part(0, image), self.scores.part(1, caption));
        let scores = worker.block(images.clone(), captions.clone())?;
        let [rows, columns] = self.order([images.len(), captions.len()]);
        let place = |row: usize, column: usize| match self.captions {
            Side::Columns => row * columns + column,
            Side::Rows => column * rows + row,
        };
        let lane = |row: usize| {
            let mut lane = [0.0; COLUMNS];
            (0..columns).for_each(|column| lane[column] = scores[place(row, column)]);
            lane
        };
        Ok((0..rows).map(lane).collect())
    }
}

impl Scores for Oriented<'_> {
    fn sizes(&self) -> [usize; 2] {
        self.order(self.scores.sizes)
    }

    /// About a million multiply-adds, as of a few dozen vectors of an image with a dozen words: a search of two thousand items
    /// is kept.
    fn cost(&self) -> u64 {
        1 << 20
    }

    fn bounds(&self, _precision: Precision) -> [Vec<Bound>; 2] {
        let bounds = |largest: &Vec<f32>| {
            largest.iter().map(|&largest| Bound { error: 0.0, largest: f64::from(largest) }).collect()
        };
        self.order(self.scores.largest.each_ref().map(bounds))
    }

    fn block_rows(&self, _precision: Precision) -> usize {
        8 * COLUMNS
    }

    fn block(
        &self,
        _precision: Precision,
        rows: Range<usize>,
        buffer: &mut Vec<Lane>,
        consume: Consume<'_>,
    ) -> Result<()> {
        for panel in 0..self.sizes()[1].div_ceil(COLUMNS) {
            let blocks = rows.start / COLUMNS..rows.end.div_ceil(COLUMNS);
            let first = blocks.start * COLUMNS;
            let lanes = |worker: &Worker| -> Result<Vec<Vec<Lane>>> {
                blocks.map(|block| self.lanes(worker, block, panel)).collect()
            };
            let lanes = alone(|| self.scores.with_worker(lanes))?;
            buffer.clear();
            // Stripes of rows need not begin where blocks do.
            buffer.extend(
                (first..).zip(lanes.into_iter().flatten()).filter(|(row, _)| rows.contains(row)).map(|(_, lane)| lane),
            );
            consume(panel, buffer)?;
        }
        Ok(())
    }

    fn exact(&self, side: Side, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        let mut blocks: Vec<usize> = items.iter().map(|item| item / COLUMNS).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let of_block = |worker: &Worker, block: usize| -> Result<Vec<f32>> {
            Ok(match side {
                Side::Rows => self.lanes(worker, query / COLUMNS, block)?[query % COLUMNS].to_vec(),
                Side::Columns => {
                    let lanes = self.lanes(worker, block, query / COLUMNS)?;
                    lanes.iter().map(|lane| lane[query % COLUMNS]).collect()
                }
            })
        };
        let found: Vec<Vec<f32>> =
            alone(|| self.scores.with_worker(|worker| blocks.iter().map(|&block| of_block(worker, block)).collect()))?;
        scores.clear();
        for item in items {
            let block =
                blocks.binary_search(&(item / COLUMNS)).map_err(|_| Error::internal("a block that was computed"))?;
            scores.push(found[block][item % COLUMNS]);
        }
        Ok(())
    }

    fn identity(&self, fields: &mut Fields<'_>) {
        fields.text("model");
        fields.text(if self.captions == Side::Columns { "captions are columns" } else { "captions are rows" });
        fields.numbers(&self.scores.sizes);
        fields.bytes(self.scores.digest.as_bytes());
    }
}

/// Works on a thread of its own: what libtorch does there is done by that thread alone, and the caller's threads stay as many
/// as they were.
fn alone<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
}
