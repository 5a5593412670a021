//! `correlate`: correlation of scores with human ratings. `ratings`, any `caption_similarity` → `correlations`.

mod settings;
mod run;
mod rated_pairs;
#[cfg(test)]
mod tests;

pub use settings::{Correlate, PairSet, Score};
