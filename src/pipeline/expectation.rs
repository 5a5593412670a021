//! Expectations: a value of the results, and bounds for it.

use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::Value;

use pairloom_stage::{Coordinate, INSTANCE_SIGN, has_coordinates, has_same_coordinates, stage_of_instance};

/// Prefix of the name of an axis, if the table has a column of that name. SQL has the same.
const AXIS_PREFIX: &str = "axis_";

/// A check of the results: a value of a table or of an SQL query, and bounds for it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Expectation")]
pub(super) struct ExpectationTable {
    /// Table of this pipeline that has the value, written `stage.table`.
    pub(super) table: Option<String>,
    /// Column of the value.
    pub(super) column: Option<String>,
    /// Values of columns of the row: `{ method = "nns" }`. Exactly one row of the table must have all of them. The axes of a
    /// matrix are columns of the stages that it repeats.
    #[serde(rename = "where")]
    pub(super) conditions: Option<BTreeMap<String, ConditionValue>>,
    /// SQL query with one row and one column, for what is no value of a table. Tables of this pipeline are called
    /// `stage.table`.
    pub(super) sql: Option<String>,
    /// Lower bound of the value, inclusive.
    pub(super) at_least: Option<f64>,
    /// Upper bound of the value, inclusive.
    pub(super) at_most: Option<f64>,
    /// Exact value.
    pub(super) equals: Option<f64>,
}

/// A check of the results: a value, and bounds for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// Place of the value.
    pub subject: ExpectedValue,
    /// Lower bound of the value, inclusive.
    pub at_least: Option<f64>,
    /// Upper bound of the value, inclusive.
    pub at_most: Option<f64>,
    /// Exact value.
    pub equals: Option<f64>,
    /// Line of the file where the expectation begins, from 1.
    pub line: usize,
}

/// Place of a value that is expected.
#[derive(Debug, Clone, PartialEq)]
pub enum ExpectedValue {
    /// Result of an SQL query.
    Query(String),
    /// Value in a table.
    Table(TableValue),
}

/// Value in a table: its column, and what tells its row.
#[derive(Debug, Clone, PartialEq)]
pub struct TableValue {
    /// Stage, with or without coordinates.
    pub stage: String,
    /// Name of the table.
    pub table: String,
    /// Column of the value.
    pub column: String,
    /// Columns and their values in the row, in the order of the file.
    pub conditions: Vec<(String, ConditionValue)>,
}

/// Value of a column in the row of an expectation.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum ConditionValue {
    /// `true` or `false`.
    Boolean(bool),
    /// An integer.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// A text.
    Text(String),
}

impl JsonSchema for ConditionValue {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ConditionValue".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        schemars::json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

impl ConditionValue {
    /// Returns true if an axis has this value.
    #[must_use]
    pub fn is_coordinate(&self, value: &Value) -> bool {
        match self {
            Self::Boolean(own) => value.as_bool() == Some(*own),
            Self::Integer(own) if value.is_i64() => value.as_i64() == Some(*own),
            // The same text in the file gives the same number.
            #[expect(clippy::cast_precision_loss, reason = "an axis of such numbers has them as f64")]
            Self::Integer(own) => value.as_f64() == Some(*own as f64),
            Self::Number(own) => value.as_f64() == Some(*own),
            Self::Text(own) => value.as_str() == Some(own),
        }
    }
}

/// The value in SQL.
impl fmt::Display for ConditionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => write!(f, "{value}"),
            Self::Integer(value) => write!(f, "{value}"),
            Self::Number(value) => write!(f, "{value:?}"),
            Self::Text(text) => write!(f, "'{}'", text.replace('\'', "''")),
        }
    }
}

impl Expectation {
    /// Bounds as text: `at least 300`.
    #[must_use]
    pub fn wanted(&self) -> String {
        let bounds = [("at least", self.at_least), ("at most", self.at_most), ("exactly", self.equals)];
        let texts = bounds.into_iter().filter_map(|(word, bound)| Some(format!("{word} {}", bound?)));
        texts.collect::<Vec<_>>().join(" and ")
    }

