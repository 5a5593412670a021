//! Scores of all images with all captions by a model of any family.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use tch::Tensor;

use super::family::encode::{CAPTIONS_PER_BLOCK, check_token_ids};
use super::family::encoded_items::EncodedItems;
use super::family::model::Model;
use super::family::registry::ModelConfig;
use super::malloc::{keep_freed_memory, return_freed_memory};
use super::tensor_slices::to_vec;
use super::threads::use_one_thread;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;

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
    /// A caption without tokens, or a token id outside of the vocabulary. The run was cancelled.
    pub fn encode(model: &dyn Model, captions: &[&[i32]], cancel: &CancelToken) -> Result<Self> {
        check_token_ids(captions, model.input_spec().words)?;
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
