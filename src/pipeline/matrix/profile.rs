//! Profiles of a pipeline file: named sets of settings, of which the command line chooses one.
//!
//! ```toml
//! [profile.small]
//! set.fit.epochs = 20
//! set."fit@row=2.12".memory_bank.neighbours = 100     # of instances, as on the command line
//! ```

use std::collections::BTreeMap;

use super::setting_tree::{SettingTree, read_set};
use crate::pipeline::diagnostic::Diagnostic;
use crate::pipeline::overrides::means_instance;
use crate::pipeline::source_map::SourceSpan;
use crate::pipeline::toml_tree::{TomlEntry, TomlValue};
use crate::stage::Coordinate;

/// Settings of a profile, by name of the stage or of instances of it. They replace those of the file and of its rows.
#[derive(Debug, Default)]
pub(in crate::pipeline) struct Profile {
    pub(super) set: BTreeMap<String, SettingTree>,
}

impl Profile {
    /// Settings for the instance of `stage` at these coordinates.
    pub(super) fn settings_of<'p>(
        &'p self,
        stage: &'p str,
        coordinates: &'p [Coordinate],
    ) -> impl Iterator<Item = &'p SettingTree> {
        self.set.iter().filter(move |(name, _)| means_instance(name, stage, coordinates)).map(|(_, tree)| tree)
    }

    /// Reads the entry `profile` of a file, and chooses the profile `name`; without a name, one that changes nothing.
    /// Mistakes of all profiles go to `diagnostics`.
    pub(in crate::pipeline) fn read(
        entry: Option<&TomlEntry>,
        name: Option<&str>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut profiles = BTreeMap::new();
        if let Some(entry) = entry.filter(|entry| !matches!(entry.node.value, TomlValue::Table(_))) {
            let message = format!("`profile` is {}, wanted tables `[profile.NAME]`", entry.node.describe());
            diagnostics.push(Diagnostic::new(entry.node.span, message));
        }
        for profile in entry.into_iter().flat_map(|entry| entry.node.entries()) {
            if !matches!(profile.node.value, TomlValue::Table(_)) {
                let message = format!("profile `{}` is {}, wanted a table", profile.key, profile.node.describe());
                let hint = format!("write `[profile.{}]`, and below it `set.fit.epochs = 20`", profile.key);
                diagnostics.push(Diagnostic::new(profile.node.span, message).hint(hint));
            }
            for stray in profile.node.entries().iter().filter(|entry| entry.key != "set") {
                let message = format!("profile `{}` has no `{}`", profile.key, stray.key);
                let hint = "settings are below `set`: `set.fit.epochs = 20`";
                diagnostics.push(Diagnostic::new(stray.key_span, message).hint(hint));
            }
            let set = profile.node.get("set").map(|set| read_set(&set.node, diagnostics)).unwrap_or_default();
            profiles.insert(profile.key.as_str(), Self { set });
        }
        let Some(name) = name else { return Self::default() };
        let names: Vec<&str> = profiles.keys().copied().collect();
        profiles.remove(name).unwrap_or_else(|| {
            let diagnostic = Diagnostic::new(SourceSpan::nowhere(), format!("the file has no profile `{name}`"));
            diagnostics.push(if names.is_empty() {
                diagnostic.hint("a profile is a table `[profile.NAME]` with settings below `set`")
            } else {
                diagnostic.with_valid_names(name, names)
            });
            Self::default()
        })
    }
}
