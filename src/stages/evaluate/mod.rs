//! `evaluate`: `image_embeddings`, `caption_embeddings` → `rankings`, `metrics`, `summary`.

mod settings;

pub use settings::{Evaluate, Protocol};
