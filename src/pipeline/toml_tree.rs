//! Tree of TOML values with their source spans.

use toml::de::{DeTable, DeValue};

use az::SaturatingAs;

use super::source_map::SourceSpan;

/// TOML value with its source span.
#[derive(Debug, Clone)]
pub(super) struct TomlNode {
    pub(super) span: SourceSpan,
    pub(super) value: TomlValue,
}

/// TOML value.
#[derive(Debug, Clone)]
pub(super) enum TomlValue {
    Text(String),
    /// Integers outside of i128 become `i128::MAX`; all outside of i64 are refused later.
    Integer(i128),
    Float(f64),
    Boolean(bool),
    Date(String),
    Array(Vec<TomlNode>),
    /// Entries in the order of the file.
    Table(Vec<TomlEntry>),
}

/// Entry of a table.
#[derive(Debug, Clone)]
pub(super) struct TomlEntry {
    pub(super) key: String,
    pub(super) key_span: SourceSpan,
    pub(super) node: TomlNode,
}

impl TomlNode {
    /// Builds the tree of a parsed table. `at` turns its ranges into spans.
    pub(super) fn from_table(
        span: SourceSpan,
        table: &DeTable<'_>,
        at: &impl Fn(std::ops::Range<usize>) -> SourceSpan,
    ) -> Self {
        let mut entries: Vec<TomlEntry> = table
            .iter()
            .map(|(key, value)| TomlEntry {
                key: key.get_ref().to_string(),
                key_span: at(key.span()),
                node: Self::from_value(at(value.span()), value.get_ref(), at),
            })
            .collect();
        entries.sort_by_key(|entry| entry.key_span);
        Self { span, value: TomlValue::Table(entries) }
    }

    /// Builds the tree of a parsed value. `at` turns its ranges into spans.
    pub(super) fn from_value(
        span: SourceSpan,
        value: &DeValue<'_>,
        at: &impl Fn(std::ops::Range<usize>) -> SourceSpan,
    ) -> Self {
        let value = match value {
            DeValue::String(text) => TomlValue::Text(text.to_string()),
            DeValue::Integer(number) => {
                TomlValue::Integer(i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX))
            }
            DeValue::Float(number) => TomlValue::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(boolean) => TomlValue::Boolean(*boolean),
            DeValue::Datetime(date) => TomlValue::Date(date.to_string()),
            DeValue::Array(items) => TomlValue::Array(
                items.iter().map(|item| Self::from_value(at(item.span()), item.get_ref(), at)).collect(),
            ),
            DeValue::Table(table) => return Self::from_table(span, table, at),
        };
        Self { span, value }
    }

    /// Empty table at `span`.
    pub(super) fn empty(span: SourceSpan) -> Self {
        Self { span, value: TomlValue::Table(Vec::new()) }
    }

    /// Entry `key` of a table.
    pub(super) fn get(&self, key: &str) -> Option<&TomlEntry> {
        match &self.value {
            TomlValue::Table(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// Mutable entry `key` of a table.
    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut TomlEntry> {
        match &mut self.value {
            TomlValue::Table(entries) => entries.iter_mut().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// Entries of a table; empty for any other value.
    pub(super) fn entries(&self) -> &[TomlEntry] {
        match &self.value {
            TomlValue::Table(entries) => entries,
            _ => &[],
        }
    }

    /// Items of an array; empty for any other value.
    pub(super) fn items(&self) -> &[Self] {
        match &self.value {
            TomlValue::Array(items) => items,
            _ => &[],
        }
    }

    /// Span of the value at a dotted path, or of its deepest ancestor that exists.
    pub(super) fn span_of(&self, path: &str, whole: SourceSpan) -> SourceSpan {
        let (head, rest) = path.split_once('.').unwrap_or((path, ""));
        if head.is_empty() {
            return whole;
        }
        let child = match &self.value {
            TomlValue::Array(items) => head.parse::<usize>().ok().and_then(|i| items.get(i)),
            _ => self.get(head).map(|entry| &entry.node),
        };
        match child {
            Some(child) if rest.is_empty() => child.span,
            Some(child) => child.span_of(rest, child.span),
            None => whole,
        }
    }

    /// Calls `visit` with every entry of the tree.
    pub(super) fn for_each_entry(&self, visit: &mut dyn FnMut(&TomlEntry)) {
        match &self.value {
            TomlValue::Array(items) => items.iter().for_each(|item| item.for_each_entry(visit)),
            TomlValue::Table(entries) => entries.iter().for_each(|entry| {
                visit(entry);
                entry.node.for_each_entry(visit);
            }),
            _ => {}
        }
    }

    /// Size of the tree in memory, without what allocators add.
    pub(super) fn memory_bytes(&self) -> usize {
        let entry_bytes = |entry: &TomlEntry| {
            size_of::<TomlEntry>() - size_of::<Self>() + entry.key.len() + entry.node.memory_bytes()
        };
        let below: usize = match &self.value {
            TomlValue::Text(text) | TomlValue::Date(text) => text.len(),
            TomlValue::Array(items) => items.iter().map(Self::memory_bytes).sum(),
            TomlValue::Table(entries) => entries.iter().map(entry_bytes).sum(),
            _ => 0,
        };
        size_of::<Self>() + below
    }

    /// Description in messages: `the string "three"`.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            TomlValue::Text(text) if text.chars().count() <= 40 => format!("the string {text:?}"),
            TomlValue::Text(_) => "a string".to_owned(),
            TomlValue::Integer(i128::MAX) => "an integer of too many digits".to_owned(),
            TomlValue::Integer(number) => format!("the integer {number}"),
            TomlValue::Float(number) => format!("the number {number:?}"),
            TomlValue::Boolean(boolean) => boolean.to_string(),
            TomlValue::Date(date) => format!("the date {date}"),
            TomlValue::Array(_) => "an array".to_owned(),
            TomlValue::Table(_) => "a table".to_owned(),
        }
    }

    /// Value without spans, for serde.
    pub(super) fn to_toml(&self) -> toml::Value {
        match &self.value {
            TomlValue::Text(text) | TomlValue::Date(text) => toml::Value::String(text.clone()),
            TomlValue::Integer(number) => toml::Value::Integer((*number).saturating_as::<i64>()),
            TomlValue::Float(number) => toml::Value::Float(*number),
            TomlValue::Boolean(boolean) => toml::Value::Boolean(*boolean),
            TomlValue::Array(items) => toml::Value::Array(items.iter().map(Self::to_toml).collect()),
            TomlValue::Table(entries) => {
                toml::Value::Table(entries.iter().map(|entry| (entry.key.clone(), entry.node.to_toml())).collect())
            }
        }
    }
}
