//! `evaluate`: `image_embeddings`, `caption_embeddings` → `rankings`, `hubs`, `metrics`, `summary`; what is relevant beside the
//! queries' own matches may come from `caption_similarity` and `ratings`, and what methods against hubs learn from, a bank,
//! from embeddings of another split or a `memory_bank`. In place of embeddings, `model`, `features` and `captions`: the model
//! encodes and scores.
//!
//! The stage reads and writes; [`retrieval`](crate::retrieval) ranks and measures.

mod settings;
mod bank;
mod run;
mod pool;
mod embeddings;
mod encoded;
mod callbacks;
mod similarity;
mod rated;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod relevance_tests;
#[cfg(test)]
mod method_tests;
#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod edge_tests;
#[cfg(test)]
mod resume_tests;

pub use bank::Bank;
pub use encoded::ScoredBy;
pub use settings::{Evaluate, Relevance};
