//! Scores of images with captions, searched with either side as rows.

use super::side::Side;
use crate::error::Result;
use crate::search::Search;

/// Scores of all images of a collection with all its captions.
pub trait ScoreMatrix {
    /// Images, captions.
    fn sizes(&self) -> [usize; 2];

    /// Search with the captions on this side, and the images on the other.
    ///
    /// # Errors
    /// Scores that cannot be ranked.
    fn search(&self, captions: Side) -> Result<Search<'_>>;
}

impl<M: ScoreMatrix + ?Sized> ScoreMatrix for &M {
    fn sizes(&self) -> [usize; 2] {
        (**self).sizes()
    }

    fn search(&self, captions: Side) -> Result<Search<'_>> {
        (**self).search(captions)
    }
}
