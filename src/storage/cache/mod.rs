//! Shard cache: a folder of shards for random access, kept between runs, shared by processes, bounded in size (LRU).
//!
//! ```text
//! <folder>/v1/shards/<key>/{shard.arrow, sums, used}   shards; the time of `used` is that of the last use
//! <folder>/v1/tmp/<key>/                               shard under construction, moved to `shards` by one rename
//! <folder>/v1/tmp/<key>.lock                           build lock of the shard
//! <folder>/v1/gone/<key>/                              shard that is being removed
//! <folder>/v1/lock                                     lock for evictions
//! ```
//!
//! Locks are file locks of the operating system (`flock`), released when a process ends. There are three kinds, taken
//! in this order:
//!
//! - The build lock of a key: one builder at a time. The holder unlinks the file, so after locking it a process checks
//!   that the file at the path is still the one it locked, and otherwise starts again.
//! - The lock of the cache: one process at a time evicts and removes shards.
//! - `shard.arrow`: a shared lock while the shard is open, an exclusive one to evict it. So shards in use stay.
//!
//! A damaged shard is removed even while it is in use; processes that have it mapped keep their mapping. A shard from before
//! the last boot is read whole when it is first opened; if a power cut damaged it, it is removed and built again.

mod shard_cache;
mod folder;
mod build_lock;
mod last_use;
mod eviction;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod process_tests;
#[cfg(test)]
mod state_machine_tests;

pub use shard_cache::{CacheStatistics, ShardCache};
