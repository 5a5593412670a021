//! `evaluate`: `image_embeddings`, `caption_embeddings` → `rankings`, `metrics`, `summary`.

mod settings;
mod run;
mod pool;
mod protocol;
mod rows;
#[cfg(test)]
mod tests;

pub use settings::{Evaluate, Protocol};
