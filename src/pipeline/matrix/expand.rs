//! Expansion of the stages of a file: a stage that depends on axes of the matrix becomes one instance for each
//! combination of their values. The names that rows and profiles use, of stages and of instances, are checked.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::axes::{AxisValue, Condition, Matrix, scalar};
use super::combinations::Combinations;
use super::profile::{Profile, SettingTree};
use super::reference::{AxisSelector, InstanceReference, ReferenceReader, SettingSchema, axis_names, reference_texts};
use crate::diagnostic::{Diagnostic, SourceSpan};
use crate::file_format::Alternative;
use crate::overrides::{SettingAssignment, means_instance};
use crate::toml_tree::{TomlEntry, TomlNode, TomlValue};
use pairloom_stage::{Coordinate, INSTANCE_SIGN, TableRef, coordinate_texts, instance_name, stage_of_instance};

/// Stage of the expanded file. A stage that does not depend on the matrix is its only instance.
#[derive(Debug)]
pub(crate) struct StageInstance {
    /// Name of the instance, with the tree of its settings.
    pub(crate) entry: TomlEntry,
    /// Name of the stage in the file.
    pub(crate) stage: String,
    /// Coordinates, in the order of the axes of the file; empty for a stage that is not repeated.
    pub(crate) coordinates: Vec<Coordinate>,
}

/// Expansion of the stages of a file.
#[derive(Clone, Copy)]
pub(crate) struct Expansion<'a> {
    /// Stages of the file.
    pub(crate) stages: &'a [TomlEntry],
    pub(crate) matrix: &'a Matrix,
    pub(crate) profile: &'a Profile,
    /// Kinds of stages.
    pub(crate) kinds: &'a [Alternative<'a>],
    /// `$defs` of the JSON Schema.
    pub(crate) definitions: &'a Json,
    /// Assignments of the command line to instances.
    pub(crate) assignments: &'a [SettingAssignment],
}

