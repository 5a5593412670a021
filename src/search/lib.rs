//! Exact nearest-neighbour search over the scores of all rows with all columns. The score matrix is never held in
//! memory.
//!
//! The matrix of 5,000 images and 25,000 captions has 125 million scores. An evaluation needs only a little of it: the
//! ten best items of each row, a rank for each column, or a statistic of each.
//!
//! Scores come from a source ([`Scores`]): vectors, on the CPU ([`VectorScores`]) or on a GPU, or a stored table of
//! scores ([`ScoreTable`]). A search goes over them in blocks of rows and panels of
//! [`TILE_COLUMNS`](pairloom_kernels::product::TILE_COLUMNS) columns. While a panel lies in the cache, [`Search::find`]
//! takes from it everything that was requested, for rows and for columns.
//!
//! These scores are approximate, with a proven error bound. Where the bound leaves the order of two scores open, the
//! search computes the exact score of the pair. So ranks and lists are those of the definition, bit for bit: for any
//! CPU, GPU, number of threads and block size.
//!
//! A long search can be interrupted and resumed: its results so far are in checkpoints ([`CheckpointStore`]).
//!
//! Statistics that sum over all scores ([`Statistic`](pairloom_kernels::hubness::method::Statistic): of a softmax,
//! means) use the fine approximate scores. They are summed in an order that depends on the shape alone, so they have
//! the same bits for any number of threads, and for vectors on every CPU. A GPU rounds scores differently, so sums
//! differ there too.
//!
//! # Example
//! ```
//! use pairloom_search::{Positives, ScoreTable, Search, SearchRequest};
//!
//! # fn main() -> Result<(), pairloom_base::error::Error> {
//! // Scores of two images with three captions.
//! let table = [0.8, 1.0, 0.0, 0.6, 0.0, 1.0];
//! let scores = ScoreTable::new("scores", &table, [2, 3])?;
//! let matches = [0..2, 2..3];
//! let image_requests = SearchRequest { k: 2, positives: Positives::Ranges(&matches), ..SearchRequest::default() };
//! let caption_requests = SearchRequest { k: 1, ..SearchRequest::default() };
//! let search = Search::new(&scores, 2);
//! let [i2t, t2i] = search.find(&image_requests, &caption_requests, &mut |_, _| Ok(()))?;
//! assert_eq!(i2t.top[0].iter().map(|best| best.item).collect::<Vec<_>>(), [1, 0]);
//! assert_eq!(i2t.ranks[0].map(|rank| rank.rank), Some(0));
//! assert_eq!(t2i.top[2][0].item, 1);
//! # Ok(())
//! # }
//! ```
//!
//! [`Search::from_vectors`] searches vectors.

mod threads;
mod scores;
mod checkpoint;
mod request;
mod scan;
mod sinkhorn;
mod matching;
pub mod assignment;
mod remote;
mod api;
// Tests of other modules use it too.
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod resume_tests;
#[cfg(test)]
mod identity_tests;
#[cfg(test)]
mod source_tests;
#[cfg(test)]
mod golden_tests;

pub use api::{CpuSearchFactory, Search, SearchFactory};
pub use checkpoint::{CheckpointStore, MINIMUM_COST, SearchProgress};
pub use matching::{GreedyMatching, GreedyRequest};
pub use remote::SearchWorker;
pub use request::{Positives, SearchRequest, SearchResults};
pub use scores::{
    ConsumePanel, Duplicates, MatrixSide, PanelRow, SCORE_BUFFER_BYTES, ScoreBound, ScoreFunction, ScorePrecision,
    ScoreTable, ScoredVectors, Scores, VectorMatrix, VectorScores, consume_row_major, rows_per_buffer,
};
pub use sinkhorn::Potentials;
pub use threads::parallel_ranges;
