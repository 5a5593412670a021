//! Axes of the matrix of a pipeline file, read from its TOML tree.
//!
//! ```toml
//! [matrix.seed]                 # an axis: the values of one setting
//! setting = "fit.seed"
//! values = [1, 2, 3]
//!
//! [[matrix.row]]                # an axis: named rows, each with settings of its own
//! name = "1.2"
//! set.fit.loss = "max"
//! set.fit.learning_rate = 2e-4
//! ```

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;

use serde_json::Value as Json;

use super::profile::{SettingTree, read_set};
use crate::diagnostic::{Diagnostic, SourceSpan};
use crate::file_format::{AXIS_NAME, EXCLUDE, VALUE_TEXT};
use crate::overrides::{Step, set_value};
use crate::schema_check::matches_pattern;
use crate::toml_tree::{TomlEntry, TomlNode, TomlValue};
use pairloom_base::suggest::quoted_list;
use pairloom_stage::value_text;

/// Option of the command line with values of an axis that are run.
pub(crate) const ONLY: &str = "--only";

/// Option of the command line with a combination that is left out.
pub(crate) const EXCEPT: &str = "--except";

/// Maximum number of names in the path of a setting, without that of the stage.
const MAX_STEPS: usize = 50;

/// Axis of a matrix.
#[derive(Debug)]
pub(crate) struct MatrixAxis {
    pub(super) name: String,
    pub(super) span: SourceSpan,
    /// Settings that have the axis's value; empty for named rows.
    pub(super) settings: Vec<SettingPath>,
    pub(super) values: Vec<AxisValue>,
    /// Indices of the values by their texts.
    index: HashMap<String, usize>,
    /// True if mistakes of the axis are reported, so that values may be missing or have other names.
    pub(super) is_doubtful: bool,
}

/// Value of an axis, with the settings that it changes.
#[derive(Debug)]
pub(crate) struct AxisValue {
    pub(super) value: Json,
    /// Changed settings, by name of the stage.
    pub(super) set: BTreeMap<String, SettingTree>,
}

/// Condition of a combination: the index of an axis and of its value.
pub(crate) type Condition = (usize, usize);

/// Matrix of a pipeline file.
#[derive(Debug, Default)]
pub(crate) struct Matrix {
    /// Axes, in the order of the file.
    pub(super) axes: Vec<MatrixAxis>,
    /// Combinations that are left out: those that satisfy all conditions of an item.
    pub(super) excluded: Vec<Vec<Condition>>,
    /// Span of the matrix.
    pub(super) span: SourceSpan,
    /// Names of axes that could not be read; their mistakes are reported.
    unread: Vec<String>,
    /// True if the matrix could not be read at all.
    is_unread: bool,
}

impl AxisValue {
    /// Text of the value in names.
    pub(super) fn text(&self) -> String {
        value_text(&self.value)
    }
}

impl MatrixAxis {
    /// Texts of the values, in their order.
    pub(super) fn value_texts(&self) -> Vec<String> {
        self.values.iter().map(AxisValue::text).collect()
    }

    /// Index of the value with this text; `None` if it may be one whose mistakes are reported.
    ///
    /// # Errors
    /// There is none: `wrong`, with the values that there are.
    pub(super) fn find_value(
        &self,
        text: &str,
        wrong: impl FnOnce() -> Diagnostic,
    ) -> Result<Option<usize>, Box<Diagnostic>> {
        match self.index.get(text) {
            None if !self.is_doubtful => {
                let texts = self.value_texts();
                Err(Box::new(wrong().with_valid_names(text, texts.iter().map(String::as_str).collect::<Vec<_>>())))
            }
            found => Ok(found.copied()),
        }
    }
}

impl Matrix {
    /// Names of the axes, in their order.
    pub(super) fn axis_names(&self) -> Vec<&str> {
        self.axes.iter().map(|axis| axis.name.as_str()).collect()
    }

    /// Index of the axis with this name; `None` if its mistakes are reported.
    ///
    /// # Errors
    /// There is none: `wrong`, with the axes that there are.
    pub(super) fn find_axis(
        &self,
        name: &str,
        wrong: impl FnOnce() -> Diagnostic,
    ) -> Result<Option<usize>, Box<Diagnostic>> {
        let is_unread = self.is_unread || self.unread.iter().any(|axis| axis == name);
        match self.axes.iter().position(|axis| axis.name == name) {
            None if !is_unread => Err(Box::new(wrong().with_valid_names(name, self.axis_names()))),
            found => Ok(found),
        }
    }

