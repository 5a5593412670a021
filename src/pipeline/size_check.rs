//! Limits of what a file may have. The time and memory of a check grow with products of these numbers.

use super::diagnostic::Diagnostic;
use super::source_map::SourceSpan;
use super::toml_tree::TomlNode;

/// Maximum number of stages in a file.
const MAX_STAGES: usize = 1000;

/// Maximum number of profiles in a file. Each is checked with instances of all stages.
const MAX_PROFILES: usize = 100;

/// Maximum length of a name in bytes. Messages repeat names.
const MAX_NAME_BYTES: usize = 500;

/// Maximum size of the settings of all instances in memory. A stage of 20 settings has about 3 KB.
const MAX_SETTINGS_BYTES: usize = 64 << 20;

/// Mistakes of a file that is too large to be checked any further.
pub(super) fn check_size(root: &TomlNode) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for (table, what, limit) in [("stage", "stages", MAX_STAGES), ("profile", "profiles", MAX_PROFILES)] {
        let entries = root.get(table).map_or(&[][..], |entry| entry.node.entries());
        if let Some(first) = entries.get(limit) {
            let message = format!("the file has {} {what}, wanted at most {limit}", entries.len());
            found.push(Diagnostic::new(first.key_span, message).hint("split it into several files"));
        }
    }
    root.for_each_entry(&mut |entry| {
        let bytes = entry.key.len();
        if bytes > MAX_NAME_BYTES {
            let message = format!("a name has {bytes} bytes, wanted at most {MAX_NAME_BYTES}");
            found.push(Diagnostic::new(entry.key_span, message));
        }
    });
    found
}

/// Counter of the settings of all instances.
#[derive(Default)]
pub(super) struct InstanceSize {
    bytes: usize,
}

impl InstanceSize {
    /// Adds the settings of an instance of the stage at `span`.
    ///
    /// # Errors
    /// The settings of all instances are too large.
    pub(super) fn add(&mut self, settings: &TomlNode, span: SourceSpan) -> Result<(), Diagnostic> {
        self.bytes += settings.memory_bytes();
        if self.bytes <= MAX_SETTINGS_BYTES {
            return Ok(());
        }
        let message =
            format!("the instances up to this stage have more than {} MiB of settings", MAX_SETTINGS_BYTES >> 20);
        Err(Diagnostic::new(span, message).hint("shorten an axis of the matrix, or the settings"))
    }
}
