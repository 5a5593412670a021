//! Scores of all images with all captions by a model of any family.

use std::sync::{Mutex, PoisonError};

use tch::Tensor;

use super::family::encoded_items::EncodedItems;
use super::family::model::Model;
use super::family::registry::ModelConfig;
use super::tensor_slices::to_vec;
use super::threads::use_one_thread;
use crate::error::{Error, Result};
use crate::runtime::CancelToken;

/// Images that a thread scores together.
const IMAGES: usize = 32;

/// Captions, of like length, that a thread scores together.
const CAPTIONS: usize = 32;

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
    images: EncodedItems,
    /// Captions from short to long.
    captions: EncodedItems,
}

impl PairScoring<'_> {
    /// Computes the scores of all `images` with all `captions` by `model`, row-major with a row for each image. Its
    /// parameters are shared by all threads and must not change.
    ///
    /// Blocks have 32 images and 32 captions of like length, each computed on one thread. So a score depends on the
    /// device and on all captions, but not on the number of threads.
    ///
    /// # Cost
    /// Each score is computed once. Memory: the result, a copy of the encoded captions, and for each thread the memory of
    /// the model for a block.
    ///
    /// # Errors
    /// A score that is not finite, reported with image and caption; a failure of libtorch; or cancellation.
    pub fn compute(&self, model: &dyn Model, images: &EncodedItems, captions: &EncodedItems) -> Result<Vec<f32>> {
        let columns = captions.len();
        let mut order: Vec<usize> = (0..columns).collect();
        let lengths = captions.counts();
        order.sort_by_key(|&caption| lengths[caption]);
        let sorted = captions.select(&order);
        let mut scores = vec![0.0f32; images.len() * columns];
        let threads = self.threads.clamp(1, images.len().div_ceil(IMAGES).max(1));
        let share = |side: &EncodedItems| side.with_vectors(side.vectors.shallow_clone());
        let workers = (0..threads).map(|_| {
            let model = share_model(self.config, model)?;
            Ok(ScoringThread { model, images: share(images), captions: share(&sorted) })
        });
        let workers = workers.collect::<Result<Vec<_>>>()?;
        let stripes = Mutex::new(scores.chunks_mut((IMAGES * columns).max(1)).enumerate());
        let work = |worker: &ScoringThread| -> Result<()> {
            use_one_thread();
            loop {
                let next = stripes.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((number, stripe)) = next else { return Ok(()) };
                self.score_stripe(worker, number * IMAGES, &order, stripe)?;
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
        Ok(scores)
    }

    /// Scores the images from `first` on with all captions. `stripe` has a row for each of them.
    fn score_stripe(&self, worker: &ScoringThread, first: usize, order: &[usize], stripe: &mut [f32]) -> Result<()> {
        let columns = order.len();
        let images = worker.images.slice(first..first + stripe.len() / columns);
        for (block, captions) in order.chunks(CAPTIONS).enumerate() {
            self.cancel.check()?;
            let start = block * CAPTIONS;
            let words = worker.captions.slice(start..start + captions.len());
            let scores = to_vec(&worker.model.scores(&images, &words)?)?;
            for (row, scores) in scores.chunks_exact(captions.len()).enumerate() {
                for (&caption, &score) in captions.iter().zip(scores) {
                    if !score.is_finite() {
                        return Err(self.not_finite(first + row, caption, score));
                    }
                    stripe[row * columns + caption] = score;
                }
            }
        }
        Ok(())
    }

    fn not_finite(&self, image: usize, caption: usize, score: f32) -> Error {
        let (image, caption) = (self.ids[0][image], self.ids[1][caption]);
        let message = format!("the model gives image_id {image} and caption_id {caption} the score {score}");
        Error::stage(message).hint("try a lower `learning_rate`, or check the features")
    }
}

/// Returns the same model for another thread. Parameters are shared, not copied.
fn share_model(config: &ModelConfig, model: &dyn Model) -> Result<Box<dyn Model>> {
    config.with_parameters(model.parameters().tensors().iter().map(Tensor::shallow_clone).collect())
}
