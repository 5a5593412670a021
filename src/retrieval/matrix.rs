//! Scores of images with captions as a matrix, without a query bank and without vectors.

use super::scores::{PoolScores, ScoreSet, missing_scores};
use crate::error::{Error, Result};
use crate::kernels::hubness::distance::Distance;
use crate::search::{MatrixSide, ScoreMatrix, Search};

/// Scores of a pool from a matrix. Methods that need a query bank or vectors are refused.
#[derive(Debug, Clone, Copy)]
pub struct MatrixPool<M>(pub M);

impl<M: ScoreMatrix> PoolScores for MatrixPool<M> {
    fn size(&self, set: ScoreSet) -> Option<usize> {
        match set {
            ScoreSet::Images => Some(self.0.shape()[0]),
            ScoreSet::Captions => Some(self.0.shape()[1]),
            ScoreSet::BankImages | ScoreSet::BankCaptions => None,
        }
    }

    fn search(&self, rows: ScoreSet, columns: ScoreSet) -> Result<Search<'_>> {
        match (rows, columns) {
            (ScoreSet::Images, ScoreSet::Captions) => self.0.search(MatrixSide::Columns),
            (ScoreSet::Captions, ScoreSet::Images) => self.0.search(MatrixSide::Rows),
            (ScoreSet::BankImages | ScoreSet::BankCaptions, _) => Err(missing_scores(rows)),
            (_, ScoreSet::BankImages | ScoreSet::BankCaptions) => Err(missing_scores(columns)),
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
