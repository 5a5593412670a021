//! Expectations, the `[[expect]]` tables of a file: a value of the results, and bounds for it. Their checks.

use std::collections::BTreeMap;
use std::fmt;

use arrow::datatypes::{DataType, SchemaRef};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;
use serde_json::{Value, Value as Json};

use super::diagnostic::{Diagnostic, SourceSpan};
use super::file_format::resolve;
use super::schema_check::{SchemaChecker, ValueLabel};
use super::toml_tree::{TomlEntry, TomlNode, TomlValue};
use pairloom_base::suggest::quoted_list;
use pairloom_stage::plan::PlanNode;
use pairloom_stage::{
    Coordinate, INSTANCE_SIGN, OutputKind, Stage, has_coordinates, has_same_coordinates, stage_of_instance, value_text,
};

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

/// An expectation that is not checked, since it is about other settings than those of this run.
#[derive(Debug, Clone, PartialEq)]
pub struct SkippedExpectation {
    /// The expectation.
    pub expectation: Expectation,
    /// Argument of the command line: `--set stage.fit.train.epochs=1`.
    pub because: String,
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
        let equal = |expected: f64| (value - expected).abs() <= 0.0;
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

/// Expectation with its table in the file.
pub(super) struct PlacedExpectation {
    pub(super) expectation: Expectation,
    node: TomlNode,
}

impl PlacedExpectation {
    /// Query and its span, if the value is that of a query.
    pub(super) fn query(&self) -> Option<(&str, SourceSpan)> {
        match &self.expectation.subject {
            ExpectedValue::Query(sql) => Some((sql, self.span_of("sql"))),
            ExpectedValue::Table(_) => None,
        }
    }

    /// Value in a table, if it is none of a query.
    pub(super) fn table_value(&self) -> Option<&TableValue> {
        match &self.expectation.subject {
            ExpectedValue::Query(_) => None,
            ExpectedValue::Table(value) => Some(value),
        }
    }

    fn span_of(&self, path: &str) -> SourceSpan {
        self.node.span_of(path, self.node.span)
    }

    /// Checks a value in a table against the tables that the stages will write.
    pub(super) fn check_table<S: Stage>(&self, value: &TableValue, stages: &[PlanNode<S>]) -> Vec<Diagnostic> {
        match find_table(value, stages) {
            Ok(found) => {
                let mut diagnostics: Vec<Diagnostic> = self.check_column(value, &found).into_iter().collect();
                let conditions = self.node.get("where").map(|entry| entry.node.entries()).unwrap_or_default();
                let wrong = value.conditions.iter().filter_map(|(name, condition)| {
                    let entry = conditions.iter().find(|entry| entry.key == *name)?;
                    check_condition(value, entry, condition, &found)
                });
                diagnostics.extend(wrong);
                diagnostics
            }
            Err((got, names, message)) => {
                let names: Vec<&str> = names.iter().map(String::as_str).collect();
                vec![Diagnostic::new(self.span_of("table"), message).with_valid_names(&got, names)]
            }
        }
    }

    fn check_column(&self, value: &TableValue, found: &FoundTable<'_>) -> Option<Diagnostic> {
        let column = &value.column;
        let span = self.span_of("column");
        let types = found.types(column);
        if types.is_empty() {
            let message = format!("got the column `{column}`, but the table `{value}` has no such column");
            return Some(Diagnostic::new(span, message).with_valid_names(column, found.own_columns()));
        }
        let wrong = types.into_iter().find(|data_type| !data_type.is_numeric())?;
        let message = format!("got the column `{column}` of `{value}`, which has {}, expected numbers", words(wrong));
        let numeric = found.own_columns().into_iter();
        let numeric: Vec<&str> =
            numeric.filter(|name| found.types(name).iter().all(|data_type| data_type.is_numeric())).collect();
        let diagnostic = Diagnostic::new(span, message);
        Some(if numeric.is_empty() {
            diagnostic
        } else {
            diagnostic.note(format!("columns of numbers: {}", quoted_list(numeric)))
        })
    }
}

/// Table of the stages that a value names.
struct FoundTable<'s> {
    schemas: Vec<SchemaRef>,
    /// Coordinates of the instances, which are columns of the table.
    coordinates: Vec<&'s [Coordinate]>,
}

impl FoundTable<'_> {
    /// Types of a column of the instances. Columns depend on settings, in which instances differ.
    fn types<'t>(&'t self, column: &str) -> Vec<&'t DataType> {
        let fields = self.schemas.iter().filter_map(|schema| schema.field_with_name(column).ok());
        fields.map(arrow::datatypes::Field::data_type).collect()
    }

    fn own_columns(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for field in self.schemas.iter().flat_map(|schema| schema.fields()) {
            if !names.contains(&field.name().as_str()) {
                names.push(field.name());
            }
        }
        names
    }
}