impl Expansion<'_> {
    /// Instances of all stages, in the order of the file, the last axis fastest. Mistakes go to `diagnostics`.
    pub(crate) fn expand(&self, combinations: &Combinations, diagnostics: &mut Vec<Diagnostic>) -> Vec<StageInstance> {
        let reader = self.reader();
        let axes = self.axes_of_stages(&reader, diagnostics);
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
                    nothing_left: Vec::new(),
                    wrong: Vec::new(),
                };
                let coordinates = self.coordinates(values);
                let mut node = self.settings(entry, &coordinates, values);
                diagnostics.extend(self.replaced_values(entry, &node, values));
                rewriter.rewrite_stage(&mut node);
                let entry = TomlEntry { key: instance_name(&entry.key, &coordinates), node, ..entry.clone() };
                diagnostics.extend(rewriter.wrong);
                if !rewriter.nothing_left.is_empty() && combinations.is_partial() {
                    left_out.insert(entry.key);
                    continue;
                }
                diagnostics.extend(rewriter.nothing_left);
                instances.push(StageInstance { entry, stage: self.stages[i].key.clone(), coordinates });
            }
        }
        self.without_consumers(instances, left_out)
    }

    /// Reports axes that change nothing, settings that two axes set, and rows that the command line replaces. They are the
    /// same for all combinations and profiles.
    pub(crate) fn check_axes(&self, diagnostics: &mut Vec<Diagnostic>) {
        self.check_axes_are_used(diagnostics);
        self.matrix.check_overlaps(diagnostics);
        self.warn_of_replaced_rows(diagnostics);
    }

    /// Schema of the settings of a kind of stage.
    pub(super) fn schema_of(&self, kind: &str) -> SettingSchema<'_> {
        let kind = self.kinds.iter().find(|known| known.name == kind);
        SettingSchema::new(kind.and_then(|kind| kind.content), self.definitions)
    }

    /// Texts of the references in the settings of a stage.
    fn references_of<'n>(&self, stage: &'n TomlNode) -> Vec<(&'n str, SourceSpan)> {
        let kinds = stage.entries().iter();
        kinds.flat_map(|kind| reference_texts(&kind.node, self.schema_of(&kind.key))).collect()
    }

    /// References of a stage: in its own settings, and in those that values of axes and the profile set.
    fn references(
        &self,
        entry: &TomlEntry,
        value_settings: &[(usize, &SettingTree)],
        reader: &ReferenceReader<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<InstanceReference> {
        let value_settings = value_settings.iter().map(|(_, tree)| *tree);
        let profile_settings = self.profile.set.iter().filter(|(name, _)| stage_of_instance(name) == entry.key);
        let kind = entry.node.entries().first().map_or("", |kind| kind.key.as_str());
        let trees = value_settings.chain(profile_settings.map(|(_, tree)| tree));
        let changed = trees.flat_map(|tree| reference_texts(&tree.node, self.schema_of(kind)));
        let mut references = Vec::new();
        for (text, span) in self.references_of(&entry.node).into_iter().chain(changed) {
            match reader.read(text, span) {
                Ok(reference) => references.extend(reference),
                Err(diagnostic) => diagnostics.push(*diagnostic),
            }
        }
        references
    }

    /// Reader of the references of the file.
    pub(super) fn reader(&self) -> ReferenceReader<'_> {
        ReferenceReader { stages: self.stages.iter().map(|stage| stage.key.as_str()).collect(), matrix: self.matrix }
    }

    /// Axes on which each stage depends: those that set something in it, and those of the stages that it reads, unless its
    /// reference names the value. Reports wrong references.
    pub(super) fn axes_of_stages(
        &self,
        reader: &ReferenceReader<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<BTreeSet<usize>> {
        // What values set in each stage, with their axes.
        let mut value_settings: BTreeMap<&str, Vec<(usize, &SettingTree)>> = BTreeMap::new();
        for (axis, value) in
            self.matrix.axes.iter().enumerate().flat_map(|(i, axis)| axis.values.iter().map(move |of| (i, of)))
        {
            value.set.iter().for_each(|(stage, tree)| value_settings.entry(stage).or_default().push((axis, tree)));
        }
        let stage_values = |stage: &TomlEntry| value_settings.get(stage.key.as_str()).map_or(&[][..], Vec::as_slice);
        let references: Vec<Vec<InstanceReference>> =
            self.stages.iter().map(|stage| self.references(stage, stage_values(stage), reader, diagnostics)).collect();
        let own = |stage: &TomlEntry| stage_values(stage).iter().map(|(axis, _)| *axis).collect();
        let mut axes: Vec<BTreeSet<usize>> = self.stages.iter().map(own).collect();
        let mut readers: Vec<Vec<(usize, &InstanceReference)>> = vec![Vec::new(); self.stages.len()];
        for (stage, references) in references.iter().enumerate() {
            for reference in references {
                readers[reference.producer].push((stage, reference));
            }
        }
        // Stages whose axes may be new to those that read them.
        let mut changed: BTreeSet<usize> = (0..self.stages.len()).collect();
        while let Some(producer) = changed.pop_first() {
            for (stage, reference) in &readers[producer] {
                let follows = |axis: &usize| reference.selector(*axis) == AxisSelector::Follow;
                let followed: Vec<usize> = axes[producer].iter().copied().filter(follows).collect();
                let before = axes[*stage].len();
                axes[*stage].extend(followed);
                if axes[*stage].len() > before {
                    changed.insert(*stage);
                }
            }
        }
        axes
    }

    /// Warns of assignments to all instances of a stage that replace what rows of an axis set: the rows may no longer
    /// differ in it, and keep their names.
    fn warn_of_replaced_rows(&self, diagnostics: &mut Vec<Diagnostic>) {
        for axis in self.matrix.axes.iter().filter(|axis| axis.settings.is_empty()) {
            for stage in self.stages {
                for (span, names) in self.assignments.iter().filter_map(|of| of.setting_of_all(stage)) {
                    let trees = axis.values.iter().filter_map(|value| value.set.get(&stage.key));
                    let replaced = trees.filter(|tree| sets_setting(&tree.node, &names)).count();
                    if replaced > 0 {
                        let message = format!(
                            "this replaces `{}.{}`, which {replaced} of the {} rows of axis `{}` set",
                            stage.key,
                            names.join("."),
                            axis.values.len(),
                            axis.name
                        );
                        let hint = format!("name rows: `stage.\"{}@{}=…\"`", stage.key, axis.name);
                        diagnostics.push(Diagnostic::warning(span, message).hint(hint));
                    }
                }
            }
        }
    }

    /// Reports axes that change nothing.
    fn check_axes_are_used(&self, diagnostics: &mut Vec<Diagnostic>) {
        for axis in self.matrix.axes.iter().filter(|axis| !axis.is_doubtful) {
            if axis.values.iter().all(|value| value.set.is_empty()) {
                let message = format!("axis `{}` changes no setting", axis.name);
                diagnostics.push(
                    Diagnostic::new(axis.span, message).hint("rows set settings below `set`: `set.fit.loss = \"max\"`"),
                );
            }
        }
    }

    /// Coordinates of an instance with these values.
    pub(super) fn coordinates(&self, values: &[Condition]) -> Vec<Coordinate> {
        let coordinate = |&(axis, value): &Condition| {
            let axis = &self.matrix.axes[axis];
            Coordinate { axis: axis.name.clone(), value: axis.values[value].value.clone() }
        };
        values.iter().map(coordinate).collect()
    }

    /// Settings of an instance: those of the file, then those of its values, of the profile, and of the command line.
    fn settings(&self, entry: &TomlEntry, coordinates: &[Coordinate], values: &[Condition]) -> TomlNode {
        let mut node = entry.node.clone();
        if let TomlValue::Table(kinds) = &mut node.value
            && let [settings] = kinds.as_mut_slice()
        {
            let schema = self.schema_of(&settings.key);
            let value_text = |&(axis, value): &Condition| {
                let value: &AxisValue = &self.matrix.axes[axis].values[value];
                value.set.get(&entry.key)
            };
            let profile_settings = self.profile.settings_of(&entry.key, coordinates);
            for tree in values.iter().filter_map(value_text).chain(profile_settings) {
                merge(&mut settings.node, &tree.node, schema);
            }
        }
        for assignment in self.assignments {
            assignment.apply_to_instance(&mut node, &entry.key, coordinates);
        }
        node
    }

    /// Instances that do not follow from those that are left out.
    fn without_consumers(
        &self,
        mut instances: Vec<StageInstance>,
        mut left_out: BTreeSet<String>,
    ) -> Vec<StageInstance> {
        let mut before = usize::MAX;
        while !left_out.is_empty() && before != instances.len() {
            before = instances.len();
            instances.retain(|instance| {
                let stage = |text: &str| TableRef::try_from(text.to_owned()).ok().map(|from| from.stage().to_owned());
                let mut references = self.references_of(&instance.entry.node).into_iter();
                let follows = references.any(|(text, _)| stage(text).is_some_and(|stage| left_out.contains(&stage)));
                if follows {
                    left_out.insert(instance.entry.key.clone());
                }
                !follows
            });
        }
        instances
    }

    /// Reports settings of an instance that no longer have the value of their axis, which names the instance. `node` is
    /// the tree of the instance.
    fn replaced_values(&self, stage: &TomlEntry, node: &TomlNode, values: &[Condition]) -> Vec<Diagnostic> {
        let mut replaced = Vec::new();
        for &(axis, value) in values {
            let axis = &self.matrix.axes[axis];
            for path in axis.settings.iter().filter(|path| path.stage == stage.key) {
                let Some(kind) = node.entries().first() else { continue };
                let mut found = &kind.node;
                let is_found = path.names.iter().all(|name| match found.get(name) {
                    Some(entry) => {
                        found = &entry.node;
                        true
                    }
                    None => false,
                });
                if is_found && scalar(found).as_ref() == Some(&axis.values[value].value) {
                    continue;
                }
                let setting = format!("{}.{}", path.stage, path.names.join("."));
                let message = format!("this replaces `{setting}`, which axis `{0}` of the matrix sets", axis.name);
                let hint = format!(
                    "choose values of the axis with `--only {0}=…`, or set others with `--set 'matrix.{0}.values=[…]'`",
                    axis.name
                );
                replaced.push(Diagnostic::new(found.span, message).hint(hint));
            }
        }
        replaced
    }
}

