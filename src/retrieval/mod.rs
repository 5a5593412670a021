//! Retrieval: ranks images for captions and captions for images by any method, and measures what is found.
//!
//! ```text
//! scores of images × captions ─► method ─► rankings, or sets ─► recall, hubs, graded measures ─► their means over folds
//!                                  ▲
//!                  scores with a bank, or of all queries
//! ```
//!
//! [`evaluate`] is the entry. It takes scores (or vectors), relevance, methods and cut-offs, and gives tables.

mod direction;
mod scores;
mod matrix;
mod stored;
mod collection;
mod folds;
mod protocol;
mod label;
mod corrections;
mod ranking;
mod statistics;
pub mod methods;
mod relevance;
mod callbacks;
mod means;
mod measure;
mod intervals;
mod graded;
mod results;
mod write;
mod choice;
mod evaluation;

pub use callbacks::{Callbacks, Collect};
pub use collection::{Collection, Matches};
pub use direction::Direction;
pub use evaluation::{Detail, Evaluation, Validation, evaluate};
pub use folds::Folds;
pub use label::Label;
pub use matrix::{MatrixPool, WholeScores};
pub use methods::Method;
pub use protocol::Protocol;
pub use ranking::Rankings;
pub use relevance::{Graded, Grades, RelevantPairs};
pub use results::Results;
pub use scores::{PoolScores, ScoreSource, Set, VectorPair, VectorSource};
pub use stored::StoredScores;
