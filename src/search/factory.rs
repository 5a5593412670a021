//! Makes searches of vectors, wherever their scores are computed.

use super::api::Search;
use super::scores::{Scoring, Side, Vectors};
use crate::error::Result;
use crate::kernels::hubness::distance::Distance;
use crate::kernels::order::Form;

/// Factory of searches: one score function, one device.
pub trait SearchFactory {
    /// A search of `rows` and `columns`, of which one side are captions.
    ///
    /// # Errors
    /// The widths differ.
    fn search<'v>(&self, rows: &'v Vectors<'v>, columns: &'v Vectors<'v>, captions: Side) -> Result<Search<'v>>;

    /// How a score becomes a distance.
    fn distance(&self) -> Distance;
}

/// Searches on the processor.
#[derive(Debug, Clone, Copy)]
pub struct Processor {
    /// Order similarity of this form; cosine where there is none.
    pub order: Option<Form>,
    /// Threads of a search.
    pub threads: usize,
}

impl Processor {
    /// How a score follows from a row and a column, with the captions on this side.
    #[must_use]
    pub fn scoring(&self, captions: Side) -> Scoring {
        self.order.map_or(Scoring::Product, |form| Scoring::Order { form, captions })
    }
}

impl SearchFactory for Processor {
    fn search<'v>(&self, rows: &'v Vectors<'v>, columns: &'v Vectors<'v>, captions: Side) -> Result<Search<'v>> {
        Search::of_vectors(rows, columns, self.scoring(captions), self.threads)
    }

    fn distance(&self) -> Distance {
        if self.order.is_some() { Distance::Order } else { Distance::Cosine }
    }
}
