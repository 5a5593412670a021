//! Factory of searches over vectors, for any device.

use super::api::Search;
use super::scores::{MatrixSide, ScoreFunction, VectorMatrix};
use pairloom_base::error::Result;
use pairloom_kernels::hubness::distance::Distance;
use pairloom_kernels::order_similarity::OrderPenalty;

/// Factory of searches with one score function on one device.
pub trait SearchFactory {
    /// Creates a search over `rows` and `columns`; `captions` is the side that holds the captions.
    ///
    /// # Errors
    /// The widths differ.
    fn search<'v>(
        &self,
        rows: &'v VectorMatrix<'v>,
        columns: &'v VectorMatrix<'v>,
        captions: MatrixSide,
    ) -> Result<Search<'v>>;

    /// Conversion of scores to distances.
    fn distance(&self) -> Distance;
}

/// Factory of searches on the CPU.
#[derive(Debug, Clone, Copy)]
pub struct CpuSearchFactory {
    /// Form of the order similarity; `None` for the cosine.
    pub order: Option<OrderPenalty>,
    /// Number of threads of a search.
    pub threads: usize,
}

impl CpuSearchFactory {
    /// Score function of a row and a column; `captions` is the side that holds the captions.
    #[must_use]
    pub fn score_function(&self, captions: MatrixSide) -> ScoreFunction {
        self.order.map_or(ScoreFunction::Product, |form| ScoreFunction::Order { form, captions })
    }
}

impl SearchFactory for CpuSearchFactory {
    fn search<'v>(
        &self,
        rows: &'v VectorMatrix<'v>,
        columns: &'v VectorMatrix<'v>,
        captions: MatrixSide,
    ) -> Result<Search<'v>> {
        Search::from_vectors(rows, columns, self.score_function(captions), self.threads)
    }

    fn distance(&self) -> Distance {
        if self.order.is_some() { Distance::Order } else { Distance::Cosine }
    }
}
