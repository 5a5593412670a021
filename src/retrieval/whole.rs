//! Scores of a whole collection, by whatever makes searches of them.

use std::ops::Range;

use super::scores::{PoolScores, ScoreSource, Set, missing};
use crate::error::{Error, Result};
use crate::kernels::hubness::distance::Distance;
use crate::search::{Search, Side};

/// Scores of a whole collection: there are no folds of it, no bank and no vectors.
#[derive(Clone, Copy)]
pub struct WholeScores<'s> {
    /// How many images and captions there are.
    pub sizes: [usize; 2],
    /// A search with the captions on this side, and the images on the other.
    pub search: &'s dyn Fn(Side) -> Search<'s>,
}

impl ScoreSource for WholeScores<'_> {
    fn pool<'s>(&'s self, images: &Range<usize>, captions: &Range<usize>) -> Result<Box<dyn PoolScores + 's>> {
        if [images.clone(), captions.clone()] != self.sizes.map(|size| 0..size) {
            return Err(Error::usage("got a part of a collection of which there are no folds"));
        }
        Ok(Box::new(*self))
    }
}

impl PoolScores for WholeScores<'_> {
    fn size(&self, set: Set) -> Option<usize> {
        match set {
            Set::Images => Some(self.sizes[0]),
            Set::Captions => Some(self.sizes[1]),
            Set::BankImages | Set::BankCaptions => None,
        }
    }

    fn search(&self, rows: Set, columns: Set) -> Result<Search<'_>> {
        match (rows, columns) {
            (Set::Images, Set::Captions) => Ok((self.search)(Side::Columns)),
            (Set::Captions, Set::Images) => Ok((self.search)(Side::Rows)),
            (Set::BankImages | Set::BankCaptions, _) => Err(missing(rows)),
            _ => Err(missing(columns)),
        }
    }

    fn distance(&self) -> Option<Distance> {
        None
    }
}
