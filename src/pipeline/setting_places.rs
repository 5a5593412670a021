//! Search for a setting by its name in nested settings, for hints: `margin` is `loss.max.margin`.

use serde_json::Value as Json;

use super::alternative::Alternative;
use super::file_format::resolve;
use super::toml_tree::{TomlNode, TomlValue};
use pairloom_base::suggest::closest_name;

/// Depth of the search.
const MAX_DEPTH: usize = 5;

/// Number of places that are found.
const MAX_PLACES: usize = 4;

/// Number of nested settings among which near names are searched.
const MAX_SETTINGS: usize = 1000;

/// Paths of the nested settings with this name below `schema`, whose own properties have another name.
pub(super) fn places(definitions: &Json, schema: &Json, name: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for (path, _) in nested(definitions, schema).into_iter().filter(|(path, last)| last == name && path != last) {
        found.push(path);
    }
    found.truncate(MAX_PLACES);
    found
}

/// Paths of the nested settings below `schema` whose name is the closest to `name`.
pub(super) fn near_places(definitions: &Json, schema: &Json, name: &str) -> Vec<String> {
    let all = nested(definitions, schema);
    let Some(near) = closest_name(name, all.iter().map(|(_, last)| last.as_str())) else { return Vec::new() };
    let same = all.iter().filter(|(_, last)| last == near).map(|(path, _)| path);
    // A setting of the stage itself is meant before those inside of others.
    match same.clone().find(|path| *path == near) {
        Some(own) => vec![own.clone()],
        None => same.take(MAX_PLACES).cloned().collect(),
    }
}

/// Paths and names of all settings below `schema`.
fn nested(definitions: &Json, schema: &Json) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(definitions, schema, &mut Vec::new(), &mut found);
    found
}

fn collect(definitions: &Json, schema: &Json, path: &mut Vec<String>, found: &mut Vec<(String, String)>) {
    if path.len() > MAX_DEPTH || found.len() > MAX_SETTINGS {
        return;
    }
    let schema = resolve(definitions, schema);
    for (key, content) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
        path.push(key.clone());
        found.push((path.join("."), key.clone()));
        collect(definitions, content, path, found);
        path.pop();
    }
    for alternatives in ["oneOf", "anyOf"] {
        for alternative in schema.get(alternatives).and_then(Json::as_array).into_iter().flatten() {
            collect(definitions, alternative, path, found);
        }
    }
}

/// Full paths of settings, for arguments `--set` that leave out parts of one.
pub(super) struct SettingPaths<'s> {
    pub(super) definitions: &'s Json,
    /// Schema of a stage: one alternative for each kind.
    pub(super) stage: &'s Json,
}

impl SettingPaths<'_> {
    /// Hint with the full path of the setting that `words` means: `fit.epochs` is `stage.fit.train.epochs`. `stages` are
    /// the stages of the file.
    pub(super) fn hint(&self, stages: &TomlNode, words: &[&str]) -> Option<String> {
        let kinds = Alternative::all(self.stage);
        let words = if words.first() == Some(&"stage") { &words[1..] } else { words };
        let all = stages.entries().iter().filter_map(|stage| {
            let kind = stage.node.entries().first()?;
            let known = kinds.iter().find(|known| known.name == kind.key)?;
            Some((stage.key.as_str(), known.name, known.content?))
        });
        let all: Vec<(&str, &str, &Json)> = all.collect();
        let is_of = |stage: &(&str, &str, &Json), word: &str| stage.0 == word || stage.1 == word;
        let (mut chosen, mut rest) = (all, words);
        while let Some((first, after)) = rest.split_first()
            && !after.is_empty()
            && chosen.iter().any(|stage| is_of(stage, first))
        {
            chosen.retain(|stage| is_of(stage, first));
            rest = after;
        }
        let name = rest.last()?;
        let of_stage = |(stage, kind, _): &(&str, &str, &Json), found: Vec<String>| -> Vec<String> {
            found.into_iter().map(|path| format!("`stage.{stage}.{kind}.{path}`")).collect()
        };
        let exact = chosen.iter().flat_map(|stage| {
            let whole = rest.join(".");
            let mut found: Vec<String> = nested(self.definitions, stage.2)
                .into_iter()
                .filter(|(path, last)| *path == whole || last == name)
                .map(|(path, _)| path)
                .collect();
            // The whole path is meant if it exists.
            if found.contains(&whole) {
                found.retain(|path| *path == whole);
            }
            of_stage(stage, found)
        });
        let mut found: Vec<String> = exact.collect();
        if found.is_empty() {
            let near = |stage: &(&str, &str, &Json)| near_places(self.definitions, stage.2, name);
            found = chosen.iter().flat_map(|stage| of_stage(stage, near(stage))).collect();
        }
        found.truncate(MAX_PLACES);
        match found.as_slice() {
            [] => None,
            [only] => Some(format!("did you mean {only}?")),
            several => Some(format!("did you mean one of {}?", several.join(", "))),
        }
    }
}

/// Names on the way to the first value below a setting.
pub(super) fn first_path<'n>(key: &'n str, node: &'n TomlNode) -> Vec<&'n str> {
    let mut path = vec![key];
    let mut node = node;
    while let TomlValue::Table(entries) = &node.value
        && let Some(entry) = entries.first()
    {
        path.push(&entry.key);
        node = &entry.node;
    }
    path
}