    /// Reads the entry `matrix` of a file. Mistakes go to `diagnostics`, and what is wrong is left out.
    pub(crate) fn read(entry: &TomlEntry, diagnostics: &mut Vec<Diagnostic>) -> Self {
        let TomlValue::Table(entries) = &entry.node.value else {
            let message = format!("`matrix` is {}, expected tables `[matrix.AXIS]`", entry.node.describe());
            diagnostics.push(Diagnostic::new(entry.node.span, message));
            return Self { is_unread: true, ..Self::default() };
        };
        let mut matrix = Self { span: entry.key_span, ..Self::default() };
        for entry in entries.iter().filter(|entry| entry.key != EXCLUDE) {
            match read_axis(entry, diagnostics) {
                Some(axis) => matrix.axes.push(axis),
                None => matrix.unread.push(entry.key.clone()),
            }
        }
        if entries.is_empty() {
            diagnostics.push(
                Diagnostic::new(entry.key_span, "the matrix has no axis")
                    .hint("write for example `[matrix.seed]`, `setting = \"fit.seed\"`, `values = [1, 2, 3]`"),
            );
        }
        if let Some(excluded) = entries.iter().find(|entry| entry.key == EXCLUDE) {
            matrix.excluded = matrix.read_excluded(&excluded.node, diagnostics);
        }
        matrix
    }

    /// Reads an argument of the command line: `axis=value,value` of [`ONLY`], the values of an axis that are run, or
    /// `axis=value,axis=value` of [`EXCEPT`], a combination that is left out.
    ///
    /// # Errors
    /// It names no axis, or a value that the axis does not have.
    pub(crate) fn conditions(&self, option: &str, argument: &str) -> Result<Vec<Condition>, Box<Diagnostic>> {
        let wrong = |message: &str| Diagnostic::new(SourceSpan::nowhere(), format!("`{option} {argument}`{message}"));
        // Values of the same axis follow its name.
        let items: Vec<&str> = if option == ONLY { vec![argument] } else { argument.split(',').collect() };
        let mut conditions = Vec::new();
        for item in items {
            let Some((name, values)) = item.split_once('=') else {
                let diagnostic = wrong(" names no value, expected `AXIS=VALUE`");
                return Err(Box::new(match self.axes.iter().find(|axis| axis.name == item) {
                    Some(axis) => {
                        let values = axis.value_texts();
                        let values = quoted_list(values.iter().map(String::as_str));
                        diagnostic.note(format!("values of `{item}`: {values}"))
                    }
                    None => diagnostic.with_valid_names(item, self.axis_names()),
                }));
            };
            let unknown = || wrong(&format!(": the matrix of the file has no axis `{name}`"));
            let Some(axis) = self.find_axis(name, unknown)? else { continue };
            for text in values.split(',') {
                let unknown = || wrong(&format!(": axis `{name}` has no value `{text}`"));
                conditions.extend(self.axes[axis].find_value(text, unknown)?.map(|value| (axis, value)));
            }
        }
        Ok(conditions)
    }

    /// Reads `exclude = [{ row = "1.2", seed = 3 }]`.
    fn read_excluded(&self, node: &TomlNode, diagnostics: &mut Vec<Diagnostic>) -> Vec<Vec<Condition>> {
        let TomlValue::Array(items) = &node.value else {
            let message = format!("`exclude` is {}, expected an array of tables `{{ axis = value }}`", node.describe());
            diagnostics.push(Diagnostic::new(node.span, message));
            return Vec::new();
        };
        let mut excluded = Vec::new();
        for item in items {
            let mut conditions = Vec::new();
            if item.entries().is_empty() {
                let message = format!("an item of `exclude` is {}, expected `{{ axis = value }}`", item.describe());
                diagnostics.push(Diagnostic::new(item.span, message));
                continue;
            }
            for entry in item.entries() {
                match self.condition(entry) {
                    Ok(condition) => conditions.extend(condition),
                    Err(diagnostic) => diagnostics.push(*diagnostic),
                }
            }
            // A condition on an axis with mistakes is missing.
            if conditions.len() == item.entries().len() {
                excluded.push(conditions);
            }
        }
        excluded
    }

