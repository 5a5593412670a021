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

mod scores;
mod collection;
mod protocol;
mod ranking;
mod statistics;
pub mod methods;
mod callbacks;
mod direction_metrics;
mod confidence_intervals;
mod graded_metrics;
mod results;
mod evaluation;
mod over_seeds;

pub use callbacks::{Callbacks, CollectedTables};
pub use collection::{BinaryRelevance, Collection, Direction, GradedRelevance, Matches, RelevanceGrades};
pub use evaluation::{Evaluation, EvaluationDetail, ValidationCollection, evaluate};
pub use methods::Method;
pub use over_seeds::{PairedSeedTest, SeedStatistics};
pub use protocol::{Folds, Protocol};
pub use ranking::{MethodLabel, Rankings, cosine_problem, rank_items};
pub use results::{DEFAULT_RANKING_DEPTH, EvaluationResults};
pub use scores::{
    ImageCaptionVectors, PoolScores, ScoreSet, ScoreSource, StoredBankScores, StoredScores, VectorSource,
};
