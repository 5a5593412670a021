//! The order of an epoch, as a pure function: which sample stands at a position, and which positions a rank takes.
//!
//! ```text
//! position of the epoch ─► Mixture: which data set, its how-manieth draw ─► Pass: which sample of it ─► shard, row
//!          │
//!          └─ batch b = positions b·B .. (b+1)·B, of which rank r of W takes `share(B, r, W)`
//! ```
//!
//! Nothing is drawn along the way, so any position can be asked for first: a resumed epoch starts in the middle at no cost,
//! and the global batches are the same whatever the number of ranks.

mod permutation;
mod pass;
mod mixture;
mod plan;
mod draw;
#[cfg(test)]
mod tests;

pub use draw::{Draw, draw};
pub use pass::Order;
pub use permutation::Permutation;
pub use plan::{DataSet, Epoch, Plan, Sample, Stretch, share};
