//! Overrides from the command line, `--set stage.fit.train.epochs=3`, applied to the tree of the file.

use toml::de::DeValue;

use super::diagnostic::Diagnostic;
use super::source_map::SourceSpan;
use super::toml_tree::{TomlEntry, TomlNode, TomlValue};

/// Prefix of an assignment in messages.
const FLAG: &str = "--set ";

/// Assignment as shown in messages.
pub(super) fn argument_text(assignment: &str) -> String {
    format!("{FLAG}{assignment}")
}

/// Applies an assignment to `root`. `index` is the index of its text in the source map.
pub(super) fn apply(root: &mut TomlNode, assignment: &str, index: usize, diagnostics: &mut Vec<Diagnostic>) {
    let at =
        |start: usize, end: usize| SourceSpan { source_index: index, start: FLAG.len() + start, end: FLAG.len() + end };
    let Some((path, text)) = assignment.split_once('=') else {
        let diagnostic =
            Diagnostic::new(at(0, assignment.len()), format!("`{assignment}` assigns nothing: wanted `PATH=VALUE`"));
        diagnostics.push(diagnostic.hint("write for example `--set stage.fit.train.epochs=3`"));
        return;
    };
    let value_at = at(path.len() + 1, assignment.len());
    let mut steps = Vec::new();
    let mut start = 0;
    for step in path.split('.') {
        let trimmed = step.trim();
        if trimmed.is_empty() {
            diagnostics
                .push(Diagnostic::new(at(start, start + step.len()), format!("`{path}` has an empty name in it")));
            return;
        }
        let lead = step.len() - step.trim_start().len();
        steps.push((trimmed, at(start + lead, start + lead + trimmed.len())));
        start += step.len() + 1;
    }
    if let Some(diagnostic) = unknown_stage_or_kind(root, &steps) {
        diagnostics.push(diagnostic);
        return;
    }
    let offset = path.len() + 1;
    let value = match DeValue::parse(text.trim_end()) {
        Ok(value) if !text.trim().is_empty() => {
            TomlNode::from_value(value_at, value.get_ref(), &|span| at(offset + span.start, offset + span.end))
        }
        // A value that is not TOML is plain text, since shells remove quotes.
        _ => TomlNode { span: value_at, value: TomlValue::Text(text.to_owned()) },
    };
    set_value(root, &steps, value);
}

/// Diagnostic of an assignment to a stage or kind that the file does not have: overrides do not add stages.
fn unknown_stage_or_kind(root: &TomlNode, steps: &[(&str, SourceSpan)]) -> Option<Diagnostic> {
    let [("stage", _), (stage, stage_at), rest @ ..] = steps else { return None };
    let stages = &root.get("stage")?.node;
    let Some(entry) = stages.get(stage) else {
        return Some(
            Diagnostic::new(*stage_at, format!("the file has no stage `{stage}`"))
                .with_valid_names(stage, keys(stages)),
        );
    };
    let (kind, kind_at) = rest.first()?;
    let kinds = keys(&entry.node);
    (!kinds.is_empty() && !kinds.contains(kind)).then(|| {
        let message = format!("stage `{stage}` has no kind `{kind}` in the file");
        let diagnostic = Diagnostic::new(*kind_at, message).with_valid_names(kind, kinds.iter().copied());
        match kinds.as_slice() {
            [only] => diagnostic.hint(format!("write `stage.{stage}.{only}.…`")),
            _ => diagnostic,
        }
    })
}

fn keys(node: &TomlNode) -> Vec<&str> {
    match &node.value {
        TomlValue::Table(entries) => entries.iter().map(|entry| entry.key.as_str()).collect(),
        _ => Vec::new(),
    }
}

/// Sets the value at the path `steps`, creating missing tables on the way.
fn set_value(node: &mut TomlNode, steps: &[(&str, SourceSpan)], value: TomlNode) {
    let Some(((step, span), rest)) = steps.split_first() else {
        *node = value;
        return;
    };
    if let TomlValue::Array(items) = &mut node.value
        && let Some(item) = step.parse::<usize>().ok().and_then(|i| items.get_mut(i))
    {
        set_value(item, rest, value);
        return;
    }
    if !matches!(node.value, TomlValue::Table(_)) {
        *node = TomlNode::empty(*span);
    }
    let TomlValue::Table(entries) = &mut node.value else { return };
    let i = entries.iter().position(|entry| entry.key == *step).unwrap_or_else(|| {
        entries.push(TomlEntry { key: (*step).to_owned(), key_span: *span, node: TomlNode::empty(*span) });
        entries.len() - 1
    });
    set_value(&mut entries[i].node, rest, value);
}
