//! File of a shard that is written whenever the shard is opened. Its modification time is the time of the last use, and its
//! content names the boot of the machine in which the shard was last found whole.
//!
//! Shards are not synced to the disk. After a power cut, the files of a shard may have their names and lengths without their
//! content, so a shard from before the last boot is read whole once. Machines that share a cache have different boots: after
//! each change between them, a shard is read whole again.

use std::io::{self, Write};
use std::path::Path;

use super::folder::open_private;
use crate::boot_id::boot_id;

/// Name of the file.
pub(super) const USED: &str = "used";

/// Size of the file: an identifier and a line break.
pub(super) const USED_BYTES: u64 = 37;

/// Sets the time of the last use of the shard in `path` to now.
pub(super) fn set_used_now(path: &Path) -> io::Result<()> {
    // Writing sets the modification time by the file system's clock, which all processes share.
    open_private(&path.join(USED), true)?.write_all(boot_id().unwrap_or("\n").as_bytes())
}

/// True if the shard in `path` was written or found whole since the machine was started, or if the system does not tell.
pub(super) fn is_of_this_boot(path: &Path) -> bool {
    boot_id().is_none_or(|id| std::fs::read(path.join(USED)).is_ok_and(|used| used == id.as_bytes()))
}