    /// Returns true if `value` satisfies all bounds. NaN satisfies none.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        // Exact equality with the number in the file; -0 equals 0.
        let equal = |wanted: f64| (value - wanted).abs() <= 0.0;
        !value.is_nan()
            && self.at_least.is_none_or(|bound| value >= bound)
            && self.at_most.is_none_or(|bound| value <= bound)
            && self.equals.is_none_or(equal)
    }

    /// Query of the value in SQL.
    #[must_use]
    pub fn sql(&self) -> String {
        match &self.subject {
            ExpectedValue::Query(sql) => sql.clone(),
            ExpectedValue::Table(value) => value.sql(),
        }
    }
}

impl TableValue {
    /// Places of the instances that the name of the stage means, among the names of all stages.
    pub fn instances<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Vec<usize> {
        let is_meant = |name: &str| {
            stage_of_instance(name) == stage_of_instance(&self.stage) && has_coordinates(name, &self.stage)
        };
        names.into_iter().enumerate().filter(|(_, name)| is_meant(name)).map(|(i, _)| i).collect()
    }

    /// True if the name of the stage is that of this instance alone, whose axes are no columns then.
    #[must_use]
    pub fn names_exactly(&self, instance: &str) -> bool {
        has_same_coordinates(instance, &self.stage)
    }

    /// Coordinate of an instance that the column `name` is, beside the columns for which `is_own` returns true.
    pub fn coordinate<'c>(
        coordinates: &'c [Coordinate],
        name: &str,
        is_own: impl Fn(&str) -> bool,
    ) -> Option<&'c Coordinate> {
        let plain = name.strip_prefix(AXIS_PREFIX).filter(|axis| is_own(axis)).unwrap_or(name);
        coordinates.iter().find(|coordinate| coordinate.axis == plain).filter(|_| !is_own(name))
    }

    /// The value as a query in SQL.
    fn sql(&self) -> String {
        let Self { stage, table, column, conditions } = self;
        let mut sql = format!("SELECT {} FROM {}.{}", quoted(column), quoted(stage), quoted(table));
        for (i, (column, value)) in conditions.iter().enumerate() {
            let word = if i == 0 { "WHERE" } else { "AND" };
            sql.push_str(&format!(" {word} {} = {value}", quoted(column)));
        }
        sql
    }
}

impl fmt::Display for TableValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.stage, self.table)
    }
}

/// A name in SQL, with quotes if it needs them.
fn quoted(name: &str) -> String {
    let is_plain = !name.contains(INSTANCE_SIGN)
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_of_a_table_is_a_query() {
        let text = |text: &str| ConditionValue::Text(text.to_owned());
        let mut value = TableValue {
            stage: "test".to_owned(),
            table: "summary".to_owned(),
            column: "rsum".to_owned(),
            conditions: vec![],
        };
        assert_eq!(value.sql(), "SELECT rsum FROM test.summary");
        value.stage = "test@seed=3".to_owned();
        value.conditions = vec![
            ("method".to_owned(), text("o'nns")),
            ("K".to_owned(), ConditionValue::Integer(3)),
            ("beta".to_owned(), ConditionValue::Number(0.5)),
        ];
        let wanted = "SELECT rsum FROM \"test@seed=3\".summary WHERE method = 'o''nns' AND \"K\" = 3 AND beta = 0.5";
        assert_eq!(value.sql(), wanted);
    }

    #[test]
    fn axes_are_columns_unless_the_table_has_them() {
        let coordinates = [Coordinate { axis: "seed".to_owned(), value: 3.into() }];
        let of =
            |name: &str, own: &[&str]| TableValue::coordinate(&coordinates, name, |name| own.contains(&name)).is_some();
        assert!(of("seed", &["rsum"]) && of("axis_seed", &["seed"]));
        assert!(!of("seed", &["seed"]) && !of("axis_seed", &["rsum"]) && !of("rsum", &["rsum"]));
        let is = |value: ConditionValue, of: Value| value.is_coordinate(&of);
        assert!(is(ConditionValue::Integer(3), 3.into()) && is(ConditionValue::Integer(1), 1.0.into()));
        assert!(is(ConditionValue::Number(0.05), 0.05.into()) && is(ConditionValue::Text("1.1".into()), "1.1".into()));
        assert!(!is(ConditionValue::Text("3".into()), 3.into()) && !is(ConditionValue::Integer(4), 3.into()));
    }
}
