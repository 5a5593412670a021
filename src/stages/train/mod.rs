//! `train`: `features`, `captions` → `model`, `history`, `validation`.

mod settings;
mod run;
mod pairs;
mod validate;
#[cfg(test)]
mod tests;

pub use settings::Train;
