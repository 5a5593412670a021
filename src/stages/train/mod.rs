//! `train`: `features`, `captions` → `model`, `history`, `validation`.

mod settings;
mod options;
mod run;
mod corpus;
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

pub use options::{Bank, DataSet, Order, SameImage, Sampling, WarmUp, WordVectors};
pub use settings::Train;