/// Table that a value names. Otherwise the wrong name, the valid ones, and a message.
fn find_table<'s, S: Stage>(
    value: &TableValue,
    stages: &'s [PlanNode<S>],
) -> Result<FoundTable<'s>, (String, Vec<String>, String)> {
    let TableValue { stage, table, .. } = value;
    let instances = value.instances(stages.iter().map(|node| node.name.as_str()));
    if instances.is_empty() {
        let base = stage_of_instance(stage);
        let stage_nodes = || stages.iter().filter(|node| stage_of_instance(&node.name) == base);
        if stage_nodes().next().is_none() {
            let mut names: Vec<String> = stages.iter().map(|node| stage_of_instance(&node.name).to_owned()).collect();
            names.dedup();
            return Err((stage.clone(), names, format!("got `{value}`, but no stage is called `{stage}`")));
        }
        let texts =
            stage_nodes().filter_map(|node| node.name.split_once(INSTANCE_SIGN).map(|(_, text)| text.to_owned()));
        let got = stage.split_once(INSTANCE_SIGN).map_or(String::new(), |(_, text)| text.to_owned());
        let message = format!("got `{value}`, but no instance of `{base}` has the coordinates `{got}`");
        return Err((got, texts.collect(), message));
    }
    let is_one = matches!(instances.as_slice(), [only] if value.names_exactly(&stages[*only].name));
    let (mut schemas, mut coordinates, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for node in instances.into_iter().map(|i| &stages[i]) {
        for output in node.stage.outputs() {
            let OutputKind::Table { schema, .. } = output.kind else { continue };
            if output.name == table {
                schemas.push(schema);
                coordinates.extend((!is_one).then_some(node.coordinates.as_slice()));
            } else if !names.iter().any(|name| *name == output.name) {
                names.push(output.name.to_owned());
            }
        }
    }
    if schemas.is_empty() {
        let message = format!("got `{value}`, but stage `{stage}` writes no table `{table}`");
        return Err((table.clone(), names, message));
    }
    Ok(FoundTable { schemas, coordinates })
}

/// Checks the column of a condition, and the type of its value.
fn check_condition(
    value: &TableValue,
    entry: &TomlEntry,
    condition: &ConditionValue,
    found: &FoundTable<'_>,
) -> Option<Diagnostic> {
    let name = &entry.key;
    let types = found.types(name);
    let span = entry.node.span;
    if let Some(wrong) = types.iter().find(|data_type| !can_be(condition, data_type)) {
        let message = format!("`{name}` is {}, expected {}", entry.node.describe(), word(wrong));
        return Some(Diagnostic::new(span, message));
    }
    if !types.is_empty() {
        return None;
    }
    let is_own = |name: &str| !found.types(name).is_empty();
    let axis = || found.coordinates.iter().filter_map(|of| TableValue::coordinate(of, name, is_own));
    if axis().next().is_none() {
        let message = format!("got the column `{name}`, but the table `{value}` has no such column");
        let mut names = found.own_columns();
        let axes = found.coordinates.first().copied().unwrap_or_default().iter().map(|axis| axis.axis.as_str());
        names.extend(axes.filter(|axis| !is_own(axis)));
        return Some(Diagnostic::new(entry.key_span, message).with_valid_names(name, names));
    }
    if axis().any(|coordinate| condition.is_coordinate(&coordinate.value)) {
        return None;
    }
    let mut values: Vec<String> = axis().map(|coordinate| shown_value(&coordinate.value)).collect();
    values.sort();
    values.dedup();
    let message = format!("`{name}` is {}, which no instance of `{}` has", entry.node.describe(), value.stage);
    Some(Diagnostic::new(span, message).note(format!("valid: {}", quoted_list(values.iter().map(String::as_str)))))
}

/// Value of an axis as in the file.
fn shown_value(value: &Json) -> String {
    if value.is_string() { format!("{value}") } else { value_text(value) }
}

