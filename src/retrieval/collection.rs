//! Test collection: images, captions, matches, further relevance and scores; and the two directions of retrieval.

use std::borrow::Cow;
use std::ops::Range;

use super::scores::ScoreSource;
use pairloom_base::error::{Error, Result};

/// Test collection: the images and captions of a split, with matches and scores.
#[derive(Clone, Copy)]
pub struct Collection<'c> {
    /// Identifiers of the images.
    pub image_ids: &'c [i64],
    /// Identifiers of the captions.
    pub caption_ids: &'c [i64],
    /// Captions of each image.
    pub matches: Matches<'c>,
    /// Scores of the images with the captions, in the same order.
    pub scores: &'c dyn ScoreSource,
}

/// Matches of images and captions: a caption matches the image that it describes.
#[derive(Debug, Clone, Copy)]
pub enum Matches<'m> {
    /// Index of the first caption of each image, followed by the number of captions. The captions are in the order of
    /// their images.
    Grouped(&'m [usize]),
    /// Image of each caption; the captions are in any order. Such a collection has no folds and no graded relevance.
    ImageOfCaption(&'m [usize]),
}

/// Retrieval task: the queries and items of one direction of a pool.
#[derive(Debug)]
pub(super) struct RetrievalTask<'p> {
    pub(super) direction: Direction,
    /// Identifiers of the queries.
    pub(super) query_ids: &'p [i64],
    /// Identifiers of the items.
    pub(super) item_ids: &'p [i64],
    /// Matching items of each query.
    pub(super) matches: Vec<Vec<usize>>,
    /// Image of every query, from 0 in the pool.
    pub(super) image_of: Vec<usize>,
    /// Identifiers of the images of the pool.
    pub(super) image_ids: &'p [i64],
}

impl RetrievalTask<'_> {
    /// Number of queries that each item matches.
    pub(super) fn matches_per_item(&self) -> Vec<usize> {
        let mut own = vec![0; self.item_ids.len()];
        self.matches.iter().flatten().for_each(|&item| own[item] += 1);
        own
    }
}

impl<'c> Collection<'c> {
    /// Checks that the matches fit the images and captions.
    ///
    /// # Errors
    /// The matches do not fit.
    pub(super) fn check(&self) -> Result<()> {
        let (images, captions) = (self.image_ids.len(), self.caption_ids.len());
        let fits = match self.matches {
            Matches::Grouped(first) => {
                first.len() == images + 1 && first[0] == 0 && first[images] == captions && first.is_sorted()
            }
            Matches::ImageOfCaption(image_of) => {
                image_of.len() == captions && image_of.iter().all(|&image| image < images)
            }
        };
        let message = || format!("the matches do not fit {images} images and {captions} captions");
        fits.then_some(()).ok_or_else(|| Error::usage(message()))
    }

    /// Captions of these images.
    ///
    /// # Errors
    /// Captions are not grouped by image, and these are not all images.
    pub(super) fn captions_of(&self, images: &Range<usize>) -> Result<Range<usize>> {
        match self.matches {
            Matches::Grouped(first) => Ok(first[images.start]..first[images.end]),
            Matches::ImageOfCaption(_) if *images == (0..self.image_ids.len()) => Ok(0..self.caption_ids.len()),
            Matches::ImageOfCaption(_) => Err(Error::internal("part of a collection whose captions are in any order")),
        }
    }

    /// Index of the first caption of each of these images, followed by the end of the captions of the last one.
    ///
    /// # Errors
    /// Captions are not grouped by image.
    pub(super) fn caption_offsets(&self, images: &Range<usize>) -> Result<&'c [usize]> {
        match self.matches {
            Matches::Grouped(first) => Ok(&first[images.start..=images.end]),
            Matches::ImageOfCaption(_) => {
                Err(Error::internal("a graded relevance of a collection whose captions are in any order"))
            }
        }
    }

    /// Image of each of these captions, from 0 in the pool.
    fn image_of(&self, images: &Range<usize>, captions: &Range<usize>) -> Cow<'c, [usize]> {
        match self.matches {
            Matches::ImageOfCaption(image_of) => Cow::Borrowed(&image_of[captions.clone()]),
            Matches::Grouped(first) => {
                let captions_of =
                    |image: usize| std::iter::repeat_n(image - images.start, first[image + 1] - first[image]);
                images.clone().flat_map(captions_of).collect()
            }
        }
    }

    /// Tasks of the pool of these images: image to text, text to image.
    pub(super) fn tasks(&self, images: &Range<usize>) -> Result<[RetrievalTask<'c>; 2]> {
        let captions = self.captions_of(images)?;
        let (image_ids, caption_ids) = (&self.image_ids[images.clone()], &self.caption_ids[captions.clone()]);
        let image_of = self.image_of(images, &captions);
        let mut captions_of: Vec<Vec<usize>> = vec![Vec::new(); images.len()];
        image_of.iter().enumerate().for_each(|(caption, &image)| captions_of[image].push(caption));
        Ok([
            RetrievalTask {
                direction: Direction::ImageToText,
                query_ids: image_ids,
                item_ids: caption_ids,
                matches: captions_of,
                image_of: (0..images.len()).collect(),
                image_ids,
            },
            RetrievalTask {
                direction: Direction::TextToImage,
                query_ids: caption_ids,
                item_ids: image_ids,
                matches: image_of.iter().map(|&image| vec![image]).collect(),
                image_of: image_of.into_owned(),
                image_ids,
            },
        ])
    }
}

