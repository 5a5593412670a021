//! `evaluate`: `image_embeddings`, `caption_embeddings` → `rankings`, `hubs`, `metrics`, `summary`; what is relevant beside the
//! queries' own matches may come from `caption_similarity` and `ratings`, and what methods against hubs learn from, a bank,
//! from embeddings of another split or a `memory_bank`.
//!
//! ```text
//! images × captions of a fold ─► method ─► rankings, or sets ─► recall, hubs, graded measures ─► their means over folds
//!                                  ▲
//!                     bank, or all queries of the test
//! ```

mod settings;
mod methods;
mod bank;
mod run;
mod pool;
mod protocol;
mod ranking;
mod keeping;
mod corrections;
mod matchings;
mod measure;
mod intervals;
mod similarity;
mod rated;
mod graded;
mod means;
mod label;
mod rows;
mod results;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod relevance_tests;
#[cfg(test)]
mod method_tests;
#[cfg(test)]
mod matching_tests;
#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod edge_tests;
#[cfg(test)]
mod resume_tests;

pub use bank::Bank;
pub use methods::{Distribution, Method};
pub use settings::{Evaluate, Protocol, Relevance};
