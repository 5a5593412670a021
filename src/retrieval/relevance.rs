//! Binary and graded relevance in addition to the matches.

use std::ops::Range;

use super::direction::Direction;
use pairloom_base::error::{Error, Result};

/// Binary relevance: the relevant pairs of a collection.
#[derive(Debug, Clone, Default)]
pub struct BinaryRelevance {
    /// Name in results.
    pub name: String,
    /// Relevant captions of each image.
    pub captions_of: Vec<Vec<usize>>,
    /// Relevant images of each caption.
    pub images_of: Vec<Vec<usize>>,
}

impl BinaryRelevance {
    /// Relevance without pairs.
    #[must_use]
    pub fn without_pairs(name: &str, images: usize, captions: usize) -> Self {
        Self { name: name.to_owned(), captions_of: vec![Vec::new(); images], images_of: vec![Vec::new(); captions] }
    }

    /// Checks that the pairs fit `images` images and `captions` captions.
    ///
    /// # Errors
    /// The pairs do not fit.
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

    /// True if a query of this direction has a relevant item.
    pub(super) fn has_pairs(&self, direction: Direction) -> bool {
        let lists = match direction {
            Direction::ImageToText => &self.captions_of,
            Direction::TextToImage => &self.images_of,
        };
        lists.iter().any(|list| !list.is_empty())
    }

    /// Relevant items of each query of a direction of a pool, numbered as in the pool.
    pub(super) fn restrict_to_pool(
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

/// Graded relevance; its grades φ come from [`Callbacks::relevance_grades`](super::Callbacks::relevance_grades).
#[derive(Debug, Clone)]
pub struct GradedRelevance {
    /// Name in results.
    pub name: String,
    /// Numbers m of neighbours of a query that are taken as relevant; each is measured separately.
    pub neighbours: Vec<usize>,
}

/// Grades φ of a collection: the relevance of images and captions to each other.
pub trait RelevanceGrades {
    /// φ of an image with these captions; finite and at least 0.
    fn row(&self, image: usize, captions: &Range<usize>) -> &[f32];

    /// Copies φ of these images with these captions into `columns`, one caption after the other.
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
