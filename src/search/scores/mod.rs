//! Sources of scores: vectors on the CPU, a stored table, a subset of another source. `model` adds vectors on a GPU.

mod side;
mod vector_matrix;
mod duplicates;
mod score_bound;
mod score_function;
mod scored_vectors;
mod source;
mod exact_cache;
mod packed;
mod vector_scores;
mod table;
mod subset;

pub(super) use exact_cache::ExactCache;
pub(super) use subset::subset;

pub use duplicates::Duplicates;
pub use score_bound::ScoreBound;
pub use score_function::ScoreFunction;
pub use scored_vectors::ScoredVectors;
pub use side::MatrixSide;
pub use source::{
    ConsumePanel, PanelRow, SCORE_BUFFER_BYTES, ScorePrecision, Scores, consume_row_major, rows_per_buffer,
};
pub use table::ScoreTable;
pub use vector_matrix::VectorMatrix;
pub use vector_scores::VectorScores;
