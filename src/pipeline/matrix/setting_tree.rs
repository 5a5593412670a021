//! Settings of several stages: `set.fit.loss = "max"`.

use std::collections::BTreeMap;

use crate::diagnostic::Diagnostic;
use crate::source_map::SourceSpan;
use crate::toml_tree::{TomlNode, TomlValue};
use pairloom_stage::stage_of_instance;

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
        let message = format!("`set` is {}, wanted settings", node.describe());
        diagnostics.push(Diagnostic::new(node.span, message).hint("write for example `set.fit.loss = \"max\"`"));
    }
    let mut set = BTreeMap::new();
    for entry in node.entries() {
        let is_path = stage_of_instance(&entry.key).contains('.');
        if !matches!(entry.node.value, TomlValue::Table(_)) || is_path {
            let message = format!(
                "`set` has `{}`, which is {}, wanted the name of a stage with its settings",
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
