//! `correlate`: `ratings`, any `caption_similarity` → `correlations`.

mod settings;
mod run;
mod pairs;
#[cfg(test)]
mod tests;

pub use settings::{Correlate, Pairs, Score};
