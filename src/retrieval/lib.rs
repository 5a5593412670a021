//! Evaluation of retrieval: ranks images for captions and captions for images by any method, and computes measures of
//! the rankings.
//!
//! ```text
//! scores of images × captions ─► method ─► rankings, or sets ─► recall, hubness, graded measures ─► means over folds
//!                                  ▲
//!                  scores with a query bank, or of all queries
//! ```
//!
//! [`evaluate`] is the entry point. It takes scores (or vectors), relevance, methods and cut-offs, and returns tables.

mod direction;
mod scores;
mod stored_scores;
mod collection;
mod folds;
mod protocol;
mod label;
mod corrections;
mod ranking;
mod ranked_items;
mod statistics;
pub mod methods;
mod relevance;
mod callbacks;
mod recall_intervals;
mod metric_means;
mod direction_metrics;
mod confidence_intervals;
mod graded_metrics;
mod results;
mod table_rows;
mod method_selection;
mod evaluation;
mod over_seeds;

pub use callbacks::{Callbacks, CollectedTables};
pub use collection::{Collection, Matches};
pub use direction::Direction;
pub use evaluation::{Evaluation, EvaluationDetail, ValidationCollection, evaluate};
pub use folds::Folds;
pub use label::MethodLabel;
pub use methods::Method;
pub use over_seeds::{PairedSeedTest, SeedStatistics};
pub use protocol::Protocol;
pub use ranked_items::{cosine_problem, rank_items};
pub use ranking::Rankings;
pub use relevance::{BinaryRelevance, GradedRelevance, RelevanceGrades};
pub use results::EvaluationResults;
pub use scores::{ImageCaptionVectors, PoolScores, ScoreSet, ScoreSource, VectorSource};
pub use stored_scores::{StoredBankScores, StoredScores};
pub use table_rows::DEFAULT_RANKING_DEPTH;