/// Direction of retrieval: from image to text or from text to image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Images are queries, captions are items.
    ImageToText,
    /// Captions are queries, images are items.
    TextToImage,
}

impl Direction {
    /// Both directions, in the order of all arrays with an entry for each direction.
    pub const BOTH: [Self; 2] = [Self::ImageToText, Self::TextToImage];

    /// Name in tables: `i2t`, `t2i`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ImageToText => "i2t",
            Self::TextToImage => "t2i",
        }
    }
}

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
        let within = |lists: &[Vec<usize>], count: usize, items: usize| {
            lists.len() == count && lists.iter().flatten().all(|&item| item < items)
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
            .map(|list| list.iter().filter(|item| items.contains(item)).map(|item| item - items.start).collect())
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

#[cfg(test)]
mod tests {
    use super::super::{Evaluation, Folds, StoredScores, VectorSource, evaluate};
    use super::*;
    use pairloom_search::CpuSearchFactory;

    /// Three images, four captions.
    const IDS: [i64; 4] = [0, 1, 2, 3];

    fn refused(matches: Matches<'_>, more: impl FnOnce(&Evaluation<'_>) -> Result<()>) -> String {
        let scores = StoredScores { rows: &[[0.5; 4].as_slice(); 3], captions: 4, bank: None, threads: 1 };
        let collection = Collection { image_ids: &IDS[..3], caption_ids: &IDS, matches, scores: &scores };
        more(&Evaluation::of(collection)).expect_err("a mistake").to_string()
    }

    fn ranked(evaluation: &Evaluation<'_>) -> Result<()> {
        evaluate(evaluation, &mut ()).map(drop)
    }

    #[test]
    fn inconsistent_inputs_are_errors_and_never_panics() {
        let wrong = "the matches do not fit 3 images and 4 captions";
        for first in [&[0, 1, 2][..], &[0, 1, 2, 3], &[0, 3, 2, 4], &[1, 2, 3, 4], &[], &[0, 1, 2, 9]] {
            assert_eq!(refused(Matches::Grouped(first), ranked), wrong, "{first:?}");
        }
        for image_of in [&[0, 1, 2][..], &[0, 1, 2, 3]] {
            assert_eq!(refused(Matches::ImageOfCaption(image_of), ranked), wrong, "{image_of:?}");
        }
        let fits = || Matches::Grouped(&[0, 2, 3, 4]);
        #[expect(clippy::reversed_empty_ranges, reason = "a possible mistake of a caller")]
        for images in [0..4, 2..1] {
            let folds = [Folds { protocol: "one".to_owned(), images: vec![images] }];
            let error = refused(fits(), |evaluation| ranked(&Evaluation { protocols: &folds, ..*evaluation }));
            assert!(error.starts_with("protocol `one` has images"), "{error}");
        }
        for captions_of in [vec![vec![0]], vec![vec![4], vec![], vec![]]] {
            let rated = [BinaryRelevance { name: "cxc".to_owned(), captions_of, images_of: vec![vec![]; 4] }];
            let error = refused(fits(), |evaluation| ranked(&Evaluation { binary_relevance: &rated, ..*evaluation }));
            assert_eq!(error, "relevance `cxc` does not fit 3 images and 4 captions");
        }
        let (factory, bank) = (CpuSearchFactory { order: None, threads: 1 }, None);
        let scores = VectorSource { images: &[1.0; 4], captions: &[1.0; 8], width: 2, bank, factory: &factory };
        let error = refused(fits(), |evaluation| {
            ranked(&Evaluation { collection: Collection { scores: &scores, ..evaluation.collection }, ..*evaluation })
        });
        assert_eq!(error, "got 4 numbers for vectors of width 2, expected 6 at least");
    }
}
