//! Exact search in scores of all rows with all columns, without ever holding them: the matrix of 5,000 images and 25,000
//! captions has 125 million scores, and what anybody wants of it are ten a row, a rank a column, or a number for each.
//!
//! Scores come from a source ([`Scores`]): vectors, on the processor ([`VectorScores`]) or on a GPU, or a stored table of what
//! some encoder said ([`ScoreTable`]). A search goes over them in blocks of rows and panels of
//! [`COLUMNS`](crate::kernels::product::COLUMNS) columns, and while a panel lies in the cache all is taken from it that was
//! asked for, along both directions ([`Search::find`]).
//!
//! These scores are approximate, within a proven bound. Every pair whose score is too close to call is asked for again, and the
//! source gives its exact score. So ranks and lists are those of the definition, bit for bit: for any processor, GPU, number of
//! threads and size of blocks.
//!
//! A long search can be ended and goes on: what it has found so far is in checkpoints ([`CheckpointStore`]).
//!
//! Sums over all scores ([`Statistic`](crate::kernels::hubness::statistic::Statistic) of a softmax, means) are of the fine
//! approximate scores, in an order that depends on the sizes alone: the same bits for any number of threads, and for vectors the
//! same on every processor. On a GPU scores are rounded in other places, and so are sums of them.
//!
//! # Example
//! ```
//! use pairloom::search::{Ask, Positives, ScoreTable, Search};
//!
//! # fn main() -> Result<(), pairloom::error::Error> {
//! // Two images and three captions, scored by whatever it was.
//! let table = [0.8, 1.0, 0.0, 0.6, 0.0, 1.0];
//! let scores = ScoreTable::new("scores", &table, [2, 3])?;
//! let matches = [0..2, 2..3];
//! let i2t = Ask { k: 2, positives: Positives::Ranges(&matches), ..Ask::default() };
//! let t2i = Ask { k: 1, ..Ask::default() };
//! let [of_images, of_captions] = Search::new(&scores, 2).find(&i2t, &t2i, &mut |_, _| Ok(()))?;
//! assert_eq!(of_images.top[0].iter().map(|best| best.item).collect::<Vec<_>>(), [1, 0]);
//! assert_eq!(of_images.ranks[0].map(|rank| rank.rank), Some(0));
//! assert_eq!(of_captions.top[2][0].item, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Vectors are searched by [`Search::of_vectors`].

mod threads;
mod scores;
mod checkpoint;
mod question;
mod answer;
mod scan;
mod sinkhorn;
mod matching;
mod api;
mod factory;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod resume_tests;
#[cfg(test)]
mod identity_tests;
#[cfg(test)]
mod source_tests;
#[cfg(test)]
mod golden;

pub use answer::Answer;
pub use api::Search;
pub use checkpoint::{CheckpointStore, MINIMUM_COST, Progress};
pub use factory::{Processor, SearchFactory};
pub use matching::{Greedy, Matched, assignment};
pub use question::{Ask, Positives};
pub use scores::{
    Bound, Consume, Duplicates, HELD, Lane, Precision, ScoreMatrix, ScoreTable, Scores, Scoring, Side, VectorScores,
    Vectors, consume_rows, rows_held,
};
pub use sinkhorn::Potentials;