    /// Condition `axis = value`.
    fn condition(&self, entry: &TomlEntry) -> Result<Option<Condition>, Box<Diagnostic>> {
        let unknown = || Diagnostic::new(entry.key_span, format!("the matrix has no axis `{}`", entry.key));
        let Some(axis) = self.find_axis(&entry.key, unknown)? else { return Ok(None) };
        let text = scalar(&entry.node).map(|value| value_text(&value));
        let unknown = || {
            let got = text.as_ref().map_or_else(|| entry.node.describe(), |text| format!("`{text}`"));
            Diagnostic::new(entry.node.span, format!("axis `{}` has no value {got}", entry.key))
        };
        let value = self.axes[axis].find_value(text.as_deref().unwrap_or_default(), unknown)?;
        Ok(value.map(|value| (axis, value)))
    }
}

/// Reads an axis; `None` if it has no value. Rows with mistakes are kept, so that those of their settings are found.
fn read_axis(entry: &TomlEntry, diagnostics: &mut Vec<Diagnostic>) -> Option<MatrixAxis> {
    let before = diagnostics.len();
    if !matches_pattern(AXIS_NAME, &entry.key) {
        let message = format!("{:?} is not a valid name of an axis", entry.key);
        let hint = "it becomes a column in SQL: a lower-case letter, then lower-case letters, digits and `_`";
        diagnostics.push(Diagnostic::new(entry.key_span, message).hint(hint));
        return None;
    }
    let (settings, values) = match &entry.node.value {
        TomlValue::Array(rows) if rows.iter().all(|row| matches!(row.value, TomlValue::Table(_))) => {
            (Vec::new(), read_rows(&entry.key, entry.key_span, rows, diagnostics))
        }
        TomlValue::Table(_) => read_values(entry, diagnostics),
        other => {
            let got = match other {
                TomlValue::Array(_) => "an array of values, expected the setting that they are of".to_owned(),
                _ => entry.node.describe(),
            };
            let message = format!("axis `{}` is {got}", entry.key);
            diagnostics.push(Diagnostic::new(entry.node.span, message).hint(format!(
                "write `[matrix.{0}]` with `setting` and `values`, or rows `[[matrix.{0}]]` with `name` and `set`",
                entry.key
            )));
            Default::default()
        }
    };
    let is_rows = matches!(entry.node.value, TomlValue::Array(_));
    let values = without_equal_values(&entry.key, values, is_rows, diagnostics);
    let (name, span, is_doubtful) = (entry.key.clone(), entry.key_span, diagnostics.len() > before);
    let index = values.iter().enumerate().map(|(place, value)| (value.text(), place)).collect();
    (!values.is_empty()).then_some(MatrixAxis { name, span, settings, values, index, is_doubtful })
}

