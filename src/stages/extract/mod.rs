//! `extract`: `images` → `features`; of a grid `regions` and `region_boxes`.
//!
//! ```text
//! path or bytes ─► read ─► decode ─► resize, crop ─► normalise ─► network ─► feature
//!                  └───────── as torchvision does ───────────────────────────┘
//! ```

mod settings;
mod run;
mod preprocess;
mod grid_boxes;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod golden_tests;

pub use settings::{Extract, FeaturePooling, Network, OnUndecodable, WeightSource};
