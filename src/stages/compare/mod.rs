//! `compare`: `captions` → `caption_similarity`, and what it follows from: `caption_ngrams` or `scene_graphs`.
//!
//! φ(i, c) says how much caption c says what the captions of image i say. Training takes margins from it, evaluation takes
//! graded relevance from it.

mod settings;
mod corpus;
mod pairs;
mod run;
mod cider;
mod spice;
mod rows;
#[cfg(test)]
mod tests;

pub use settings::{CiderSettings, Compare, CompareForm, Measure, SpiceSettings};
