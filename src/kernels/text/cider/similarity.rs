//! CIDEr as a [`CaptionSimilarity`].

use std::sync::OnceLock;

use super::block::score_block;
use super::index::{CiderScratch, InvertedIndex};
use super::scorer::{CiderScorer, CiderVariant, OwnCaption};
use super::vectors::CaptionVectors;
use crate::caption_similarity::CaptionSimilarity;

/// CIDEr or CIDEr-D of every image with every caption.
#[derive(Debug)]
pub struct Cider {
    scorer: CiderScorer,
    index: OnceLock<InvertedIndex>,
}

impl Cider {
    /// Compares the captions of `vectors`. The number of images is their largest index plus 1; φ of an image without
    /// captions is 0.
    ///
    /// # Cost
    /// One pass over the n-grams. [`CaptionSimilarity::row`] and [`CaptionSimilarity::top_captions`] need an inverted
    /// index, built by the first call: 4 bytes an n-gram of a caption and about 40 bytes a distinct n-gram, and 16 more
    /// bytes an n-gram of a caption while it is built. A row reads the posting lists of the image's n-grams once. A
    /// block needs no index.
    #[must_use]
    pub fn new(vectors: CaptionVectors, variant: CiderVariant, own_caption: OwnCaption) -> Self {
        Self { scorer: CiderScorer::new(vectors, variant, own_caption), index: OnceLock::new() }
    }

    /// The weighted captions.
    #[must_use]
    pub fn vectors(&self) -> &CaptionVectors {
        &self.scorer.vectors
    }

    /// True if φ is 0 for every image and caption because the weight of every n-gram is 0, as in a corpus of one image.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.scorer.inverse_norms.iter().flatten().all(|&inverse| inverse == 0.0)
    }

    fn index(&self) -> &InvertedIndex {
        self.index.get_or_init(|| InvertedIndex::new(&self.scorer))
    }
}

impl CaptionSimilarity for Cider {
    type Scratch = CiderScratch;

    fn image_count(&self) -> usize {
        self.scorer.image_count()
    }

    fn caption_count(&self) -> usize {
        self.scorer.caption_count()
    }

    fn pair(&self, image: usize, caption: usize) -> f64 {
        self.scorer.pair(image, caption)
    }

    fn row(&self, image: usize, scratch: &mut CiderScratch, values: &mut [f32]) {
        self.index().row(&self.scorer, image, scratch, values);
    }

    fn top_captions(&self, image: usize, m: usize, scratch: &mut CiderScratch) -> Vec<(usize, f64)> {
        self.index().top_captions(&self.scorer, image, m, scratch)
    }

    fn block(&self, images: &[usize], captions: &[usize]) -> Vec<f32> {
        score_block(&self.scorer, images, captions)
    }
}
