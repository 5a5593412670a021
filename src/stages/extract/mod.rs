//! `extract`: `images` → `features`; of a grid `regions` and `region_boxes`.
//!
//! ```text
//! path or bytes ─► read ─► decode ─► resize, crop ─► normalise ─► network ─► feature
//!                  └──────── as the published code does ────────────────────────┘
//! ```

mod settings;
mod options;
mod problems;
mod run;
mod preprocess;
mod grid_boxes;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod networks_golden_tests;

pub use options::{FeaturePooling, OnUndecodable, WeightSource};
pub use settings::{Extract, Network};
