//! TOML values that know where they stand.

use toml::de::{DeTable, DeValue};

use az::SaturatingAs;

use super::place::Place;

/// A value with its place.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

/// A value of TOML.
#[derive(Debug, Clone)]
pub(super) enum Value {
    Text(String),
    /// Whatever fits in no i128 is the nearest that does; both are refused.
    Integer(i128),
    Float(f64),
    Boolean(bool),
    Date(String),
    Array(Vec<Node>),
    /// In the order of the file.
    Table(Vec<Entry>),
}

/// A member of a table.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_place: Place,
    pub(super) node: Node,
}

impl Node {
    /// A tree from a parsed file.
    pub(super) fn from_table(place: Place, table: &DeTable<'_>, at: &impl Fn(std::ops::Range<usize>) -> Place) -> Self {
        let mut entries: Vec<Entry> = table
            .iter()
            .map(|(key, value)| Entry {
                key: key.get_ref().to_string(),
                key_place: at(key.span()),
                node: Self::from_value(at(value.span()), value.get_ref(), at),
            })
            .collect();
        entries.sort_by_key(|entry| entry.key_place);
        Self { place, value: Value::Table(entries) }
    }

    /// A tree from a parsed value; `at` turns its ranges into places.
    pub(super) fn from_value(place: Place, value: &DeValue<'_>, at: &impl Fn(std::ops::Range<usize>) -> Place) -> Self {
        let value = match value {
            DeValue::String(text) => Value::Text(text.to_string()),
            DeValue::Integer(number) => {
                Value::Integer(i128::from_str_radix(number.as_str(), number.radix()).unwrap_or(i128::MAX))
            }
            DeValue::Float(number) => Value::Float(number.as_str().parse().unwrap_or(f64::NAN)),
            DeValue::Boolean(boolean) => Value::Boolean(*boolean),
            DeValue::Datetime(date) => Value::Date(date.to_string()),
            DeValue::Array(items) => {
                Value::Array(items.iter().map(|item| Self::from_value(at(item.span()), item.get_ref(), at)).collect())
            }
            DeValue::Table(table) => return Self::from_table(place, table, at),
        };
        Self { place, value }
    }

    /// An empty table at `place`.
    pub(super) fn empty(place: Place) -> Self {
        Self { place, value: Value::Table(Vec::new()) }
    }

    /// The member `key` of a table.
    pub(super) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The member `key` of a table, to be changed.
    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Entry> {
        match &mut self.value {
            Value::Table(entries) => entries.iter_mut().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The members of a table; none of anything else.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Table(entries) => entries,
            _ => &[],
        }
    }

    /// The place of the value at a dotted path, or of the deepest thing on the way to it.
    pub(super) fn locate(&self, path: &str, whole: Place) -> Place {
        let (head, rest) = path.split_once('.').unwrap_or((path, ""));
        if head.is_empty() {
            return whole;
        }
        let child = match &self.value {
            Value::Array(items) => head.parse::<usize>().ok().and_then(|i| items.get(i)),
            _ => self.get(head).map(|entry| &entry.node),
        };
        match child {
            Some(child) if rest.is_empty() => child.place,
            Some(child) => child.locate(rest, child.place),
            None => whole,
        }
    }

    /// What people call it: `the string "three"`.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            Value::Text(text) if text.chars().count() <= 40 => format!("the string {text:?}"),
            Value::Text(_) => "a string".to_owned(),
            Value::Integer(i128::MAX) => "an integer of too many digits".to_owned(),
            Value::Integer(number) => format!("the integer {number}"),
            Value::Float(number) => format!("the number {number:?}"),
            Value::Boolean(boolean) => boolean.to_string(),
            Value::Date(date) => format!("the date {date}"),
            Value::Array(_) => "an array".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }

    /// The value without places, for serde.
    pub(super) fn to_toml(&self) -> toml::Value {
        match &self.value {
            Value::Text(text) | Value::Date(text) => toml::Value::String(text.clone()),
            Value::Integer(number) => toml::Value::Integer((*number).saturating_as::<i64>()),
            Value::Float(number) => toml::Value::Float(*number),
            Value::Boolean(boolean) => toml::Value::Boolean(*boolean),
            Value::Array(items) => toml::Value::Array(items.iter().map(Self::to_toml).collect()),
            Value::Table(entries) => {
                toml::Value::Table(entries.iter().map(|entry| (entry.key.clone(), entry.node.to_toml())).collect())
            }
        }
    }
}
