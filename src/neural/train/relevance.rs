//! φ(image, caption) of the pairs of a batch and of the validation split: CIDEr-D of a caption with the captions of an
//! image.

use std::collections::HashMap;

use super::training_data::{TrainingData, ValidationSplit};
use super::validate::Phi;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_kernels::epoch::TrainingPair;
use pairloom_kernels::text::CaptionSimilarity;
use pairloom_kernels::text::cider::{CaptionVectors, Cider, CiderVariant, OwnCaption};
use pairloom_spec::stages::train::CAPTION_NGRAMS as INPUT;
use pairloom_stage::StageContext;
use pairloom_tables::caption_ngrams::rows;

/// CIDEr-D of captions with the captions of images.
#[derive(Debug)]
pub(super) struct CaptionRelevance {
    cider: Cider,
    /// Index in `cider` of the caption of every training pair.
    caption_of: Vec<usize>,
    /// Index in `cider` of the image of every training pair.
    image_of: Vec<usize>,
    /// Index in `cider` of a caption, by `caption_id`.
    captions: HashMap<i64, usize>,
    /// Index in `cider` of an image, by `image_id`.
    images: HashMap<i64, usize>,
}

impl CaptionRelevance {
    /// Reads the n-gram vectors of all captions in `caption_ngrams`. The references of an image are all of its captions
    /// there.
    ///
    /// # Errors
    /// An invalid row, a caption that occurs twice, or a training caption that is missing.
    pub fn read(data: &TrainingData, cx: &mut StageContext<'_>) -> Result<Self> {
        let (mut captions, mut images) = (HashMap::new(), HashMap::new());
        let mut vectors = CaptionVectors::default();
        while let Some(batch) = cx.read_next(INPUT)? {
            for row in rows(&batch)? {
                let next = images.len();
                let image = *images.entry(row.image_id).or_insert(next);
                let added = vectors.push_row(image, row.n_tokens, row.ngrams, row.orders, row.counts, row.weights);
                added.map_err(|error| Error::data(format!("caption {} of `{INPUT}`: {error}", row.caption_id)))?;
                if captions.insert(row.caption_id, vectors.len() - 1).is_some() {
                    return Err(Error::data(format!(
                        "caption {} appears twice in `{INPUT}`, expected once",
                        row.caption_id
                    )));
                }
            }
        }
        let (mut caption_of, mut image_of, mut missing) = (Vec::new(), Vec::new(), TruncatedList::default());
        for row in 0..data.samples.rows() {
            let (caption_id, (_, image_id)) = (data.caption_id(row)?, data.loader_data.pair(row)?.image);
            match (captions.get(&caption_id), images.get(&image_id)) {
                (Some(&caption), Some(&image)) => {
                    caption_of.push(caption);
                    image_of.push(image);
                }
                _ => missing.push(caption_id),
            }
        }
        if !missing.is_empty() {
            let (n, all, ids) = (missing.len(), data.samples.rows(), missing.join(", "));
            let message = format!("{n} of {all} training captions are not in `{INPUT}` (caption_id {ids})");
            return Err(Error::data(message)
                .hint("score the captions of the training split: `split = \"train\"`, `pairs = \"on_demand\"`"));
        }
        let cider = Cider::new(vectors, CiderVariant::CiderD, OwnCaption::Keep);
        if cider.is_zero() {
            return Err(Error::data(format!("no n-gram of `{INPUT}` has a weight: every margin would be 0"))
                .hint("with a single image all document frequencies are equal and all weights 0; `uniform = true` gives equal weights"));
        }
        Ok(Self { cider, caption_of, image_of, captions, images })
    }

    /// Returns φ of the image of each with the caption of each of these training pairs, row-major.
    pub fn block(&self, pairs: &[TrainingPair]) -> Vec<f32> {
        let images: Vec<usize> = pairs.iter().map(|pair| self.image_of[pair.row]).collect();
        let captions: Vec<usize> = pairs.iter().map(|pair| self.caption_of[pair.row]).collect();
        self.cider.block(&images, &captions)
    }

    /// Returns φ of every image with every caption of the validation split.
    ///
    /// # Errors
    /// A validation caption is missing in `caption_ngrams`.
    pub fn validation(&self, validation: &ValidationSplit) -> Result<Phi> {
        let find = |of: &HashMap<i64, usize>, ids: &[i64], what: &str| {
            let found = ids.iter().map(|id| of.get(id).copied().ok_or(*id)).collect::<std::result::Result<Vec<_>, _>>();
            found.map_err(|id| {
                Error::data(format!("{what} {id} of split `val` is not in `{INPUT}`, which selects the best epoch"))
                    .hint("score the captions of both splits: `split = \"train+val\"`")
            })
        };
        let captions = find(&self.captions, &validation.caption_ids, "caption")?;
        let images = find(&self.images, &validation.image_ids, "image")?;
        Ok(Phi(self.cider.block(&images, &captions)))
    }
}
