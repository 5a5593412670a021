//! `evaluate`: `image_embeddings`, `caption_embeddings` → `rankings`, `metrics`, `summary`; what is relevant beside the
//! queries' own matches may come from `caption_similarity` and `ratings`.

mod settings;
mod run;
mod pool;
mod protocol;
mod similarity;
mod rated;
mod graded;
mod means;
mod rows;
mod results;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod relevance_tests;

pub use settings::{Evaluate, Protocol, Relevance};
