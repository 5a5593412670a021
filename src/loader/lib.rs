//! Data loader: reads shards in the order of an epoch and assembles batches on several threads.
//!
//! ```text
//! epoch, or rows   ─► worker threads, each every n-th batch ─► bounded channels ─► Loader::next, in order
//!                   │ rows of mapped shards, or decoded images                 │
//!                   └─◄─ prefetch: the next window of shards ◄───────────────────┘ position of the trainer
//! ```
//!
//! The position is the only state. A loader that starts at batch `b` returns the same batches as one that
//! started at 0 returns from there on, for any number of threads.

mod data;
mod order;
mod batch;
mod builder;
mod prefetch;
mod stream;
mod augmented;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod augment_golden_tests;

pub use augmented::{AugmentedImages, PixelFormat};
pub use batch::{AllocateBuffer, Batch, ValueBuffer, pooled, pooled_heap};
pub use data::{LoaderData, LoaderDataSet, LoaderImages};
pub use order::SelectedRows;
pub use stream::{Loader, LoaderStart};
