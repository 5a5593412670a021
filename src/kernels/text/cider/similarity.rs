//! φ of every image with every caption.

use std::sync::OnceLock;

use super::block::block;
use super::index::{Index, Scratch};
use super::measure::{Form, OwnCaption, Pairs};
use super::vectors::Vectors;
use crate::similarity::Similarity;

/// CIDEr or CIDEr-D of every image with every caption.
#[derive(Debug)]
pub struct Cider {
    pairs: Pairs,
    index: OnceLock<Index>,
}

impl Cider {
    /// Compares the captions of `vectors`. There are as many images as the largest index of one says; an image without
    /// captions is like nothing (φ = 0).
    ///
    /// # Cost
    /// One pass over the n-grams. The inverted index that [`Similarity::row`] and [`Similarity::top`] need is built when
    /// one of them is first called: 4 bytes an n-gram of a caption and about 40 a distinct n-gram, and 16 more an n-gram of
    /// a caption while it is built. A row reads the captions of each of the image's n-grams once; a block of B images and B
    /// captions needs no index.
    #[must_use]
    pub fn new(vectors: Vectors, form: Form, own: OwnCaption) -> Self {
        Self { pairs: Pairs::new(vectors, form, own), index: OnceLock::new() }
    }

    /// The captions compared.
    #[must_use]
    pub fn vectors(&self) -> &Vectors {
        &self.pairs.vectors
    }

    /// True if φ is 0 for every image and caption because no n-gram has a weight, as in a corpus of one image.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.pairs.inverse_norms.iter().flatten().all(|&inverse| inverse == 0.0)
    }

    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::new(&self.pairs))
    }
}

impl Similarity for Cider {
    type Scratch = Scratch;

    fn images(&self) -> usize {
        self.pairs.images()
    }

    fn captions(&self) -> usize {
        self.pairs.captions()
    }

    fn pair(&self, image: usize, caption: usize) -> f64 {
        self.pairs.pair(image, caption)
    }

    fn row(&self, image: usize, scratch: &mut Scratch, values: &mut [f32]) {
        self.index().row(&self.pairs, image, scratch, values);
    }

    fn top(&self, image: usize, m: usize, scratch: &mut Scratch) -> Vec<(usize, f64)> {
        self.index().top(&self.pairs, image, m, scratch)
    }

    fn block(&self, images: &[usize], captions: &[usize]) -> Vec<f32> {
        block(&self.pairs, images, captions)
    }
}
