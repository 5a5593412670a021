//! `train`: `features`, `captions` → `model`, `history`, `validation`.

mod settings;
mod run;
mod corpus;
mod place;
mod read;
mod position;
mod history;
mod validate;
#[cfg(test)]
mod tests;

pub use settings::{DataSet, Order, Train};
