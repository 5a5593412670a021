//! References to instances of a stage: `fit.model`, `fit@row=1.1.model`, `test@*.summary`.

use super::axes::{AxisValue, Matrix, MatrixAxis};
use crate::pipeline::diagnostic::Diagnostic;
use crate::pipeline::source_map::SourceSpan;
use crate::pipeline::toml_tree::{TomlNode, TomlValue};
use crate::stage::{INSTANCE_SIGN, TableRef};

/// Sign that stands for every value.
const EVERY: &str = "*";

/// Values of an axis that a reference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Choice {
    /// Value of the stage that has the reference.
    Follow,
    /// Value that the reference names.
    Value(usize),
    /// All values.
    Every,
}

/// Reference in the settings of a stage to a table of a stage of the file.
#[derive(Debug, Clone)]
pub(super) struct InstanceReference {
    /// Index of the stage that writes the table.
    pub(super) producer: usize,
    pub(super) table: String,
    /// Axes that the reference names itself.
    pub(super) chosen: Vec<(usize, Choice)>,
    /// True for `@*`: every value of every axis that is not named.
    pub(super) is_every: bool,
}

impl InstanceReference {
    /// Choice on an axis.
    pub(super) fn choice(&self, axis: usize) -> Choice {
        let named = self.chosen.iter().find(|(of, _)| *of == axis).map(|(_, choice)| *choice);
        named.unwrap_or(if self.is_every { Choice::Every } else { Choice::Follow })
    }

    /// True if the reference can mean several instances.
    pub(super) fn is_several(&self) -> bool {
        self.is_every || self.chosen.iter().any(|(_, choice)| *choice == Choice::Every)
    }
}

/// Reader of references.
pub(super) struct ReferenceReader<'a> {
    /// Names of the stages of the file.
    pub(super) stages: Vec<&'a str>,
    pub(super) matrix: &'a Matrix,
}

impl ReferenceReader<'_> {
    /// Reads a text as a reference to a stage of the file; `None` for any other text.
    ///
    /// # Errors
    /// The coordinates are wrong.
    pub(super) fn read(&self, text: &str, span: SourceSpan) -> Result<Option<InstanceReference>, Box<Diagnostic>> {
        let Ok(reference) = TableRef::try_from(text.to_owned()) else { return Ok(None) };
        let (stage, selector) = match reference.stage().split_once(INSTANCE_SIGN) {
            Some((stage, selector)) => (stage, Some(selector)),
            None => (reference.stage(), None),
        };
        let Some(producer) = self.stages.iter().position(|name| *name == stage) else { return Ok(None) };
        let table = reference.table().to_owned();
        let mut read = InstanceReference { producer, table, chosen: Vec::new(), is_every: false };
        for item in selector.into_iter().flat_map(|selector| selector.split(',')) {
            if item == EVERY {
                read.is_every = true;
                continue;
            }
            read.chosen.push(self.choice(item, text, span)?);
        }
        Ok(Some(read))
    }

    /// Reads `axis=value` or `axis=*`.
    fn choice(&self, item: &str, text: &str, span: SourceSpan) -> Result<(usize, Choice), Box<Diagnostic>> {
        let axes = || self.matrix.axes.iter().map(|axis| axis.name.as_str());
        let Some((name, value)) = item.split_once('=') else {
            let message =
                format!("got `{text}`, wanted `axis=value` after `{INSTANCE_SIGN}`, or `*` for every instance");
            return Err(Box::new(Diagnostic::new(span, message).with_valid_names(item, axes())));
        };
        let Some(axis) = self.matrix.axes.iter().position(|axis| axis.name == name) else {
            let message = format!("got `{text}`, but the matrix has no axis `{name}`");
            return Err(Box::new(Diagnostic::new(span, message).with_valid_names(name, axes())));
        };
        if value == EVERY {
            return Ok((axis, Choice::Every));
        }
        let texts: Vec<String> = self.matrix.axes[axis].values.iter().map(AxisValue::text).collect();
        match texts.iter().position(|of| of == value) {
            Some(value) => Ok((axis, Choice::Value(value))),
            None => {
                let message = format!("got `{text}`, but axis `{name}` has no value `{value}`");
                let names = texts.iter().map(String::as_str);
                Err(Box::new(Diagnostic::new(span, message).with_valid_names(value, names)))
            }
        }
    }
}

/// All texts in a tree, with their spans.
pub(super) fn texts(node: &TomlNode) -> Vec<(&str, SourceSpan)> {
    match &node.value {
        TomlValue::Text(text) => vec![(text.as_str(), node.span)],
        TomlValue::Array(items) => items.iter().flat_map(texts).collect(),
        TomlValue::Table(entries) => entries.iter().flat_map(|entry| texts(&entry.node)).collect(),
        _ => Vec::new(),
    }
}

/// Axes by index.
pub(super) fn axis_names(axes: &[MatrixAxis], of: impl IntoIterator<Item = usize>) -> String {
    of.into_iter().map(|axis| format!("`{}`", axes[axis].name)).collect::<Vec<_>>().join(", ")
}
