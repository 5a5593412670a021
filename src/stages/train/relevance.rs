//! φ of the pairs of a batch: how much the caption of each says what the captions of each other's image say.

use std::collections::HashMap;

use super::corpus::{Corpus, Validation};
use super::settings::CAPTION_NGRAMS as INPUT;
use super::validate::Phi;
use crate::error::{Error, Result, TruncatedList};
use crate::kernels::similarity::Similarity;
use crate::kernels::text::cider::{Cider, Form, OwnCaption, Vectors};
use crate::stage::Cx;
use crate::tables::caption_ngrams::rows;

/// CIDEr-D of training captions with the captions of training images.
#[derive(Debug)]
pub(super) struct Relevance {
    cider: Cider,
    /// The caption of every training sample, as the measure counts.
    caption_of: Vec<usize>,
    /// Its image.
    image_of: Vec<usize>,
    /// Captions and images of the table by their identifiers.
    captions: HashMap<i64, usize>,
    images: HashMap<i64, usize>,
}

impl Relevance {
    /// Reads the vectors of all captions of the table; the references of an image are all that it has there.
    ///
    /// # Errors
    /// A row that is no caption, a caption twice, or a training caption that the table lacks.
    pub fn read(corpus: &Corpus, cx: &mut Cx<'_>) -> Result<Self> {
        let (mut captions, mut images) = (HashMap::new(), HashMap::new());
        let mut vectors = Vectors::default();
        while let Some(batch) = cx.next(INPUT)? {
            for row in rows(&batch)? {
                let next = images.len();
                let image = *images.entry(row.image_id).or_insert(next);
                let added = vectors.push_row(image, row.words, row.ngrams, row.orders, row.counts, row.weights);
                added.map_err(|error| Error::data(format!("caption {} of `{INPUT}`: {error}", row.caption_id)))?;
                if captions.insert(row.caption_id, vectors.len() - 1).is_some() {
                    return Err(Error::data(format!("caption {} is twice in `{INPUT}`, wanted once", row.caption_id)));
                }
            }
        }
        let (mut caption_of, mut image_of, mut lacking) = (Vec::new(), Vec::new(), TruncatedList::default());
        for row in 0..corpus.samples.rows() {
            let sample = corpus.sample(row)?;
            match (captions.get(&sample.caption), images.get(&sample.image)) {
                (Some(&caption), Some(&image)) => {
                    caption_of.push(caption);
                    image_of.push(image);
                }
                _ => lacking.push(sample.caption),
            }
        }
        if !lacking.is_empty() {
            let (n, all, ids) = (lacking.len(), corpus.samples.rows(), lacking.join(", "));
            let message = format!("{n} of {all} training captions are not in `{INPUT}` (caption_id {ids})");
            return Err(Error::data(message)
                .hint("compare the captions of the training split: `split = \"train\"`, `form = \"on_demand\"`"));
        }
        let cider = Cider::new(vectors, Form::CiderD, OwnCaption::Keep);
        if cider.is_zero() {
            return Err(Error::data(format!("no n-gram of `{INPUT}` has a weight: every margin would be 0"))
                .hint("document frequencies of a single image weigh nothing; `uniform = true` weighs all the same"));
        }
        Ok(Self { cider, caption_of, image_of, captions, images })
    }

    /// φ of the image of each of these training samples with the caption of each, row-major.
    pub fn block(&self, samples: &[usize]) -> Vec<f32> {
        let images: Vec<usize> = samples.iter().map(|&sample| self.image_of[sample]).collect();
        let captions: Vec<usize> = samples.iter().map(|&sample| self.caption_of[sample]).collect();
        self.cider.block(&images, &captions)
    }

    /// φ of every image of the validation split with every caption of it.
    ///
    /// # Errors
    /// A validation caption that the table lacks.
    pub fn validation(&self, validation: &Validation) -> Result<Phi> {
        let find = |of: &HashMap<i64, usize>, ids: &[i64], what: &str| {
            let found = ids.iter().map(|id| of.get(id).copied().ok_or(*id)).collect::<std::result::Result<Vec<_>, _>>();
            found.map_err(|id| {
                Error::data(format!(
                    "{what} {id} of split `val` is not in `{INPUT}`, by which the best epoch is chosen"
                ))
                .hint("compare the captions of both splits: `split = \"train+val\"`")
            })
        };
        let captions = find(&self.captions, &validation.caption_ids, "caption")?;
        let images = find(&self.images, &validation.image_ids, "image")?;
        Ok(Phi(self.cider.block(&images, &captions)))
    }
}