/// Values with different texts. Reports the others; of rows with the same name, the later get another one.
fn without_equal_values(
    axis: &str,
    values: Vec<(AxisValue, SourceSpan)>,
    is_rows: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<AxisValue> {
    let mut seen = BTreeSet::new();
    let mut different = Vec::new();
    for (place, (mut value, span)) in values.into_iter().enumerate() {
        let text = value.text();
        if !seen.insert(text.clone()) {
            let message = format!("axis `{axis}` has the value `{text}` twice");
            let hint = if is_rows { "give one of the two another name" } else { "leave out one of the two" };
            diagnostics.push(Diagnostic::new(span, message).hint(hint));
            if !is_rows {
                continue;
            }
            value.value = unnamed_row(place);
        }
        different.push(value);
    }
    different
}

/// Name of a row that has no valid one of its own. No row of a file can be called so.
fn unnamed_row(place: usize) -> Json {
    Json::from(format!("*{}", place + 1))
}

/// Reads rows: tables with `name` and `set`.
fn read_rows(
    axis: &str,
    axis_span: SourceSpan,
    rows: &[TomlNode],
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(AxisValue, SourceSpan)> {
    if rows.is_empty() {
        diagnostics.push(
            Diagnostic::new(axis_span, format!("axis `{axis}` is an empty list"))
                .hint(format!("write rows `[[matrix.{axis}]]` with `name` and `set`")),
        );
    }
    let mut values = Vec::new();
    for (place, row) in rows.iter().enumerate() {
        for entry in row.entries().iter().filter(|entry| !["name", "set"].contains(&entry.key.as_str())) {
            let message = format!("a row of axis `{axis}` has no `{}`", entry.key);
            let diagnostic = Diagnostic::new(entry.key_span, message).with_valid_names(&entry.key, ["name", "set"]);
            diagnostics.push(match diagnostic.problem.hint {
                Some(_) => diagnostic,
                None => diagnostic.hint(format!("settings are below `set`: `set.STAGE.{} = …`", entry.key)),
            });
        }
        let value = match row.get("name") {
            Some(name) => checked_scalar(&name.node, &format!("`name` of a row of axis `{axis}`"), diagnostics),
            None => {
                let message = format!("a row of axis `{axis}` lacks a `name`");
                diagnostics.push(Diagnostic::new(row.span, message).hint("write for example `name = \"1.1\"`"));
                None
            }
        };
        let value = value.unwrap_or_else(|| unnamed_row(place));
        let set = row.get("set").map(|set| read_set(&set.node, diagnostics)).unwrap_or_default();
        values.push((AxisValue { value, set }, row.get("name").map_or(row.span, |name| name.node.span)));
    }
    values
}

/// Reads `setting` (or `settings`) and `values`.
fn read_values(
    entry: &TomlEntry,
    diagnostics: &mut Vec<Diagnostic>,
) -> (Vec<SettingPath>, Vec<(AxisValue, SourceSpan)>) {
    let (axis, node) = (&entry.key, &entry.node);
    let names = ["setting", "settings", "values"];
    for stray in node.entries().iter().filter(|entry| !names.contains(&entry.key.as_str())) {
        let message = format!("axis `{axis}` has no `{}`", stray.key);
        diagnostics.push(Diagnostic::new(stray.key_span, message).with_valid_names(&stray.key, names));
    }
    let settings: Vec<&TomlNode> = match (node.get("setting"), node.get("settings")) {
        (Some(setting), None) => vec![&setting.node],
        (None, Some(settings)) => match &settings.node.value {
            TomlValue::Array(items) if !items.is_empty() => items.iter().collect(),
            _ => vec![&settings.node],
        },
        (Some(_), Some(settings)) => {
            let message = format!("axis `{axis}` has `setting` and `settings`, expected one");
            diagnostics.push(Diagnostic::new(settings.key_span, message));
            return Default::default();
        }
        (None, None) => {
            let message = format!("axis `{axis}` lacks `setting`");
            let hint = "write for example `setting = \"fit.seed\"`: the name of a stage, then of its setting";
            diagnostics.push(Diagnostic::new(entry.key_span, message).hint(hint));
            return Default::default();
        }
    };
    let paths: Vec<_> = settings.into_iter().filter_map(|setting| setting_path(setting, diagnostics)).collect();
    let Some(values) = node.get("values") else {
        let message = format!("axis `{axis}` lacks `values`");
        diagnostics.push(Diagnostic::new(entry.key_span, message).hint("write for example `values = [1, 2, 3]`"));
        return Default::default();
    };
    let TomlValue::Array(items) = &values.node.value else {
        let message = format!("`values` is {}, expected an array", values.node.describe());
        diagnostics.push(Diagnostic::new(values.node.span, message).hint("write for example `values = [1, 2, 3]`"));
        return Default::default();
    };
    if items.is_empty() {
        diagnostics.push(Diagnostic::new(values.node.span, format!("axis `{axis}` has no values")));
    }
    let value = |item: &TomlNode| {
        let value = checked_scalar(item, &format!("a value of axis `{axis}`"), diagnostics)?;
        let mut set: BTreeMap<String, SettingTree> = BTreeMap::new();
        for path in &paths {
            path.add_to(&mut set, item);
        }
        Some((AxisValue { value, set }, item.span))
    };
    let values = items.iter().filter_map(value).collect();
    (paths, values)
}

/// Path of a setting: a stage, and the names down to the setting.
#[derive(Debug)]
pub(super) struct SettingPath {
    pub(super) stage: String,
    pub(super) names: Vec<String>,
    span: SourceSpan,
}

impl SettingPath {
    /// Adds the setting with this value to the settings that an axis changes.
    fn add_to(&self, set: &mut BTreeMap<String, SettingTree>, value: &TomlNode) {
        let tree = set
            .entry(self.stage.clone())
            .or_insert_with(|| SettingTree { span: self.span, node: TomlNode::empty(self.span) });
        let steps: Vec<Step> = self.names.iter().map(|name| (name.clone(), self.span)).collect();
        set_value(&mut tree.node, &steps, value.clone());
    }
}

/// Reads a path such as `fit.loss.max.margin`.
fn setting_path(node: &TomlNode, diagnostics: &mut Vec<Diagnostic>) -> Option<SettingPath> {
    let path = match &node.value {
        TomlValue::Text(text) => {
            let mut names = text.split('.').map(str::to_owned);
            let stage = names.next().unwrap_or_default();
            let names: Vec<String> = names.collect();
            if names.len() > MAX_STEPS {
                let message = format!(
                    "`setting` has {} names after that of the stage, expected at most {MAX_STEPS}",
                    names.len()
                );
                diagnostics.push(Diagnostic::new(node.span, message));
                return None;
            }
            let is_complete = !names.is_empty() && !stage.is_empty() && names.iter().all(|name| !name.is_empty());
            is_complete.then_some(SettingPath { stage, names, span: node.span })
        }
        _ => None,
    };
    if path.is_none() {
        let message = format!("`setting` is {}, expected a stage and a setting of it", node.describe());
        diagnostics.push(Diagnostic::new(node.span, message).hint("write for example `setting = \"fit.seed\"`"));
    }
    path
}

/// Value of an axis as JSON; `None` if it is a list, a table or a date.
pub(super) fn scalar(node: &TomlNode) -> Option<Json> {
    match &node.value {
        TomlValue::Text(text) => Some(Json::from(text.as_str())),
        TomlValue::Integer(number) => i64::try_from(*number).ok().map(Json::from),
        TomlValue::Float(number) => serde_json::Number::from_f64(*number).map(Json::from),
        TomlValue::Boolean(boolean) => Some(Json::from(*boolean)),
        _ => None,
    }
}

/// Value of an axis. Reports values that cannot be a part of a name.
fn checked_scalar(node: &TomlNode, subject: &str, diagnostics: &mut Vec<Diagnostic>) -> Option<Json> {
    let Some(value) = scalar(node) else {
        let message = format!("{subject} is {}, expected a text, a finite number or a boolean", node.describe());
        let diagnostic = Diagnostic::new(node.span, message);
        let is_number = matches!(node.value, TomlValue::Float(_) | TomlValue::Integer(_));
        let hint = "values of other types are settings of named rows: `[[matrix.AXIS]]` with `name` and `set`";
        diagnostics.push(if is_number { diagnostic } else { diagnostic.hint(hint) });
        return None;
    };
    if !matches_pattern(VALUE_TEXT, &value_text(&value)) {
        let message = format!("{subject} is {}, which cannot be a part of a name", node.describe());
        let hint =
            "expected at most 64 letters, digits, `.`, `_`, `+` and `-`; rows have a `name` beside their settings";
        diagnostics.push(Diagnostic::new(node.span, message).hint(hint));
        return None;
    }
    Some(value)
}

/// Settings of a stage and their places: the name of the stage, then those down to the setting.
type SettingPlaces = BTreeMap<Vec<String>, SourceSpan>;

impl Matrix {
    /// Reports settings that two axes set. Only one of the two values would hold, while the name of an instance has both.
    pub(super) fn check_overlaps(&self, diagnostics: &mut Vec<Diagnostic>) {
        let places: Vec<SettingPlaces> = self.axes.iter().map(setting_places).collect();
        for (second, second_path) in places.iter().enumerate() {
            for (path, span) in second_path {
                let first = places[..second].iter().position(|first_path| overlaps(path, first_path));
                let Some(first) = first else { continue };
                let (first, second) = (&self.axes[first].name, &self.axes[second].name);
                let message = format!("axis `{second}` sets `{}`, as axis `{first}` does", path.join("."));
                diagnostics.push(Diagnostic::new(*span, message).hint("set it in one of the two axes"));
            }
        }
    }
}

/// True if a setting, one below it or one that it is below is among others.
fn overlaps(path: &[String], others: &SettingPlaces) -> bool {
    let is_below = || (1..=path.len()).any(|steps| others.contains_key(&path[..steps]));
    // Those below a setting follow it in the order of the names.
    let next = || others.range::<[String], _>((Bound::Included(path), Bound::Unbounded)).next();
    is_below() || next().is_some_and(|(other, _)| other.starts_with(path))
}

/// Settings that the values of an axis set, each with its first place.
fn setting_places(axis: &MatrixAxis) -> SettingPlaces {
    let mut places = SettingPlaces::new();
    for (stage, tree) in axis.values.iter().flat_map(|value| &value.set) {
        add_places(&tree.node, &mut vec![stage.clone()], &mut places);
    }
    places
}

fn add_places(node: &TomlNode, path: &mut Vec<String>, places: &mut SettingPlaces) {
    match &node.value {
        TomlValue::Table(entries) => {
            for entry in entries {
                path.push(entry.key.clone());
                add_places(&entry.node, path, places);
                path.pop();
            }
        }
        _ => drop(places.entry(path.clone()).or_insert(node.span)),
    }
}
