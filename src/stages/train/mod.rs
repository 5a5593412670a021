//! `train`: `features` or `images`, `captions`, `caption_ngrams` → `model`, `plan`, `samples`, `memory_bank`, `history`, `validation`.

mod settings;
mod options;
mod problems;
mod run;
mod corpus;
mod images;
mod place;
mod read;
mod relevance;
mod bank;
mod position;
mod history;
mod watch;
mod validate;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod objective_tests;
#[cfg(test)]
mod pictures_tests;
#[cfg(test)]
mod family_tests;

pub use options::{Bank, DataSet, Pictures, SameImage, Sampling, WarmUp, Weights, WordVectors};
pub use settings::Train;
