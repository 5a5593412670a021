//! Expansion of the stages of a file: a stage that depends on axes of the matrix becomes one instance for each
//! combination of their values.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use super::axes::{AxisValue, Matrix, MatrixAxis};
use super::combinations::Combinations;
use super::merge::merge;
use super::profile::Profile;
use super::reference::{Choice, InstanceReference, ReferenceReader, axis_names, texts};
use crate::pipeline::alternative::Alternative;
use crate::pipeline::diagnostic::Diagnostic;
use crate::pipeline::overrides::SettingAssignment;
use crate::pipeline::source_map::SourceSpan;
use crate::pipeline::toml_tree::{TomlEntry, TomlNode, TomlValue};
use crate::stage::{Coordinate, INSTANCE_SIGN, TableRef, instance_name, stage_of_instance};

/// Stage of the expanded file. A stage that does not depend on the matrix is its only instance.
#[derive(Debug)]
pub(in crate::pipeline) struct StageInstance {
    /// Name of the instance, with the tree of its settings.
    pub(in crate::pipeline) entry: TomlEntry,
    /// Name of the stage in the file.
    pub(in crate::pipeline) stage: String,
    /// Coordinates, in the order of the axes of the file; empty for a stage that is not repeated.
    pub(in crate::pipeline) coordinates: Vec<Coordinate>,
}

/// Expansion of the stages of a file.
pub(in crate::pipeline) struct Expansion<'a> {
    /// Stages of the file.
    pub(in crate::pipeline) stages: &'a [TomlEntry],
    pub(in crate::pipeline) matrix: &'a Matrix,
    pub(in crate::pipeline) profile: &'a Profile,
    /// Kinds of stages.
    pub(in crate::pipeline) kinds: &'a [Alternative<'a>],
    /// `$defs` of the JSON Schema.
    pub(in crate::pipeline) definitions: &'a Json,
    /// Assignments of the command line to instances.
    pub(in crate::pipeline) assignments: &'a [SettingAssignment],
}

