//! References to instances of a stage: `fit.model`, `fit@row=1.1.model`, `test@*.summary`, found along the JSON Schema of
//! its settings.

use serde_json::Value as Json;

use super::axes::{Matrix, MatrixAxis};
use crate::diagnostic::{Diagnostic, SourceSpan};
use crate::file_format::{Alternative, resolve};
use crate::toml_tree::{TomlNode, TomlValue};
use pairloom_stage::{INSTANCE_SIGN, TableRef};

/// Sign that stands for every value.
const EVERY: &str = "*";

/// Values of an axis that a reference means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AxisSelector {
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
    pub(super) chosen: Vec<(usize, AxisSelector)>,
    /// True for `@*`: every value of every axis that is not named.
    pub(super) is_every: bool,
}

impl InstanceReference {
    /// Values of an axis that the reference means.
    pub(super) fn selector(&self, axis: usize) -> AxisSelector {
        let named = self.chosen.iter().find(|(of, _)| *of == axis).map(|(_, selector)| *selector);
        named.unwrap_or(if self.is_every { AxisSelector::Every } else { AxisSelector::Follow })
    }

    /// True if the reference can mean several instances.
    pub(super) fn is_several(&self) -> bool {
        self.is_every || self.chosen.iter().any(|(_, selector)| *selector == AxisSelector::Every)
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
        self.read_parts(reference.stage(), reference.table(), text, span)
    }

    /// Reads the name of an instance, `fit@row=1.1`; `None` for one of no stage of the file.
    ///
    /// # Errors
    /// The coordinates are wrong.
    pub(super) fn read_instance(
        &self,
        name: &str,
        span: SourceSpan,
    ) -> Result<Option<InstanceReference>, Box<Diagnostic>> {
        self.read_parts(name, "", name, span)
    }

    fn read_parts(
        &self,
        instance: &str,
        table: &str,
        text: &str,
        span: SourceSpan,
    ) -> Result<Option<InstanceReference>, Box<Diagnostic>> {
        let (stage, selector) = match instance.split_once(INSTANCE_SIGN) {
            Some((stage, selector)) => (stage, Some(selector)),
            None => (instance, None),
        };
        let Some(producer) = self.stages.iter().position(|name| *name == stage) else { return Ok(None) };
        let mut read = InstanceReference { producer, table: table.to_owned(), chosen: Vec::new(), is_every: false };
        let twice = |what: &str| {
            let diagnostic = Diagnostic::new(span, format!("got `{text}`, which has {what} twice"));
            Box::new(diagnostic.hint("leave out one of the two"))
        };
        for item in selector.into_iter().flat_map(|selector| selector.split(',')) {
            if item == EVERY {
                if std::mem::replace(&mut read.is_every, true) {
                    return Err(twice(&format!("`{EVERY}`")));
                }
            } else if let Some((axis, chosen)) = self.read_item(item, text, span)? {
                if read.chosen.iter().any(|(of, _)| *of == axis) {
                    return Err(twice(&format!("axis `{}`", self.matrix.axes[axis].name)));
                }
                read.chosen.push((axis, chosen));
            }
        }
        Ok(Some(read))
    }

    /// Reads `axis=value` or `axis=*`; `None` for an axis, or one of its values, whose mistakes are reported.
    fn read_item(
        &self,
        item: &str,
        text: &str,
        span: SourceSpan,
    ) -> Result<Option<(usize, AxisSelector)>, Box<Diagnostic>> {
        let Some((name, value)) = item.split_once('=') else {
            let message =
                format!("got `{text}`, expected `axis=value` after `{INSTANCE_SIGN}`, or `*` for every instance");
            return Err(Box::new(Diagnostic::new(span, message).with_valid_names(item, self.matrix.axis_names())));
        };
        let unknown = || Diagnostic::new(span, format!("got `{text}`, but the matrix has no axis `{name}`"));
        let Some(axis) = self.matrix.find_axis(name, unknown)? else { return Ok(None) };
        if value == EVERY {
            return Ok(Some((axis, AxisSelector::Every)));
        }
        let value = self.matrix.axes[axis].find_value(value, || {
            Diagnostic::new(span, format!("got `{text}`, but axis `{name}` has no value `{value}`"))
        })?;
        Ok(value.map(|value| (axis, AxisSelector::Value(value))))
    }
}

/// Texts of all references in a tree of settings, with their spans.
pub(super) fn reference_texts<'n>(node: &'n TomlNode, schema: SettingSchema<'_>) -> Vec<(&'n str, SourceSpan)> {
    match &node.value {
        TomlValue::Text(text) if schema.is_table_reference() => vec![(text.as_str(), node.span)],
        TomlValue::Array(items) => items.iter().flat_map(|item| reference_texts(item, schema.items())).collect(),
        TomlValue::Table(entries) => {
            entries.iter().flat_map(|entry| reference_texts(&entry.node, schema.property(&entry.key))).collect()
        }
        _ => Vec::new(),
    }
}

/// Names of axes, for messages.
pub(super) fn axis_names(axes: &[MatrixAxis], of: impl IntoIterator<Item = usize>) -> String {
    of.into_iter().map(|axis| format!("`{}`", axes[axis].name)).collect::<Vec<_>>().join(", ")
}

/// JSON Schema of a setting; unknown below a setting that does not exist.
#[derive(Debug, Clone, Copy)]
pub(super) struct SettingSchema<'s> {
    schema: Option<&'s Json>,
    /// `$defs` of the schema of the file.
    definitions: &'s Json,
}

impl<'s> SettingSchema<'s> {
    /// Schema `schema`, or what it refers to. An optional value has the schema of the value.
    pub(super) fn new(schema: Option<&'s Json>, definitions: &'s Json) -> Self {
        let plain = |schema: &'s Json| {
            let schema = resolve(definitions, schema);
            let options = schema.get("anyOf").and_then(Json::as_array);
            let option =
                options.and_then(|options| options.iter().find(|of| of.get("type") != Some(&Json::from("null"))));
            option.map_or(schema, |option| resolve(definitions, option))
        };
        Self { schema: schema.map(plain), definitions }
    }

    /// Schema of the entry `key` of a table, or of the alternative `key` of a choice.
    pub(super) fn property(self, key: &str) -> Self {
        let property = self.schema.and_then(|schema| {
            if self.has_alternatives() {
                return Alternative::all(schema).into_iter().find(|of| of.name == key)?.content;
            }
            let properties = schema.get("properties");
            properties.and_then(|properties| properties.get(key)).or_else(|| schema.get("additionalProperties"))
        });
        Self::new(property, self.definitions)
    }

    /// Schema of the items of a list.
    pub(super) fn items(self) -> Self {
        Self::new(self.schema.and_then(|schema| schema.get("items")), self.definitions)
    }

    /// True for a choice between named alternatives.
    pub(super) fn has_alternatives(self) -> bool {
        self.schema.is_some_and(|schema| schema.get("oneOf").is_some())
    }

    /// True for a reference to a table of a stage.
    pub(super) fn is_table_reference(self) -> bool {
        self.schema.zip(self.definitions.get("TableRef")).is_some_and(|(schema, of)| std::ptr::eq(schema, of))
    }
}
