//! Collection that is ranked: images, captions, and which of them match.

use std::borrow::Cow;
use std::ops::Range;

use super::direction::Direction;
use super::scores::ScoreSource;
use crate::error::{Error, Result};

/// Images and captions of a split.
#[derive(Clone, Copy)]
pub struct Collection<'c> {
    /// Identifiers of the images.
    pub image_ids: &'c [i64],
    /// Identifiers of the captions.
    pub caption_ids: &'c [i64],
    /// Which captions belong to which image.
    pub matches: Matches<'c>,
    /// Scores of both, in the same order.
    pub scores: &'c dyn ScoreSource,
}

/// Which captions belong to which image.
#[derive(Debug, Clone, Copy)]
pub enum Matches<'m> {
    /// Captions of an image stand together, in the order of the images: the index of the first caption of each image, and at
    /// the end the number of captions.
    Grouped(&'m [usize]),
    /// The image of each caption, in any order. There are no folds of such a collection, and no graded relevance.
    OfCaptions(&'m [usize]),
}

/// Queries and items of one direction of a pool.
#[derive(Debug)]
pub(super) struct Task<'p> {
    pub(super) direction: Direction,
    /// Identifiers of the queries.
    pub(super) query_ids: &'p [i64],
    /// Identifiers of the items.
    pub(super) item_ids: &'p [i64],
    /// For each query the items that match.
    pub(super) matches: Vec<Vec<usize>>,
    /// The image of every query, from 0 in the pool.
    pub(super) image_of: Vec<usize>,
    /// Identifiers of the images of the pool.
    pub(super) image_ids: &'p [i64],
}

impl Task<'_> {
    /// How many queries each item matches.
    pub(super) fn own(&self) -> Vec<usize> {
        let mut own = vec![0; self.item_ids.len()];
        self.matches.iter().flatten().for_each(|&item| own[item] += 1);
        own
    }
}

impl<'c> Collection<'c> {
    /// The captions of these images.
    ///
    /// # Errors
    /// Captions of an image do not stand together, and these are not all images.
    pub(super) fn captions_of(&self, images: &Range<usize>) -> Result<Range<usize>> {
        match self.matches {
            Matches::Grouped(first) => Ok(first[images.start]..first[images.end]),
            Matches::OfCaptions(_) if *images == (0..self.image_ids.len()) => Ok(0..self.caption_ids.len()),
            Matches::OfCaptions(_) => Err(Error::internal("part of a collection whose captions are in any order")),
        }
    }

    /// The index of the first caption of each of these images, and at the end that of the caption after them.
    ///
    /// # Errors
    /// Captions of an image do not stand together.
    pub(super) fn caption_offsets(&self, images: &Range<usize>) -> Result<&'c [usize]> {
        match self.matches {
            Matches::Grouped(first) => Ok(&first[images.start..=images.end]),
            Matches::OfCaptions(_) => {
                Err(Error::internal("a graded relevance of a collection whose captions are in any order"))
            }
        }
    }

    /// The image of each of these captions.
    fn image_of(&self, images: &Range<usize>, captions: &Range<usize>) -> Cow<'c, [usize]> {
        match self.matches {
            Matches::OfCaptions(image_of) => Cow::Borrowed(&image_of[captions.clone()]),
            Matches::Grouped(first) => {
                let of = |image: usize| std::iter::repeat_n(image - images.start, first[image + 1] - first[image]);
                images.clone().flat_map(of).collect()
            }
        }
    }

    /// Queries and items of the pool of these images: image to text, text to image.
    pub(super) fn tasks(&self, images: &Range<usize>) -> Result<[Task<'c>; 2]> {
        let captions = self.captions_of(images)?;
        let (image_ids, caption_ids) = (&self.image_ids[images.clone()], &self.caption_ids[captions.clone()]);
        let image_of = self.image_of(images, &captions);
        let mut captions_of: Vec<Vec<usize>> = vec![Vec::new(); images.len()];
        image_of.iter().enumerate().for_each(|(caption, &image)| captions_of[image].push(caption));
        Ok([
            Task {
                direction: Direction::ImageToText,
                query_ids: image_ids,
                item_ids: caption_ids,
                matches: captions_of,
                image_of: (0..images.len()).collect(),
                image_ids,
            },
            Task {
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
