//! `--set stage.fit.train.epochs=3`: values of the command line put into the tree of the file.

use toml::de::DeValue;

use super::fault::Fault;
use super::place::Place;
use super::tree::{Entry, Node, Value};

/// What stands before the assignment in messages.
const FLAG: &str = "--set ";

/// An assignment as messages show it.
pub(super) fn shown(assignment: &str) -> String {
    format!("{FLAG}{assignment}")
}

/// Puts an assignment into `root`; `index` is that of its text.
pub(super) fn apply(root: &mut Node, assignment: &str, index: usize, faults: &mut Vec<Fault>) {
    let at = |start: usize, end: usize| Place { text: index, start: FLAG.len() + start, end: FLAG.len() + end };
    let Some((path, text)) = assignment.split_once('=') else {
        let fault = Fault::new(at(0, assignment.len()), format!("`{assignment}` assigns nothing: wanted `PATH=VALUE`"));
        faults.push(fault.hint("write for example `--set stage.fit.train.epochs=3`"));
        return;
    };
    let value_at = at(path.len() + 1, assignment.len());
    let mut steps = Vec::new();
    let mut start = 0;
    for step in path.split('.') {
        let trimmed = step.trim();
        if trimmed.is_empty() {
            faults.push(Fault::new(at(start, start + step.len()), format!("`{path}` has an empty name in it")));
            return;
        }
        let lead = step.len() - step.trim_start().len();
        steps.push((trimmed, at(start + lead, start + lead + trimmed.len())));
        start += step.len() + 1;
    }
    if let Some(fault) = unknown(root, &steps) {
        faults.push(fault);
        return;
    }
    let offset = path.len() + 1;
    let value = match DeValue::parse(text.trim_end()) {
        Ok(value) if !text.trim().is_empty() => {
            Node::from_value(value_at, value.get_ref(), &|span| at(offset + span.start, offset + span.end))
        }
        // What is no TOML is plain text: shells eat quotes.
        _ => Node { place: value_at, value: Value::Text(text.to_owned()) },
    };
    put(root, &steps, value);
}

/// A stage or kind that the file does not have: an override changes a pipeline, it does not add stages.
fn unknown(root: &Node, steps: &[(&str, Place)]) -> Option<Fault> {
    let [("stage", _), (stage, stage_at), rest @ ..] = steps else { return None };
    let stages = &root.get("stage")?.node;
    let Some(entry) = stages.get(stage) else {
        return Some(Fault::new(*stage_at, format!("the file has no stage `{stage}`")).valid(stage, keys(stages)));
    };
    let (kind, kind_at) = rest.first()?;
    let kinds = keys(&entry.node);
    (!kinds.is_empty() && !kinds.contains(kind)).then(|| {
        let message = format!("stage `{stage}` has no kind `{kind}` in the file");
        let fault = Fault::new(*kind_at, message).valid(kind, kinds.iter().copied());
        match kinds.as_slice() {
            [only] => fault.hint(format!("write `stage.{stage}.{only}.…`")),
            _ => fault,
        }
    })
}

fn keys(node: &Node) -> Vec<&str> {
    match &node.value {
        Value::Table(entries) => entries.iter().map(|entry| entry.key.as_str()).collect(),
        _ => Vec::new(),
    }
}

/// Descends along `steps`, making tables where there are none, and puts `value` at the end.
fn put(node: &mut Node, steps: &[(&str, Place)], value: Node) {
    let Some(((step, place), rest)) = steps.split_first() else {
        *node = value;
        return;
    };
    if let Value::Array(items) = &mut node.value
        && let Some(item) = step.parse::<usize>().ok().and_then(|i| items.get_mut(i))
    {
        put(item, rest, value);
        return;
    }
    if !matches!(node.value, Value::Table(_)) {
        *node = Node::empty(*place);
    }
    let Value::Table(entries) = &mut node.value else { return };
    let i = entries.iter().position(|entry| entry.key == *step).unwrap_or_else(|| {
        entries.push(Entry { key: (*step).to_owned(), key_place: *place, node: Node::empty(*place) });
        entries.len() - 1
    });
    put(&mut entries[i].node, rest, value);
}
