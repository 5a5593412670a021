//! Sources of scores: vectors on the CPU, a stored table, a subset of another source. `model` adds vectors on a GPU.

mod side;
mod vector_matrix;
mod duplicates;
mod source;
mod exact_cache;
mod score_function;
mod packed;
mod vector_scores;
mod table;
mod subset;

pub(super) use exact_cache::ExactCache;
pub(super) use subset::subset;

pub use duplicates::Duplicates;
pub use score_function::ScoreFunction;
pub use side::MatrixSide;
pub use source::{
    ConsumePanel, PanelRow, SCORE_BUFFER_BYTES, ScoreBound, ScorePrecision, Scores, consume_row_major, rows_per_buffer,
};
pub use table::ScoreTable;
pub use vector_matrix::VectorMatrix;
pub use vector_scores::VectorScores;
