//! Scores of images with captions and of nothing else: there is no bank, and there are no vectors.

use std::ops::Range;

use super::scores::{PoolScores, ScoreSource, Set, missing};
use crate::error::{Error, Result};
use crate::kernels::hubness::distance::Distance;
use crate::search::{ScoreMatrix, Search, Side};

/// Scores of a pool: methods that learn from a bank, or look at vectors, are refused.
#[derive(Debug, Clone, Copy)]
pub struct MatrixPool<M>(pub M);

impl<M: ScoreMatrix> PoolScores for MatrixPool<M> {
    fn size(&self, set: Set) -> Option<usize> {
        match set {
            Set::Images => Some(self.0.sizes()[0]),
            Set::Captions => Some(self.0.sizes()[1]),
            Set::BankImages | Set::BankCaptions => None,
        }
    }

    fn search(&self, rows: Set, columns: Set) -> Result<Search<'_>> {
        match (rows, columns) {
            (Set::Images, Set::Captions) => self.0.search(Side::Columns),
            (Set::Captions, Set::Images) => self.0.search(Side::Rows),
            (Set::BankImages | Set::BankCaptions, _) => Err(missing(rows)),
            (_, Set::BankImages | Set::BankCaptions) => Err(missing(columns)),
            _ => {
                let message = "wants scores of images with images, or of captions with captions, and there are none";
                Err(Error::usage(message).hint("leave the method out, or rank vectors"))
            }
        }
    }

    fn distance(&self) -> Option<Distance> {
        None
    }
}

/// Scores of a collection that is ranked as one pool.
#[derive(Clone, Copy)]
pub struct WholeScores<'s>(pub &'s dyn ScoreMatrix);

impl ScoreSource for WholeScores<'_> {
    fn pool<'s>(&'s self, images: &Range<usize>, captions: &Range<usize>) -> Result<Box<dyn PoolScores + 's>> {
        if [images.clone(), captions.clone()] != self.0.sizes().map(|size| 0..size) {
            return Err(Error::usage("got a part of a collection of which there are no folds"));
        }
        Ok(Box::new(MatrixPool(self.0)))
    }
}
