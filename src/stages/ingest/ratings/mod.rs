//! Reader of `ratings`: human ratings of image-caption pairs.
//!
//! ```text
//! images, captions ─► identifiers of names (names.rs)
//!                           │
//! Crisscrossed Captions ────┼─► pair_table.rs ─┐
//! Flickr8k-Expert ──────────┴─► expert.rs ─────┴─► rows of `ratings` (rows.rs)
//! ```

mod settings;
mod names;
mod rows;
mod pair_table;
mod expert;
mod run;

pub(super) use run::run;
pub use settings::{RatingForm, RatingTable};