impl Expansion<'_> {
    /// Instances of all stages, in the order of the file, the last axis fastest. Mistakes go to `diagnostics`.
    pub(in crate::pipeline) fn expand(
        &self,
        combinations: &Combinations,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<StageInstance> {
        let names: Vec<&str> = self.stages.iter().map(|stage| stage.key.as_str()).collect();
        self.check_stages_of_values(&names, diagnostics);
        let reader = ReferenceReader { stages: names, matrix: self.matrix };
        self.check_instances_of_profile(&reader, diagnostics);
        let references: Vec<Vec<InstanceReference>> =
            (0..self.stages.len()).map(|stage| self.references(stage, &reader, diagnostics)).collect();
        let axes = self.axes_of_stages(&references);
        self.check_axes_are_used(&axes, diagnostics);
        let mut instances = Vec::new();
        let mut left_out = BTreeSet::new();
        for (i, entry) in self.stages.iter().enumerate() {
            for values in combinations.projected(&axes[i]).iter() {
                let mut rewriter = ReferenceRewriter {
                    expansion: self,
                    reader: &reader,
                    axes: &axes,
                    combinations,
                    values,
                    wrong: Vec::new(),
                };
                let coordinates = self.coordinates(values);
                let mut node = self.settings(entry, &coordinates, values);
                rewriter.rewrite(&mut node);
                let entry = TomlEntry { key: instance_name(&entry.key, &coordinates), node, ..entry.clone() };
                if !rewriter.wrong.is_empty() && combinations.is_choice() {
                    left_out.insert(entry.key);
                    continue;
                }
                diagnostics.extend(rewriter.wrong);
                instances.push(StageInstance { entry, stage: self.stages[i].key.clone(), coordinates });
            }
        }
        without_consumers(instances, left_out)
    }

    /// Stages of the file as they stand, for a file whose matrix is wrong. Their references name no coordinates.
    pub(in crate::pipeline) fn without_matrix(&self) -> Vec<StageInstance> {
        let instance = |stage: &TomlEntry| {
            let mut entry = stage.clone();
            strip_coordinates(&mut entry.node);
            StageInstance { entry, stage: stage.key.clone(), coordinates: Vec::new() }
        };
        self.stages.iter().map(instance).collect()
    }

    /// Reports settings of stages that the file does not have.
    fn check_stages_of_values(&self, names: &[&str], diagnostics: &mut Vec<Diagnostic>) {
        let of_values = self.matrix.axes.iter().flat_map(|axis| &axis.values).flat_map(|value| &value.set);
        let named = of_values.chain(&self.profile.set).map(|(name, tree)| (stage_of_instance(name), tree));
        for (stage, tree) in named.filter(|(stage, _)| !names.contains(stage)) {
            let message = format!("the file has no stage `{stage}`");
            diagnostics.push(Diagnostic::new(tree.span, message).with_valid_names(stage, names.iter().copied()));
        }
    }

    /// Reports coordinates in the names of a profile that the matrix does not have.
    fn check_instances_of_profile(&self, reader: &ReferenceReader<'_>, diagnostics: &mut Vec<Diagnostic>) {
        for (name, tree) in self.profile.set.iter().filter(|(name, _)| name.contains(INSTANCE_SIGN)) {
            // The name of a table makes it a reference.
            if let Err(diagnostic) = reader.read(&format!("{name}.settings"), tree.span) {
                diagnostics.push(*diagnostic);
            }
        }
    }

    /// References of a stage: in its own settings, and in those that the matrix sets.
    fn references(
        &self,
        stage: usize,
        reader: &ReferenceReader<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<InstanceReference> {
        let entry = &self.stages[stage];
        let values = self.matrix.axes.iter().flat_map(|axis| &axis.values);
        let of_values = values.filter_map(|value| value.set.get(&entry.key));
        let of_profile = self.profile.set.iter().filter(|(name, _)| stage_of_instance(name) == entry.key);
        let trees = of_values.chain(of_profile.map(|(_, tree)| tree)).map(|tree| &tree.node);
        let mut references = Vec::new();
        for (text, span) in std::iter::once(&entry.node).chain(trees).flat_map(texts) {
            match reader.read(text, span) {
                Ok(reference) => references.extend(reference),
                Err(diagnostic) => diagnostics.push(*diagnostic),
            }
        }
        references
    }

    /// Axes on which each stage depends: those that set something in it, and those of the stages that it reads, unless its
    /// reference names the value.
    fn axes_of_stages(&self, references: &[Vec<InstanceReference>]) -> Vec<BTreeSet<usize>> {
        let sets = |axis: &MatrixAxis, stage: &str| axis.values.iter().any(|value| value.set.contains_key(stage));
        let own = |stage: &TomlEntry| {
            let axes = self.matrix.axes.iter().enumerate();
            axes.filter(|(_, axis)| sets(axis, &stage.key)).map(|(i, _)| i).collect()
        };
        let mut axes: Vec<BTreeSet<usize>> = self.stages.iter().map(own).collect();
        // A chain of references has at most as many steps as there are stages.
        for _ in 0..self.stages.len() {
            let before: usize = axes.iter().map(BTreeSet::len).sum();
            for (stage, references) in references.iter().enumerate() {
                for reference in references {
                    let followed: Vec<usize> = axes[reference.producer]
                        .iter()
                        .copied()
                        .filter(|axis| reference.choice(*axis) == Choice::Follow)
                        .collect();
                    axes[stage].extend(followed);
                }
            }
            if axes.iter().map(BTreeSet::len).sum::<usize>() == before {
                break;
            }
        }
        axes
    }

    /// Reports axes that change nothing.
    fn check_axes_are_used(&self, axes: &[BTreeSet<usize>], diagnostics: &mut Vec<Diagnostic>) {
        for (i, axis) in self.matrix.axes.iter().enumerate() {
            let is_wrong = axis.values.iter().any(|value| !value.set.is_empty());
            if !is_wrong && axes.iter().all(|of| !of.contains(&i)) {
                let message = format!("axis `{}` changes no setting", axis.name);
                diagnostics.push(
                    Diagnostic::new(axis.span, message).hint("rows set settings below `set`: `set.fit.loss = \"max\"`"),
                );
            }
        }
    }

    fn coordinates(&self, values: &[(usize, usize)]) -> Vec<Coordinate> {
        let coordinate = |&(axis, value): &(usize, usize)| {
            let axis = &self.matrix.axes[axis];
            Coordinate { axis: axis.name.clone(), value: axis.values[value].value.clone() }
        };
        values.iter().map(coordinate).collect()
    }

    /// Settings of an instance: those of the file, then those of its values, of the profile, and of the command line.
    fn settings(&self, entry: &TomlEntry, coordinates: &[Coordinate], values: &[(usize, usize)]) -> TomlNode {
        let mut node = entry.node.clone();
        if let TomlValue::Table(kinds) = &mut node.value
            && let [settings] = kinds.as_mut_slice()
        {
            let schema = self.kinds.iter().find(|kind| kind.name == settings.key).and_then(|kind| kind.content);
            let of_value = |&(axis, value): &(usize, usize)| {
                let value: &AxisValue = &self.matrix.axes[axis].values[value];
                value.set.get(&entry.key)
            };
            let of_profile = self.profile.settings_of(&entry.key, coordinates);
            for tree in values.iter().filter_map(of_value).chain(of_profile) {
                merge(&mut settings.node, &tree.node, schema, self.definitions);
            }
        }
        for assignment in self.assignments {
            assignment.apply_to_instance(&mut node, &entry.key, coordinates);
        }
        node
    }
}

/// Instances that do not follow from those that are left out.
fn without_consumers(mut instances: Vec<StageInstance>, mut left_out: BTreeSet<String>) -> Vec<StageInstance> {
    let mut before = usize::MAX;
    while !left_out.is_empty() && before != instances.len() {
        before = instances.len();
        instances.retain(|instance| {
            let stage = |text: &str| TableRef::try_from(text.to_owned()).ok().map(|from| from.stage().to_owned());
            let follows = texts(&instance.entry.node)
                .into_iter()
                .any(|(text, _)| stage(text).is_some_and(|stage| left_out.contains(&stage)));
            if follows {
                left_out.insert(instance.entry.key.clone());
            }
            !follows
        });
    }
    instances
}

/// Takes the coordinates off all references in a tree.
fn strip_coordinates(node: &mut TomlNode) {
    match &mut node.value {
        TomlValue::Table(entries) => entries.iter_mut().for_each(|entry| strip_coordinates(&mut entry.node)),
        TomlValue::Array(items) => items.iter_mut().for_each(strip_coordinates),
        TomlValue::Text(text) => {
            if let Ok(reference) = TableRef::try_from(text.clone())
                && reference.stage().contains(INSTANCE_SIGN)
            {
                *text = format!("{}.{}", stage_of_instance(reference.stage()), reference.table());
            }
        }
        _ => {}
    }
}

/// Rewriter of the references of an instance to the names of the instances that they mean.
struct ReferenceRewriter<'a> {
    expansion: &'a Expansion<'a>,
    reader: &'a ReferenceReader<'a>,
    axes: &'a [BTreeSet<usize>],
    combinations: &'a Combinations,
    /// Axes and values of the instance.
    values: &'a [(usize, usize)],
    /// References that mean nothing, or too much.
    wrong: Vec<Diagnostic>,
}

