//! Data order of an epoch as a pure function: the sample at each position, and the positions of each rank.
//!
//! ```text
//! position in the epoch ─► Mixture: data set, index of the draw ─► PassOrder: sample of the data set ─► shard, row
//!          │
//!          └─ batch b = positions b·B .. (b+1)·B; rank r of W ranks gets `rank_share(B, r, W)` of it
//! ```
//!
//! There is no random state that advances from sample to sample. So the positions can be computed in any order: an
//! epoch resumes in the middle at no cost, and the global batches do not depend on the number of ranks.

mod permutation;
mod shuffle;
mod mixture;
mod data_order;
mod memory_bank;
#[cfg(test)]
mod tests;

pub use data_order::{DataOrder, DataSet, Epoch, Sample, ShardWindow, rank_share};
pub use memory_bank::{MemoryBankSampling, sample_memory_bank};
pub use permutation::Permutation;
pub use shuffle::Shuffle;
