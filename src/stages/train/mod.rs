//! `train`: `features`, `captions` → `model`, `history`, `validation`.

mod settings;

pub use settings::{Loss, Tokenizer, Train};
