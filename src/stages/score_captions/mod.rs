//! `score_captions`: `captions` → `caption_similarity`, and the tables that it is computed from: `caption_ngrams` or
//! `scene_graphs`.
//!
//! φ(i, c) is the similarity of caption c to the captions of image i. `train` derives margins from it, and `evaluate`
//! derives graded relevance from it.

mod settings;
mod split_captions;
mod pairs;
mod run;
mod cider;
mod spice;
mod similarity_rows;
#[cfg(test)]
mod tests;

pub use settings::{CiderSettings, Measure, PairSelection, ScoreCaptions, SpiceSettings};