impl ReferenceRewriter<'_> {
    fn rewrite(&mut self, node: &mut TomlNode) {
        match &mut node.value {
            TomlValue::Table(entries) => {
                for entry in entries {
                    self.rewrite(&mut entry.node);
                }
            }
            TomlValue::Array(items) => {
                *items = std::mem::take(items).into_iter().flat_map(|item| self.rewritten_item(item)).collect();
            }
            TomlValue::Text(text) => {
                let span = node.span;
                // Wrong coordinates are reported already.
                let Ok(Some(reference)) = self.reader.read(text, span) else { return };
                let names = self.names(&reference);
                match names.as_slice() {
                    [name] if !reference.is_several() => *text = format!("{name}.{}", reference.table),
                    [] => self.wrong.push(self.nothing_left(text, &reference, span)),
                    names => {
                        let message = format!("got `{text}`, which is {} tables, wanted one", names.len());
                        let hint = format!(
                            "where a list is wanted, write `[\"{text}\"]`; otherwise name the values, as in `{}.{}`",
                            names[0], reference.table
                        );
                        self.wrong.push(Diagnostic::new(span, message).hint(hint));
                    }
                }
            }
            _ => {}
        }
    }

    /// Item of a list, or the items that a reference to several instances means.
    fn rewritten_item(&mut self, mut item: TomlNode) -> Vec<TomlNode> {
        if let TomlValue::Text(text) = &item.value
            && let Ok(Some(reference)) = self.reader.read(text, item.span)
            && reference.is_several()
        {
            let names = self.names(&reference);
            if names.is_empty() {
                self.wrong.push(self.nothing_left(text, &reference, item.span));
            }
            let with = |name: String| TomlValue::Text(format!("{name}.{}", reference.table));
            return names.into_iter().map(|name| TomlNode { span: item.span, value: with(name) }).collect();
        }
        self.rewrite(&mut item);
        vec![item]
    }

    /// Names of the instances that a reference means.
    fn names(&self, reference: &InstanceReference) -> Vec<String> {
        let own = |axis: usize| self.values.iter().find(|(of, _)| *of == axis).map(|(_, value)| *value);
        let is_meant = |values: &[(usize, usize)]| {
            values.iter().all(|&(axis, value)| match reference.choice(axis) {
                Choice::Follow => own(axis) == Some(value),
                Choice::Every => true,
                Choice::Value(chosen) => chosen == value,
            })
        };
        let all = self.combinations.projected(&self.axes[reference.producer]);
        let stage = &self.expansion.stages[reference.producer].key;
        let meant = all.iter().filter(|values| is_meant(values));
        meant.map(|values| instance_name(stage, &self.expansion.coordinates(values))).collect()
    }

    /// Diagnostic of a reference to a combination that the matrix leaves out.
    fn nothing_left(&self, text: &str, reference: &InstanceReference, span: SourceSpan) -> Diagnostic {
        let axes = &self.expansion.matrix.axes;
        let message = format!(
            "got `{text}`, but the matrix leaves out that combination of {}",
            axis_names(axes, self.axes[reference.producer].iter().copied())
        );
        Diagnostic::new(span, message).hint("leave out the combinations that need it too, in `exclude`")
    }
}
