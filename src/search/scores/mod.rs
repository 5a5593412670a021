//! Sources of scores: vectors on the processor, a stored table, some pairs of another source. `model` adds vectors on a GPU.

mod side;
mod vectors;
mod duplicates;
mod source;
mod exact_cache;
mod scoring;
mod packed;
mod products;
mod table;
mod matrix;
mod subset;

pub(super) use exact_cache::ExactCache;
pub(super) use subset::subset;

pub use duplicates::Duplicates;
pub use matrix::ScoreMatrix;
pub use products::VectorScores;
pub use scoring::Scoring;
pub use side::Side;
pub use source::{Bound, Consume, HELD, Lane, Precision, Scores, consume_rows, rows_held};
pub use table::ScoreTable;
pub use vectors::Vectors;
