//! Check of the names that rows and profiles use: stages of the file, and instances of them.

use super::axes::Condition;
use super::combinations::Combinations;
use super::expand::Expansion;
use super::reference::AxisSelector;
use super::setting_tree::SettingTree;
use crate::diagnostic::Diagnostic;
use crate::overrides::means_instance;
use pairloom_stage::{INSTANCE_SIGN, coordinate_texts, stage_of_instance};

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
