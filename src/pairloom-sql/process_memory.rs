//! Limit of the memory of a server's process.

use pairloom_base::error::{Error, Result};
use rlimit::Resource;

/// File of Linux with the memory of the machine.
const MEMORY_OF_MACHINE: &str = "/proc/meminfo";

/// Limits the memory of this process to that of the machine. A query that wants more, as values of a function that its own
/// limit does not count, ends the server and no other process.
///
/// # Errors
/// The memory of the machine is unknown, or the system refuses.
pub(super) fn limit_to_machine() -> Result<()> {
    let failed = |error: std::io::Error| Error::stage(format!("cannot limit the memory of the process: {error}"));
    let text = std::fs::read_to_string(MEMORY_OF_MACHINE);
    let text = text.map_err(|error| {
        Error::stage(format!("cannot read `{MEMORY_OF_MACHINE}`, to limit the memory of the process: {error}"))
            .hint("mount `/proc`")
    })?;
    let all = total_bytes(&text)
        .ok_or_else(|| Error::stage(format!("`{MEMORY_OF_MACHINE}` has no `MemTotal`, expected one in kB")))?;
    let (_, most) = Resource::DATA.get().map_err(failed)?;
    let limit = all.min(most);
    Resource::DATA.set(limit, limit).map_err(failed)
}

/// Memory of the machine in bytes.
fn total_bytes(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_of_the_machine_is_read() {
        assert_eq!(total_bytes("MemTotal:       16 kB\nMemFree:        4 kB\n"), Some(16_384));
        assert_eq!(total_bytes("MemFree:        4 kB\n"), None);
        assert_eq!(total_bytes("MemTotal:       many\n"), None);
    }
}
