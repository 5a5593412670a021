//! Profiles of a pipeline file: named sets of settings, of which the command line chooses one.
//!
//! ```toml
//! [profile.small]
//! set.fit.epochs = 20
//! set."fit@row=2.12".memory_bank.neighbours = 100     # of instances, as on the command line
//! ```

use std::collections::{BTreeMap, BTreeSet};

use crate::diagnostic::{Diagnostic, SourceSpan};
use crate::overrides::means_instance;
use crate::toml_tree::{TomlEntry, TomlNode, TomlValue};
use pairloom_stage::{Coordinate, stage_of_instance};

/// Settings of a profile, by name of the stage or of instances of it. They replace those of the file and of its rows.
#[derive(Debug, Clone, Default)]
pub(crate) struct Profile {
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

    /// Spans of everything in the profile.
    pub(crate) fn spans(&self) -> BTreeSet<SourceSpan> {
        let mut spans = BTreeSet::new();
        for tree in self.set.values() {
            spans.insert(tree.span);
            add_spans(&tree.node, &mut spans);
        }
        spans
    }
}

fn add_spans(node: &TomlNode, spans: &mut BTreeSet<SourceSpan>) {
    spans.insert(node.span);
    match &node.value {
        TomlValue::Array(items) => items.iter().for_each(|item| add_spans(item, spans)),
        TomlValue::Table(entries) => {
            for entry in entries {
                spans.insert(entry.key_span);
                add_spans(&entry.node, spans);
            }
        }
        _ => {}
    }
}

/// Profiles of a file.
#[derive(Debug, Default)]
pub(crate) struct Profiles(BTreeMap<String, Profile>);

impl Profiles {
    /// Reads the entry `profile` of a file. Mistakes go to `diagnostics`, and what is wrong is left out.
    pub(crate) fn read(entry: Option<&TomlEntry>, diagnostics: &mut Vec<Diagnostic>) -> Self {
        let mut profiles = BTreeMap::new();
        if let Some(entry) = entry.filter(|entry| !matches!(entry.node.value, TomlValue::Table(_))) {
            let message = format!("`profile` is {}, expected tables `[profile.NAME]`", entry.node.describe());
            diagnostics.push(Diagnostic::new(entry.node.span, message));
        }
        for profile in entry.into_iter().flat_map(|entry| entry.node.entries()) {
            if !matches!(profile.node.value, TomlValue::Table(_)) {
                let message = format!("profile `{}` is {}, expected a table", profile.key, profile.node.describe());
                let hint = format!("write `[profile.{}]`, and below it `set.fit.epochs = 20`", profile.key);
                diagnostics.push(Diagnostic::new(profile.node.span, message).hint(hint));
            }
            for stray in profile.node.entries().iter().filter(|entry| entry.key != "set") {
                let message = format!("profile `{}` has no `{}`", profile.key, stray.key);
                let hint = "settings are below `set`: `set.fit.epochs = 20`";
                diagnostics.push(Diagnostic::new(stray.key_span, message).hint(hint));
            }
            let set = profile.node.get("set").map(|set| read_set(&set.node, diagnostics)).unwrap_or_default();
            profiles.insert(profile.key.clone(), Profile { set });
        }
        Self(profiles)
    }

    /// Profile `name`; without a name, one that changes nothing. A name that does not exist is reported.
    pub(crate) fn chosen(&self, name: Option<&str>, diagnostics: &mut Vec<Diagnostic>) -> Profile {
        let Some(name) = name else { return Profile::default() };
        self.0.get(name).cloned().unwrap_or_else(|| {
            let names: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let diagnostic = Diagnostic::new(SourceSpan::nowhere(), format!("the file has no profile `{name}`"));
            diagnostics.push(if names.is_empty() {
                diagnostic.hint("a profile is a table `[profile.NAME]` with settings below `set`")
            } else {
                diagnostic.with_valid_names(name, names)
            });
            Profile::default()
        })
    }

    /// Profiles other than `name`.
    pub(crate) fn others(&self, name: Option<&str>) -> impl Iterator<Item = &Profile> {
        self.0.iter().filter(move |(of, _)| Some(of.as_str()) != name).map(|(_, profile)| profile)
    }
}

/// Tree of the settings of a stage that a row or a profile changes.
#[derive(Debug, Clone)]
pub(crate) struct SettingTree {
    /// Span of the name of the stage.
    pub(super) span: SourceSpan,
    pub(super) node: TomlNode,
}

/// Reads `set`: a table of stages, with tables of settings.
pub(super) fn read_set(node: &TomlNode, diagnostics: &mut Vec<Diagnostic>) -> BTreeMap<String, SettingTree> {
    if !matches!(node.value, TomlValue::Table(_)) {
        let message = format!("`set` is {}, expected settings", node.describe());
        diagnostics.push(Diagnostic::new(node.span, message).hint("write for example `set.fit.loss = \"max\"`"));
    }
    let mut set = BTreeMap::new();
    for entry in node.entries() {
        let is_path = stage_of_instance(&entry.key).contains('.');
        if !matches!(entry.node.value, TomlValue::Table(_)) || is_path {
            let message = format!(
                "`set` has `{}`, which is {}, expected the name of a stage with its settings",
                entry.key,
                entry.node.describe()
            );
            let diagnostic = Diagnostic::new(entry.key_span, message);
            diagnostics.push(if is_path {
                diagnostic.hint(format!("leave out the quotes: `set.{} = …`", entry.key))
            } else {
                diagnostic.hint(format!("write `set.STAGE.{} = …`", entry.key))
            });
            continue;
        }
        set.insert(entry.key.clone(), SettingTree { span: entry.key_span, node: entry.node.clone() });
    }
    set
}
