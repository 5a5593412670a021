//! From shards to ready batches: what a training reads, in the order of its plan.
//!
//! ```text
//! Plan, epoch ─► reader threads, each every n-th batch ─► bounded channels ─► Loader::next, in order
//!                   │ rows of mapped shards, or pictures decoded                 │
//!                   └─◄─ read ahead: the next window of shards ◄─────────────────┘ where the trainer is
//! ```
//!
//! A position is all the state there is: a loader that begins at batch `b` gives exactly what one that began at 0 gives from
//! there on, for any number of threads.

mod data;
mod batch;
mod builder;
mod ahead;
mod stream;
mod augmented;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod parity;

pub use augmented::AugmentedPictures;
pub use batch::{Allocate, Batch, Memory, plain, reused};
pub use data::{Data, DataSet, Images};
pub use stream::{Loader, Start};
