//! Shards: tables as memory-mapped Arrow files of one record batch, whose damage is found where it is read.
//!
//! ```text
//! <folder>/shard.arrow   an Arrow IPC file: one record batch, not compressed, buffers at multiples of 64 bytes
//! <folder>/sums          digests of its chunks of 16 KiB
//! ```
//!
//! Format: <https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format>. Any Arrow reader opens such a file.
//!
//! Nothing is decoded: a row is a slice of the map. The file must not change while it is open; one that is cut short
//! meanwhile ends the process (SIGBUS), which is why the cache makes its files read-only, in a folder of the user alone.

mod file;
mod columns;
mod layout;
mod sums;
mod write;
#[cfg(test)]
mod tests;

pub use columns::{Ids, Numbers, Texts, Vectors};
pub use file::Shard;
pub(in crate::io) use layout::distrusted;
pub use write::{Size, reserve, size, write};

/// The Arrow file in the folder of a shard.
pub const SHARD: &str = "shard.arrow";
/// The digests in the folder of a shard.
pub const SUMS: &str = "sums";
