//! Limits of what a file may have. The time and memory of a check grow with products of these numbers.

use super::diagnostic::{Diagnostic, SourceSpan};
use super::file_format::EXCLUDE;
use super::toml_tree::{TomlEntry, TomlNode};

/// Maximum number of stages in a file.
const MAX_STAGES: usize = 1000;

/// Maximum number of profiles in a file. Each is checked with instances of all stages.
const MAX_PROFILES: usize = 100;

/// Maximum number of expectations in a file. The query of each is planned.
const MAX_EXPECTATIONS: usize = 1000;

/// Maximum number of axes of a matrix.
const MAX_AXES: usize = 20;

/// Maximum number of values or rows of an axis, and of combinations that are left out.
const MAX_VALUES: usize = 10_000;

/// Maximum number of settings that have the value of an axis.
const MAX_AXIS_SETTINGS: usize = 1000;

/// Maximum number of pairs of a setting and a value of all axes. Each pair is a copy of the value.
const MAX_SET_VALUES: usize = 100_000;

/// Maximum number of stages and instances that all profiles change. Each name is compared with those of all instances.
const MAX_CHANGED: usize = 1000;

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
    let expectations = root.get("expect").map(|entry| &entry.node);
    check_length(expectations, "the file has", ("expectations", MAX_EXPECTATIONS), &mut found);
    if let Some(matrix) = root.get("matrix") {
        check_matrix(matrix, &mut found);
    }
    let profiles = root.get("profile").map_or(&[][..], |entry| entry.node.entries());
    let set = profiles.iter().filter_map(|profile| profile.node.get("set")).flat_map(|set| set.node.entries());
    if let Some(first) = set.clone().nth(MAX_CHANGED) {
        let message = format!("the profiles change {} stages, wanted at most {MAX_CHANGED}", set.count());
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

/// Reports axes of a matrix, and parts of them, that are too many. Each setting of an axis has a copy of each value.
fn check_matrix(matrix: &TomlEntry, found: &mut Vec<Diagnostic>) {
    let mut copies = 0_usize;
    let (excluded, axes): (Vec<_>, Vec<_>) = matrix.node.entries().iter().partition(|entry| entry.key == EXCLUDE);
    if let Some(first) = axes.get(MAX_AXES) {
        let message = format!("the matrix has {} axes, wanted at most {MAX_AXES}", axes.len());
        found.push(Diagnostic::new(first.key_span, message).hint("list the combinations as rows of one axis"));
    }
    for axis in axes {
        let [values, settings] = ["values", "settings"].map(|key| axis.node.get(key));
        let (values, settings) = (values.map_or(&axis.node, |of| &of.node), settings.map(|of| &of.node));
        copies += values.items().len().saturating_mul(settings.map_or(1, |settings| settings.items().len()));
        let whose = format!("axis `{}` has", axis.key);
        check_length(Some(values), &whose, ("values", MAX_VALUES), found);
        check_length(settings, &whose, ("settings", MAX_AXIS_SETTINGS), found);
    }
    if copies > MAX_SET_VALUES {
        let message = format!("the axes have {copies} pairs of a setting and a value, wanted at most {MAX_SET_VALUES}");
        found.push(Diagnostic::new(matrix.key_span, message).hint("shorten an axis of the matrix, or its settings"));
    }
    let excluded = excluded.first().map(|entry| &entry.node);
    check_length(excluded, "the matrix leaves out", ("combinations", MAX_VALUES), found);
}

/// Reports a list of more than a number of items.
fn check_length(list: Option<&TomlNode>, whose: &str, (what, limit): (&str, usize), found: &mut Vec<Diagnostic>) {
    let items = list.map_or(&[][..], TomlNode::items);
    if let Some(first) = items.get(limit) {
        let message = format!("{whose} {} {what}, wanted at most {limit}", items.len());
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
