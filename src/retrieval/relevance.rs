//! Relevance beside the queries' own matches.

use std::ops::Range;

use super::direction::Direction;
use crate::error::{Error, Result};

/// Relevant pairs of a collection: yes or no.
#[derive(Debug, Clone, Default)]
pub struct RelevantPairs {
    /// Name in results.
    pub name: String,
    /// Relevant captions of each image.
    pub captions_of: Vec<Vec<usize>>,
    /// Relevant images of each caption.
    pub images_of: Vec<Vec<usize>>,
}

impl RelevantPairs {
    /// Checks that the pairs are of so many images and captions.
    ///
    /// # Errors
    /// They are not.
    pub(super) fn check(&self, images: usize, captions: usize) -> Result<()> {
        let within = |lists: &[Vec<usize>], count: usize, of: usize| {
            lists.len() == count && lists.iter().flatten().all(|&item| item < of)
        };
        if within(&self.captions_of, images, captions) && within(&self.images_of, captions, images) {
            return Ok(());
        }
        let message = format!("relevance `{}` does not fit {images} images and {captions} captions", self.name);
        Err(Error::usage(message))
    }

    /// The relevant items of each query of a direction of a pool, numbered as in the pool.
    pub(super) fn of_pool(
        &self,
        images: &Range<usize>,
        captions: &Range<usize>,
        direction: Direction,
    ) -> Vec<Vec<usize>> {
        let (queries, items, relevant) = match direction {
            Direction::ImageToText => (images, captions, &self.captions_of),
            Direction::TextToImage => (captions, images, &self.images_of),
        };
        relevant[queries.clone()]
            .iter()
            .map(|of| of.iter().filter(|item| items.contains(item)).map(|item| item - items.start).collect())
            .collect()
    }
}

/// A graded relevance by name; its φ comes from [`Callbacks::graded`](super::Callbacks::graded).
#[derive(Debug, Clone)]
pub struct Graded {
    /// Name in results.
    pub name: String,
    /// Neighbours of a query that are relevant, each number on its own.
    pub neighbours: Vec<usize>,
}

/// φ of images and captions of a collection: how relevant each is to the other.
pub trait Grades {
    /// φ of an image with these captions, each a finite number of at least 0.
    fn row(&self, image: usize, captions: &Range<usize>) -> &[f32];

    /// φ of these images with these captions, one caption after the other: a copy of a block, never of the whole.
    fn columns(&self, images: &Range<usize>, captions: &Range<usize>, columns: &mut Vec<f32>) {
        columns.clear();
        columns.resize(images.len() * captions.len(), 0.0);
        for (i, image) in images.clone().enumerate() {
            for (c, &phi) in self.row(image, captions).iter().enumerate() {
                columns[c * images.len() + i] = phi;
            }
        }
    }
}
