//! Shards: tables for random access, as memory-mapped Arrow files of one record batch with a digest per chunk.
//!
//! ```text
//! <folder>/shard.arrow   Arrow IPC file: one record batch, uncompressed, buffers at multiples of 64 bytes
//! <folder>/sums          digests of its chunks of 16 KiB
//! ```
//!
//! Format: <https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format>. Any Arrow reader opens such a file.
//!
//! Reading a row decodes nothing: it is a slice of the map. The file must not change while it is open; truncating it
//! would end the process (SIGBUS), so the cache makes its files read-only, in a folder that only the user can access.

mod file;
mod columns;
mod layout;
mod chunk_digests;
mod write;
#[cfg(test)]
mod tests;

pub use columns::{ShardIds, ShardIntLists, ShardTexts, ShardVectors};
pub use file::Shard;
pub use layout::catch_panic;
pub use write::{ShardSize, reserve, size, write};

/// Name of the Arrow file in the folder of a shard.
pub const SHARD_FILE: &str = "shard.arrow";
/// Name of the file of digests in the folder of a shard.
pub const DIGESTS_FILE: &str = "sums";
