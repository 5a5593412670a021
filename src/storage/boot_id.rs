//! Identifier of the time since the machine was started.

use std::sync::OnceLock;

/// Identifier of this boot, with a line break, as Linux gives it; `None` if the system has none.
#[must_use]
pub fn boot_id() -> Option<&'static str> {
    static ID: OnceLock<Option<String>> = OnceLock::new();
    ID.get_or_init(|| std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()).as_deref()
}
