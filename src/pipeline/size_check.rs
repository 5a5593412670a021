//! Limits of what a file may have. The time and memory of a check grow with products of these numbers.

use super::diagnostic::Diagnostic;
use super::file_format::EXCLUDE;
use super::source_map::SourceSpan;
use super::toml_tree::{TomlEntry, TomlNode};

/// Maximum number of stages in a file.
const MAX_STAGES: usize = 1000;

/// Maximum number of profiles in a file. Each is checked with instances of all stages.
const MAX_PROFILES: usize = 100;

/// Maximum number of axes of a matrix.
const MAX_AXES: usize = 20;

/// Maximum number of values or rows of an axis, of settings that have its value, of combinations that are left out, and of
/// stages or instances that all profiles change.
const MAX_VALUES: usize = 1000;

/// Maximum number of instances of all stages.
const MAX_INSTANCES: usize = 20_000;

/// Maximum number of references in the settings of all instances.
const MAX_REFERENCES: usize = 100_000;

/// Maximum length of a name in bytes. Messages repeat names.
const MAX_NAME_BYTES: usize = 500;

/// Maximum size of the settings of all instances in memory. A stage of 20 settings has about 3 KB.
const MAX_SETTINGS_BYTES: usize = 64 << 20;

/// Mistakes of a file that is too large to be checked any further.
pub(super) fn check_size(root: &TomlNode) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let Some(matrix) = root.get("matrix") {
        check_matrix(matrix, &mut found);
    }
    let profiles = root.get("profile").map_or(&[][..], |entry| entry.node.entries());
    let set = profiles.iter().flat_map(|profile| profile.node.get("set")).flat_map(|set| set.node.entries());
    if let Some(first) = set.clone().nth(MAX_VALUES) {
        let message = format!("the profiles change {} stages, wanted at most {MAX_VALUES}", set.count());
        found.push(Diagnostic::new(first.key_span, message).hint("split the file into several"));
    }
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

/// Reports axes of a matrix, and parts of them, that are too many. Each value of an axis has a copy for each of its settings.
fn check_matrix(matrix: &TomlEntry, found: &mut Vec<Diagnostic>) {
    let mut bytes = 0;
    let (excluded, axes): (Vec<_>, Vec<_>) = matrix.node.entries().iter().partition(|entry| entry.key == EXCLUDE);
    if let Some(first) = axes.get(MAX_AXES) {
        let message = format!("the matrix has {} axes, wanted at most {MAX_AXES}", axes.len());
        found.push(Diagnostic::new(first.key_span, message).hint("list the combinations as rows of one axis"));
    }
    for axis in axes {
        let [values, settings] = ["values", "settings"].map(|key| axis.node.get(key));
        let (values, settings) = (values.map_or(&axis.node, |of| &of.node), settings.map(|of| &of.node));
        let copies = settings.map_or(1, |settings| settings.items().len());
        bytes += values.memory_bytes().saturating_mul(copies);
        for (list, what) in [(Some(values), "values"), (settings, "settings")] {
            check_length(list, &format!("axis `{}` has", axis.key), what, found);
        }
    }
    if bytes > MAX_SETTINGS_BYTES {
        let message = format!("the values of the axes have more than {} MiB of settings", MAX_SETTINGS_BYTES >> 20);
        found.push(Diagnostic::new(matrix.key_span, message).hint("shorten an axis of the matrix, or its settings"));
    }
    check_length(excluded.first().map(|entry| &entry.node), "the matrix leaves out", "combinations", found);
}

/// Reports a list of more than [`MAX_VALUES`] items.
fn check_length(list: Option<&TomlNode>, whose: &str, what: &str, found: &mut Vec<Diagnostic>) {
    let items = list.map_or(&[][..], TomlNode::items);
    if let Some(first) = items.get(MAX_VALUES) {
        let message = format!("{whose} {} {what}, wanted at most {MAX_VALUES}", items.len());
        found.push(Diagnostic::new(first.span, message));
    }
}

/// Counter of the instances of all stages and their settings.
#[derive(Default)]
pub(super) struct InstanceSize {
    bytes: usize,
    instances: usize,
    references: usize,
}

impl InstanceSize {
    /// Adds the settings of an instance of the stage at `span`, as they are in the file.
    ///
    /// # Errors
    /// The instances are too many, or their settings too large.
    pub(super) fn add(&mut self, settings: &TomlNode, span: SourceSpan) -> Result<(), Diagnostic> {
        self.bytes += settings.memory_bytes();
        self.instances += 1;
        if self.instances > MAX_INSTANCES {
            return Err(too_large(span, &format!("are more than {MAX_INSTANCES}")));
        }
        if self.bytes > MAX_SETTINGS_BYTES {
            return Err(too_large(span, &format!("have more than {} MiB of settings", MAX_SETTINGS_BYTES >> 20)));
        }
        Ok(())
    }

    /// Adds references of an instance of the stage at `span`. One with `*` counts as all that it means.
    ///
    /// # Errors
    /// The references of all instances are too many.
    pub(super) fn add_references(&mut self, count: usize, span: SourceSpan) -> Result<(), Diagnostic> {
        self.references += count;
        if self.references > MAX_REFERENCES {
            return Err(too_large(span, &format!("have more than {MAX_REFERENCES} references to tables")));
        }
        Ok(())
    }
}

fn too_large(span: SourceSpan, what: &str) -> Diagnostic {
    Diagnostic::new(span, format!("the instances up to this stage {what}"))
        .hint("shorten an axis of the matrix, or the settings")
}
