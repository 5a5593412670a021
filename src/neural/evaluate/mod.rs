//! `evaluate`: retrieval and its measures. `image_embeddings`, `caption_embeddings` → `rankings`, `hubs`, `metrics`,
//! `summary`.
//!
//! Optional inputs: `caption_similarity`, `ratings` and `qrels`, for relevance beside the queries' own matches; embeddings of
//! another split or a `memory_bank`, as the query bank of methods against hubs. The `scores` of all pairs, with their
//! `scored_captions`, can take the place of embeddings; a query bank then has scores too. Or a `model` scores images and
//! captions itself, and no scores are stored.
//!
//! The stage reads and writes tables; [`retrieval`](pairloom_retrieval) ranks and measures.

mod query_bank;
mod run;
mod inputs;
mod pool;
mod embeddings;
mod scores;
mod relevance;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod relevance_tests;
#[cfg(test)]
mod qrels_tests;
#[cfg(test)]
mod method_tests;
#[cfg(test)]
mod device_tests;
#[cfg(test)]
mod edge_tests;
#[cfg(test)]
mod resume_tests;
#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod validation_tests;

pub use run::run;
