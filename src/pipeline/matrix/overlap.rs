//! Check that no two axes of the matrix set the same setting.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::axes::{Matrix, MatrixAxis};
use crate::diagnostic::Diagnostic;
use crate::source_map::SourceSpan;
use crate::toml_tree::{TomlNode, TomlValue};

/// Settings of a stage and their places: the name of the stage, then those down to the setting.
type SettingPlaces = BTreeMap<Vec<String>, SourceSpan>;

impl Matrix {
    /// Reports settings that two axes set. Only one of the two values would hold, while the name of an instance has both.
    pub(super) fn check_overlaps(&self, diagnostics: &mut Vec<Diagnostic>) {
        let places: Vec<SettingPlaces> = self.axes.iter().map(setting_places).collect();
        for (second, of_second) in places.iter().enumerate() {
            for (path, span) in of_second {
                let first = places[..second].iter().position(|of_first| overlaps(path, of_first));
                let Some(first) = first else { continue };
                let (first, second) = (&self.axes[first].name, &self.axes[second].name);
                let message = format!("axis `{second}` sets `{}`, as axis `{first}` does", path.join("."));
                diagnostics.push(Diagnostic::new(*span, message).hint("set it in one of the two axes"));
            }
        }
    }
}

/// True if a setting, one below it or one that it is below is among others.
fn overlaps(path: &[String], others: &SettingPlaces) -> bool {
    let is_below = || (1..=path.len()).any(|steps| others.contains_key(&path[..steps]));
    // Those below a setting follow it in the order of the names.
    let next = || others.range::<[String], _>((Bound::Included(path), Bound::Unbounded)).next();
    is_below() || next().is_some_and(|(other, _)| other.starts_with(path))
}

/// Settings that the values of an axis set, each with its first place.
fn setting_places(axis: &MatrixAxis) -> SettingPlaces {
    let mut places = SettingPlaces::new();
    for (stage, tree) in axis.values.iter().flat_map(|value| &value.set) {
        add_places(&tree.node, &mut vec![stage.clone()], &mut places);
    }
    places
}

fn add_places(node: &TomlNode, path: &mut Vec<String>, places: &mut SettingPlaces) {
    match &node.value {
        TomlValue::Table(entries) => {
            for entry in entries {
                path.push(entry.key.clone());
                add_places(&entry.node, path, places);
                path.pop();
            }
        }
        _ => drop(places.entry(path.clone()).or_insert(node.span)),
    }
}
