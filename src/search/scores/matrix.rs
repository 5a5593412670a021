//! Score matrix of images and captions, with either of them as rows.

use super::side::MatrixSide;
use crate::error::Result;
use crate::search::Search;

/// Scores of all images of a collection with all its captions.
pub trait ScoreMatrix {
    /// Number of images and of captions.
    fn shape(&self) -> [usize; 2];

    /// Creates a search with the captions on this side and the images on the other.
    ///
    /// # Errors
    /// The scores cannot be ranked.
    fn search(&self, captions: MatrixSide) -> Result<Search<'_>>;
}

impl<M: ScoreMatrix + ?Sized> ScoreMatrix for &M {
    fn shape(&self) -> [usize; 2] {
        (**self).shape()
    }

    fn search(&self, captions: MatrixSide) -> Result<Search<'_>> {
        (**self).search(captions)
    }
}
