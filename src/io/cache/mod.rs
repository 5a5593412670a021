//! The shard cache: tables made ready to be read at random, kept between runs, shared by processes, bounded in bytes.
//!
//! ```text
//! <folder>/v1/shards/<key>/{shard.arrow, sums, used}   shards; `used` is as old as the last time that one was opened
//! <folder>/v1/tmp/<key>/                               what is being made, taken whole into `shards` by one rename
//! <folder>/v1/tmp/<key>.lock                           held by who makes it
//! <folder>/v1/gone/<key>/                              what is being removed
//! <folder>/v1/lock                                     held by who makes room
//! ```
//!
//! Locks are the operating system's (`flock`) and end with the process. They are of three kinds, taken in this order:
//!
//! - The lock of a key: one maker at a time. It is unlinked by its holder, so whoever gets a lock looks whether the file
//!   at its path is still the one that he locked, and otherwise starts again.
//! - The lock of the cache: room is made, and shards are removed, by one process at a time.
//! - `shard.arrow`, shared, by whoever has it open; alone, by who removes it for room. So what is in use stays.
//!
//! A shard that is damaged is removed even while it is in use: who has it mapped goes on with what he has.

mod store;
mod folder;
mod claim;
mod room;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod process_tests;

pub use store::{Cache, Statistics};