/// True if a tree of settings sets this setting, one below it, or the alternative that it belongs to.
fn sets_setting(tree: &TomlNode, names: &[&str]) -> bool {
    let [name, below @ ..] = names else { return true };
    match &tree.value {
        TomlValue::Table(_) => tree.get(name).is_some_and(|entry| sets_setting(&entry.node, below)),
        _ => true,
    }
}

/// Rewriter of the references of an instance to the names of the instances that they mean.
struct ReferenceRewriter<'a> {
    expansion: &'a Expansion<'a>,
    reader: &'a ReferenceReader<'a>,
    axes: &'a [BTreeSet<usize>],
    combinations: &'a Combinations,
    /// Axes and values of the instance.
    values: &'a [Condition],
    /// References to combinations that the matrix leaves out.
    nothing_left: Vec<Diagnostic>,
    /// References that mean several tables where one is wanted.
    wrong: Vec<Diagnostic>,
}

impl ReferenceRewriter<'_> {
    /// Rewrites the references in the settings of a stage.
    fn rewrite_stage(&mut self, stage: &mut TomlNode) {
        let TomlValue::Table(kinds) = &mut stage.value else { return };
        for kind in kinds {
            self.rewrite(&mut kind.node, self.expansion.schema_of(&kind.key));
        }
    }

    fn rewrite(&mut self, node: &mut TomlNode, schema: SettingSchema<'_>) {
        match &mut node.value {
            TomlValue::Table(entries) => {
                for entry in entries {
                    self.rewrite(&mut entry.node, schema.property(&entry.key));
                }
            }
            TomlValue::Array(items) => {
                let all = std::mem::take(items).into_iter();
                *items = all.flat_map(|item| self.rewritten_item(item, schema.items())).collect();
            }
            TomlValue::Text(text) if schema.is_table_reference() => {
                let span = node.span;
                // Wrong coordinates are reported already.
                let Ok(Some(reference)) = self.reader.read(text, span) else { return };
                let names = self.names(&reference);
                match names.as_slice() {
                    [name] if !reference.is_several() => *text = format!("{name}.{}", reference.table),
                    [] => self.nothing_left.push(self.left_out_combination(text, &reference, span)),
                    names => {
                        let message = format!("got `{text}`, which is a list of tables, expected one");
                        let hint = format!(
                            "where a list is expected, write `[\"{text}\"]`; otherwise name the values, as in `{}.{}`",
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
    fn rewritten_item(&mut self, mut item: TomlNode, schema: SettingSchema<'_>) -> Vec<TomlNode> {
        if let TomlValue::Text(text) = &item.value
            && schema.is_table_reference()
            && let Ok(Some(reference)) = self.reader.read(text, item.span)
            && reference.is_several()
        {
            let names = self.names(&reference);
            if names.is_empty() {
                self.nothing_left.push(self.left_out_combination(text, &reference, item.span));
            }
            let with = |name: String| TomlValue::Text(format!("{name}.{}", reference.table));
            return names.into_iter().map(|name| TomlNode { span: item.span, value: with(name) }).collect();
        }
        self.rewrite(&mut item, schema);
        vec![item]
    }

    /// Names of the instances that a reference means.
    fn names(&self, reference: &InstanceReference) -> Vec<String> {
        let own = |axis: usize| self.values.iter().find(|(of, _)| *of == axis).map(|(_, value)| *value);
        let is_meant = |values: &[Condition]| {
            values.iter().all(|&(axis, value)| match reference.selector(axis) {
                AxisSelector::Follow => own(axis) == Some(value),
                AxisSelector::Every => true,
                AxisSelector::Value(chosen) => chosen == value,
            })
        };
        let all = self.combinations.projected(&self.axes[reference.producer]);
        let stage = &self.expansion.stages[reference.producer].key;
        let meant = all.iter().filter(|values| is_meant(values));
        meant.map(|values| instance_name(stage, &self.expansion.coordinates(values))).collect()
    }

    /// Diagnostic of a reference to a combination that the matrix leaves out.
    fn left_out_combination(&self, text: &str, reference: &InstanceReference, span: SourceSpan) -> Diagnostic {
        let axes = &self.expansion.matrix.axes;
        let message = format!(
            "got `{text}`, but the matrix leaves out that combination of {}",
            axis_names(axes, self.axes[reference.producer].iter().copied())
        );
        Diagnostic::new(span, message).hint("leave out the combinations that need it too, in `exclude`")
    }
}

/// Sets the values of `new` in `base`, whose JSON Schema is `schema`. Tables are merged. A value with named alternatives
/// is merged if both choose the same one, and replaced otherwise.
fn merge(base: &mut TomlNode, new: &TomlNode, schema: SettingSchema<'_>) {
    let is_same_choice = || match (base.entries(), new.entries()) {
        ([base], [new]) => base.key == new.key,
        _ => false,
    };
    if schema.has_alternatives() && !is_same_choice() {
        *base = new.clone();
        return;
    }
    let (TomlValue::Table(entries), TomlValue::Table(added)) = (&mut base.value, &new.value) else {
        *base = new.clone();
        return;
    };
    for added in added {
        match entries.iter_mut().find(|entry| entry.key == added.key) {
            Some(entry) => merge(&mut entry.node, &added.node, schema.property(&added.key)),
            None => entries.push(added.clone()),
        }
    }
}

impl Expansion<'_> {
    /// Reports settings that values of an axis set in stages that the file does not have. A value sets something in the
    /// instances that have it, so it names no coordinates.
    pub(crate) fn check_stages_of_values(&self, diagnostics: &mut Vec<Diagnostic>) {
        for (stage, tree) in self.matrix.axes.iter().flat_map(|axis| &axis.values).flat_map(|value| &value.set) {
            diagnostics.extend(self.unknown_stage(stage, tree));
        }
    }

    /// Reports settings that the profile sets in stages that the file does not have.
    pub(crate) fn check_stages_of_profile(&self, diagnostics: &mut Vec<Diagnostic>) {
        for (name, tree) in &self.profile.set {
            diagnostics.extend(self.unknown_stage(stage_of_instance(name), tree));
        }
    }

    fn unknown_stage(&self, stage: &str, tree: &SettingTree) -> Option<Diagnostic> {
        if self.stages.iter().any(|known| known.key == stage) {
            return None;
        }
        let names: Vec<&str> = self.stages.iter().map(|stage| stage.key.as_str()).collect();
        let message = format!("the file has no stage `{stage}`");
        let diagnostic = Diagnostic::new(tree.span, message).with_valid_names(stage, names);
        Some(if stage == "stage" {
            diagnostic.hint("begin with the name of the stage, without the kind: `fit.seed`")
        } else {
            diagnostic
        })
    }

    /// Reports coordinates in the names of the profile that the matrix does not have, and names that no instance has.
    pub(crate) fn check_instances_of_profile(&self, combinations: &Combinations, diagnostics: &mut Vec<Diagnostic>) {
        let named: Vec<(&String, &SettingTree)> =
            self.profile.set.iter().filter(|(name, _)| name.contains(INSTANCE_SIGN)).collect();
        if named.is_empty() {
            return;
        }
        let reader = self.reader();
        // Wrong references are reported with the expansion.
        let axes = self.axes_of_stages(&reader, &mut Vec::new());
        for (name, tree) in named {
            let stage = match reader.read_instance(name, tree.span) {
                // Coordinates on an axis with mistakes are not read.
                Ok(Some(instance)) if instance.chosen.len() < coordinate_texts(name).count() => continue,
                Ok(Some(instance)) => instance.producer,
                // An unknown stage is reported with the others.
                Ok(None) => continue,
                Err(diagnostic) => {
                    diagnostics.push(*diagnostic);
                    continue;
                }
            };
            let is_meant =
                |values: &Vec<Condition>| means_instance(name, &self.stages[stage].key, &self.coordinates(values));
            if !combinations.is_empty() && !combinations.projected(&axes[stage]).iter().any(is_meant) {
                let message = format!("no instance of a stage matches `{name}`");
                let hint = format!("`pairloom plan -v` lists the instances of `{}`", stage_of_instance(name));
                diagnostics.push(Diagnostic::new(tree.span, message).hint(hint));
            }
        }
    }

    /// Conditions of the instances that the profile names, as far as they are right.
    pub(crate) fn instances_of_profile(&self) -> Vec<Vec<Condition>> {
        let reader = self.reader();
        let conditions = |(name, tree): (&String, &SettingTree)| -> Option<Vec<Condition>> {
            let instance = reader.read_instance(name, tree.span).ok()??;
            let value = |(axis, selector): (usize, AxisSelector)| match selector {
                AxisSelector::Value(value) => Some((axis, value)),
                AxisSelector::Follow | AxisSelector::Every => None,
            };
            Some(instance.chosen.into_iter().filter_map(value).collect())
        };
        self.profile.set.iter().filter(|(name, _)| name.contains(INSTANCE_SIGN)).filter_map(conditions).collect()
    }
}