/// True if a column of this type can have the value.
fn can_be(condition: &ConditionValue, data_type: &DataType) -> bool {
    match condition {
        ConditionValue::Boolean(_) => *data_type == DataType::Boolean,
        ConditionValue::Integer(_) | ConditionValue::Number(_) => data_type.is_numeric(),
        ConditionValue::Text(_) => is_text(data_type),
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Kind of the values of a column: one, and several.
fn kind(data_type: &DataType) -> Option<(&'static str, &'static str)> {
    match data_type {
        DataType::Boolean => Some(("`true` or `false`", "truth values")),
        data_type if data_type.is_numeric() => Some(("a number", "numbers")),
        data_type if is_text(data_type) => Some(("a string, in quotes", "texts")),
        _ => None,
    }
}

/// What a condition on a column of this type has.
fn word(data_type: &DataType) -> String {
    kind(data_type).map_or_else(|| format!("no condition on values of type {data_type}"), |(one, _)| one.to_owned())
}

/// Values of a column of this type.
fn words(data_type: &DataType) -> String {
    kind(data_type).map_or_else(|| format!("values of type {data_type}"), |(_, several)| several.to_owned())
}

/// Checks the form of the `[[expect]]` tables. Returns those that are valid.
pub(super) fn check_expectations(
    checker: &mut SchemaChecker<'_>,
    root: &mut TomlNode,
    schema: &Json,
) -> Vec<PlacedExpectation> {
    let Some(entry) = root.get_mut("expect") else { return Vec::new() };
    // Only stages have a default seed.
    checker.seed = None;
    let TomlValue::Array(items) = &mut entry.node.value else {
        let message = format!("`expect` is {}, expected tables `[[expect]]`", entry.node.describe());
        checker.diagnostics.push(Diagnostic::new(entry.node.span, message));
        return Vec::new();
    };
    let schema = resolve(checker.definitions, &schema["properties"]["expect"]["items"]);
    let mut expectations = Vec::new();
    for item in items {
        let before = checker.diagnostics.len();
        checker.check(item, schema, &ValueLabel::new("`[[expect]]`", item.span));
        check_condition_values(checker, item);
        if checker.diagnostics.len() > before {
            continue;
        }
        let read = ExpectationTable::deserialize(item.to_toml()).map_err(|error| error.message().to_owned());
        let line = checker.source_map.position(item.span).line;
        match read.map_err(|message| Diagnostic::new(item.span, message)).and_then(|read| expectation(read, item, line))
        {
            Ok(expectation) => expectations.push(PlacedExpectation { expectation, node: item.clone() }),
            Err(diagnostic) => checker.diagnostics.push(diagnostic),
        }
    }
    expectations
}

/// Checks that the values of conditions are scalars, of which the schema allows several types.
fn check_condition_values(checker: &mut SchemaChecker<'_>, item: &TomlNode) {
    for entry in item.get("where").map(|entry| entry.node.entries()).unwrap_or_default() {
        let is_scalar = match &entry.node.value {
            TomlValue::Text(_) | TomlValue::Boolean(_) => true,
            TomlValue::Integer(number) => i64::try_from(*number).is_ok(),
            TomlValue::Float(number) => number.is_finite(),
            TomlValue::Date(_) | TomlValue::Array(_) | TomlValue::Table(_) => false,
        };
        if !is_scalar {
            let got = entry.node.describe();
            let message = format!("`{}` is {got}, expected a string, a finite number, `true` or `false`", entry.key);
            checker.diagnostics.push(Diagnostic::new(entry.node.span, message));
        }
    }
}

/// Expectation of a table of the file, whose types are right.
fn expectation(table: ExpectationTable, item: &TomlNode, line: usize) -> Result<Expectation, Diagnostic> {
    let wrong = |message: &str| Diagnostic::new(item.span, message);
    let ExpectationTable { table, column, conditions, sql, at_least, at_most, equals } = table;
    let subject = match (sql, table, column) {
        (Some(sql), None, None) if conditions.is_none() => ExpectedValue::Query(sql),
        (Some(_), table, column) => {
            let other = if table.is_some() {
                "table"
            } else if column.is_some() {
                "column"
            } else {
                "where"
            };
            let message = format!("`[[expect]]` has `sql` and `{other}`, expected one value");
            let diagnostic = Diagnostic::new(item.span_of(other, item.span), message);
            return Err(diagnostic.hint("leave out `sql`; or leave out `table`, `column` and `where`"));
        }
        (None, Some(name), Some(column)) => {
            // The texts of coordinates can have points.
            let Some((stage, table)) = name.rsplit_once('.').filter(|(stage, table)| ![*stage, *table].contains(&""))
            else {
                let message =
                    format!("`table` is {name:?}, expected a table of this pipeline, written \"stage.table\"");
                return Err(Diagnostic::new(item.span_of("table", item.span), message));
            };
            let mut values = conditions.unwrap_or_default();
            let order = item.get("where").map(|entry| entry.node.entries()).unwrap_or_default();
            let conditions = order.iter().filter_map(|entry| values.remove_entry(&entry.key)).collect();
            ExpectedValue::Table(TableValue { stage: stage.to_owned(), table: table.to_owned(), column, conditions })
        }
        (None, Some(_), None) => return Err(wrong("`[[expect]]` lacks the setting `column`")),
        (None, None, column) if column.is_some() || conditions.is_some() => {
            return Err(wrong("`[[expect]]` lacks the setting `table`").hint("write `table = \"stage.table\"`"));
        }
        (None, None, _) => {
            return Err(wrong("`[[expect]]` names no value").hint("add `table` and `column`, or `sql`"));
        }
    };
    let expectation = Expectation { subject, at_least, at_most, equals, line };
    if expectation.wanted().is_empty() {
        return Err(wrong("`[[expect]]` bounds nothing").hint("add `at_least`, `at_most` or `equals`"));
    }
    match (at_least, at_most) {
        (Some(low), Some(high)) if low > high => {
            let message = format!("no number is at least {low} and at most {high}");
            Err(Diagnostic::new(item.span_of("at_most", item.span), message))
        }
        _ => Ok(expectation),
    }
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
        let expected = "SELECT rsum FROM \"test@seed=3\".summary WHERE method = 'o''nns' AND \"K\" = 3 AND beta = 0.5";
        assert_eq!(value.sql(), expected);
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
