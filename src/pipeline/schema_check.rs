//! Checks a TOML tree against the JSON Schema of the settings and prepares it for serde: resolves paths, fills in
//! seeds, expands shorthands.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use regex::Regex;
use serde_json::Value as Json;
use toml::de::DeValue;

use super::diagnostic::{Diagnostic, SourceMap, SourceSpan};
use super::file_format::{Alternative, near_places, places, resolve};
use super::sources::SourceVariables;
use super::toml_tree::{TomlEntry, TomlNode, TomlValue};
use pairloom_base::suggest::{MAX_SUGGESTIONS, closest_name, quoted_list};

/// Checker of TOML values against a JSON Schema. Collects all diagnostics.
pub(super) struct SchemaChecker<'a> {
    /// `$defs` of the schema.
    pub(super) definitions: &'a Json,
    pub(super) source_map: &'a SourceMap,
    /// Folder that paths in the file are relative to.
    pub(super) folder: &'a Path,
    /// Lookup of environment variables.
    pub(super) environment: &'a dyn Fn(&str) -> Option<String>,
    /// True if an unset environment variable or a missing source is a mistake.
    pub(super) sources_needed: bool,
    /// Seed of stages that give none; `None` outside of stages.
    pub(super) seed: Option<TomlNode>,
    /// Names of settings that were dropped because they are wrong.
    pub(super) dropped: Vec<String>,
    /// Name of the stage that is checked.
    pub(super) stage: String,
    /// Environment variables in the paths of sources.
    pub(super) variables: SourceVariables,
    /// Every reference `stage.table`, with its source span.
    pub(super) references: Vec<(String, SourceSpan)>,
    pub(super) diagnostics: Vec<Diagnostic>,
}

/// Label of a checked value for messages: its name, and the span for messages about missing settings.
#[derive(Clone)]
pub(super) struct ValueLabel {
    pub(super) name: String,
    pub(super) span: SourceSpan,
    /// True if the value is the path of a folder.
    pub(super) is_folder: bool,
}

impl ValueLabel {
    pub(super) fn new(name: impl Into<String>, span: SourceSpan) -> Self {
        Self { name: name.into(), span, is_folder: false }
    }
}

impl SchemaChecker<'_> {
    /// Checks `node` against `schema` and prepares it for serde.
    pub(super) fn check(&mut self, node: &mut TomlNode, schema: &Json, subject: &ValueLabel) {
        let definition = schema.get("$ref").and_then(Json::as_str).unwrap_or_default();
        let schema = resolve(self.definitions, schema);
        if let Some(Json::Array(options)) = schema.get("anyOf") {
            // TOML has no null, so an optional value has the other alternatives.
            let options = options.iter().filter(|option| option.get("type") != Some(&Json::from("null")));
            self.check_any(node, &options.collect::<Vec<_>>(), subject);
        } else if schema.get("oneOf").is_some() || schema.get("enum").is_some() || schema.get("const").is_some() {
            self.check_choice(node, &Alternative::all(schema), subject);
        } else {
            match schema_type(schema) {
                "string" => self.check_text(node, schema, definition, subject),
                "integer" => self.check_integer(node, schema, subject),
                "number" => self.check_number(node, schema, subject),
                "boolean" if !matches!(node.value, TomlValue::Boolean(_)) => {
                    self.report_mismatch(node, subject, expected_of_type("boolean"));
                }
                "array" => self.check_array(node, schema, subject),
                "object" => self.check_object(node, schema, subject),
                _ => {}
            }
        }
    }

    /// Checks a value of one of several types, such as a text or a table, against the alternative of its type.
    fn check_any(&mut self, node: &mut TomlNode, options: &[&Json], subject: &ValueLabel) {
        if let [only] = options {
            return self.check(node, only, subject);
        }
        let types: Vec<&str> = options.iter().map(|option| schema_type(resolve(self.definitions, option))).collect();
        if types.contains(&"string") {
            self.argument_as_text(node);
        }
        match types.iter().position(|name| is_of_type(&node.value, name)) {
            Some(fitting) => self.check(node, options[fitting], subject),
            None => {
                let expected: Vec<&str> = types.iter().map(|name| expected_of_type(name)).collect();
                self.report_mismatch(node, subject, &expected.join(", or "));
            }
        }
    }

    pub(super) fn report_mismatch(&mut self, node: &TomlNode, subject: &ValueLabel, wanted: &str) {
        let message = format!("{} is {}, expected {wanted}", subject.name, node.describe());
        let diagnostic = Diagnostic::new(node.span, message);
        self.diagnostics.push(match scalar_hint(node, wanted) {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        });
    }

    /// Reports text that is no reference to a table.
    fn report_no_reference(&mut self, node: &TomlNode, subject: &ValueLabel) {
        let TomlValue::Text(text) = &node.value else {
            return self.report_mismatch(node, subject, "a table of another stage, written \"stage.table\"");
        };
        let message = format!(
            "{} is {}, expected a table of another stage, written \"stage.table\"",
            subject.name,
            node.describe()
        );
        let setting = subject.name.trim_matches('`');
        let likely = match text.strip_prefix("stage.").unwrap_or(text).replace('/', ".") {
            stage if !stage.contains('.') => format!("{stage}.{setting}"),
            other => other,
        };
        let diagnostic = Diagnostic::new(node.span, message);
        let is_reference = likely.split('.').count() == 2 && !likely.contains([' ', '`']) && likely.is_ascii();
        self.diagnostics.push(if is_reference {
            diagnostic.hint(format!("did you mean \"{likely}\"?"))
        } else {
            diagnostic
        });
    }

    /// Turns a scalar of a `--set` argument that TOML parsed as a number, a date or a boolean into its original text.
    fn argument_as_text(&self, node: &mut TomlNode) {
        let scalar = matches!(
            node.value,
            TomlValue::Integer(_) | TomlValue::Float(_) | TomlValue::Boolean(_) | TomlValue::Date(_)
        );
        if scalar && node.span.is_argument() {
            node.value = TomlValue::Text(self.source_map.slice(node.span).to_owned());
        }
    }

    fn check_text(&mut self, node: &mut TomlNode, schema: &Json, definition: &str, subject: &ValueLabel) {
        self.argument_as_text(node);
        let TomlValue::Text(text) = &node.value else {
            match definition {
                "#/$defs/TableRef" => self.report_no_reference(node, subject),
                "#/$defs/Source" => self.report_mismatch(node, subject, "a path, in quotes"),
                "#/$defs/SourceOrUrl" => self.report_mismatch(node, subject, "a path or a URL, in quotes"),
                _ => self.report_mismatch(node, subject, expected_of_type("string")),
            }
            return;
        };
        if schema.get("minLength").is_some() && text.is_empty() {
            self.report_mismatch(node, subject, "a path");
        } else if let Some(pattern) = schema.get("pattern").and_then(Json::as_str)
            && !matches_pattern(pattern, text)
        {
            if definition == "#/$defs/TableRef" {
                self.report_no_reference(node, subject);
            } else {
                self.report_mismatch(node, subject, &format!("text of the form `{pattern}`"));
            }
        } else if definition == "#/$defs/TableRef" {
            self.references.push((text.clone(), node.span));
        } else if definition == "#/$defs/Source" || definition == "#/$defs/SourceOrUrl" {
            self.resolve_source(node, definition == "#/$defs/SourceOrUrl", subject);
        }
    }

    fn check_integer(&mut self, node: &TomlNode, schema: &Json, subject: &ValueLabel) {
        let TomlValue::Integer(number) = node.value else {
            self.report_mismatch(node, subject, expected_of_type("integer"));
            return;
        };
        let (low, high) = integer_bounds(schema);
        if number < low {
            self.report_mismatch(node, subject, &format!("an integer of at least {low}"));
        } else if number > high {
            self.report_mismatch(node, subject, &format!("an integer of at most {high}"));
        }
    }

    fn check_number(&mut self, node: &TomlNode, schema: &Json, subject: &ValueLabel) {
        let number = match node.value {
            TomlValue::Float(number) if number.is_finite() => number,
            #[expect(clippy::cast_precision_loss, reason = "compared with bounds only")]
            TomlValue::Integer(number) => number as f64,
            _ => return self.report_mismatch(node, subject, expected_of_type("number")),
        };
        let bound = |name| schema.get(name).and_then(Json::as_f64);
        if bound("minimum").is_some_and(|low| number < low) || bound("maximum").is_some_and(|high| number > high) {
            let low = bound("minimum").map(|low| format!("at least {low}"));
            let high = bound("maximum").map(|high| format!("at most {high}"));
            let wanted: Vec<_> = low.into_iter().chain(high).collect();
            self.report_mismatch(node, subject, &wanted.join(" and "));
        }
    }

    fn check_array(&mut self, node: &mut TomlNode, schema: &Json, subject: &ValueLabel) {
        if !matches!(node.value, TomlValue::Array(_)) {
            self.report_mismatch(node, subject, expected_of_type("array"));
            return;
        }
        let (TomlValue::Array(items), Some(schema)) = (&mut node.value, schema.get("items")) else { return };
        let item_schema = resolve(self.definitions, schema);
        // Numbers of a list belong together; settings such as methods stand alone.
        let is_droppable = item_schema.get("oneOf").is_some() || schema_type(item_schema) == "object";
        let is_right: Vec<bool> = items
            .iter_mut()
            .enumerate()
            .map(|(i, item)| {
                let before = self.diagnostics.len();
                let subject = ValueLabel::new(format!("item {} of {}", i + 1, subject.name), item.span);
                self.check(item, schema, &subject);
                self.diagnostics.len() == before
            })
            .collect();
        // Without the wrong items, the mistakes of the others are found.
        if is_droppable && is_right.contains(&true) {
            let mut is_right = is_right.into_iter();
            items.retain(|_| is_right.next() == Some(true));
        }
    }

    fn check_object(&mut self, node: &mut TomlNode, schema: &Json, subject: &ValueLabel) {
        if !matches!(node.value, TomlValue::Table(_)) {
            self.report_mismatch(node, subject, expected_of_type("object"));
            return;
        }
        let TomlValue::Table(entries) = &mut node.value else { return };
        let empty = serde_json::Map::new();
        let properties = schema.get("properties").and_then(Json::as_object).unwrap_or(&empty);
        // Schema of the values of a table with arbitrary keys, as in `published = { all = 0.734 }`.
        let any = schema.get("additionalProperties").filter(|any| any.is_object());
        let required = schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
        let given: Vec<String> = entries.iter().map(|entry| entry.key.clone()).collect();
        let unset = properties.keys().map(String::as_str).filter(|name| !given.iter().any(|given| given == name));
        // Settings that are meant by a mistyped name: their absence is no mistake of its own.
        let mut mistyped: Vec<&str> = Vec::new();
        // A wrong optional setting is dropped, so that serde can read the other settings and their mistakes are found.
        entries.retain_mut(|entry| {
            let Some(property) = properties.get(&entry.key).or(any) else {
                let message = format!("{} has no setting `{}`", subject.name, entry.key);
                self.dropped.push(entry.key.clone());
                if self.diagnostics.len() >= MAX_SUGGESTIONS {
                    self.diagnostics.push(Diagnostic::new(entry.key_span, message));
                    return false;
                }
                let names = properties.keys().map(String::as_str);
                let mut diagnostic = Diagnostic::new(entry.key_span, message).with_valid_names(&entry.key, names);
                let places = places(self.definitions, schema, &entry.key);
                if entry.key == "seed" {
                    diagnostic = diagnostic.hint("the seed of the pipeline stands above the first `[…]` of the file");
                } else if !places.is_empty() && diagnostic.problem.hint.is_none() {
                    let list = quoted_list(places.iter().map(String::as_str));
                    diagnostic = diagnostic.hint(format!("settings of that name: {list}"));
                } else if diagnostic.problem.hint.is_none() {
                    let near = near_places(self.definitions, schema, &entry.key);
                    let list = quoted_list(near.iter().map(String::as_str));
                    diagnostic.problem.hint = match near.len() {
                        0 => None,
                        1 => Some(format!("did you mean {list}?")),
                        _ => Some(format!("did you mean one of {list}?")),
                    };
                }
                self.diagnostics.push(diagnostic);
                mistyped.extend(closest_name(&entry.key, unset.clone()));
                return false;
            };
            let (before, length) = (self.diagnostics.len(), entry.node.items().len());
            let is_folder = self.describes_folder(property);
            let subject = ValueLabel { name: format!("`{}`", entry.key), span: entry.key_span, is_folder };
            self.check(&mut entry.node, property, &subject);
            let is_right = self.diagnostics.len() == before;
            let has_rest = (1..length).contains(&entry.node.items().len());
            let kept = is_right || has_rest || required.clone().any(|name| name == entry.key);
            if !kept {
                self.dropped.push(entry.key.clone());
            } else if has_rest {
                // The list counts as wrong, and problems of its other items do not follow from that.
                self.dropped.push(format!("{}[]", entry.key));
            }
            kept
        });
        let absent = |name: &str| !entries.iter().any(|entry| entry.key == name);
        self.dropped.extend(mistyped.iter().map(|name| (*name).to_owned()));
        for name in required.clone().filter(|name| absent(name) && !mistyped.contains(name)) {
            let about = properties.get(name).map(|property| self.setting_description(property)).unwrap_or_default();
            let diagnostic = Diagnostic::new(subject.span, format!("{} lacks the setting `{name}`", subject.name));
            self.diagnostics.push(if about.is_empty() {
                diagnostic
            } else {
                diagnostic.note(format!("`{name}`: {about}"))
            });
        }
        if let Some(seed) = self.seed.clone().filter(|_| properties.contains_key("seed") && absent("seed")) {
            entries.push(TomlEntry { key: "seed".to_owned(), key_span: seed.span, node: seed });
        }
    }

    /// Returns true if the description of a setting begins with a folder, such as "Image folder".
    fn describes_folder(&self, schema: &Json) -> bool {
        let text = self.setting_description(schema);
        text.split(|c: char| !c.is_alphabetic()).take(2).any(|word| word.eq_ignore_ascii_case("folder"))
    }

    /// First line of the description of a setting.
    fn setting_description(&self, schema: &Json) -> String {
        let text = schema.get("description").or_else(|| resolve(self.definitions, schema).get("description"));
        text.and_then(Json::as_str).and_then(|text| text.lines().next()).unwrap_or_default().to_owned()
    }

    /// Checks a value with named alternatives: `"name"` or `{ name = … }`.
    pub(super) fn check_choice(&mut self, node: &mut TomlNode, alternatives: &[Alternative<'_>], subject: &ValueLabel) {
        self.argument_as_text(node);
        let names = alternatives.iter().map(|alternative| alternative.name);
        if let TomlValue::Text(name) = &node.value {
            match alternatives.iter().find(|alternative| alternative.name == name) {
                None => {
                    let message = format!("{} is {}", subject.name, node.describe());
                    let diagnostic = Diagnostic::new(node.span, message).with_valid_names(name, names);
                    // A path or a table in place of the alternative that takes one.
                    let is_source = |alternative: &&Alternative<'_>| {
                        let content = alternative.content.and_then(|content| content.get("$ref")?.as_str());
                        content == Some("#/$defs/Source") && name.contains(['.', '/'])
                    };
                    self.diagnostics.push(match alternatives.iter().find(is_source) {
                        Some(source) => diagnostic.hint(format!("write `{{ {} = {name:?} }}`", source.name)),
                        None => diagnostic,
                    });
                }
                Some(Alternative { by_name: true, content: None, .. }) => {}
                Some(Alternative { by_name: true, name, content: Some(content) }) => {
                    let entry =
                        TomlEntry { key: (*name).to_owned(), key_span: node.span, node: TomlNode::empty(node.span) };
                    *node = TomlNode { span: node.span, value: TomlValue::Table(vec![entry]) };
                    self.check_content(node, content);
                }
                Some(Alternative { name, .. }) => {
                    let message = format!("{} is {name:?}, which needs a value", subject.name);
                    self.diagnostics
                        .push(Diagnostic::new(node.span, message).hint(format!("write `{{ {name} = … }}`")));
                }
            }
            return;
        }
        let TomlValue::Table(entries) = &mut node.value else {
            let message =
                format!("{} is {}, expected one of {}", subject.name, node.describe(), quoted_list(names.clone()));
            self.diagnostics.push(Diagnostic::new(node.span, message));
            return;
        };
        if entries.is_empty() {
            let message = format!("{} is an empty table, expected one of {}", subject.name, quoted_list(names.clone()));
            self.diagnostics.push(Diagnostic::new(subject.span, message));
        }
        if let [first, second, ..] = entries.as_slice()
            && entries.iter().all(|entry| names.clone().any(|name| name == entry.key))
        {
            let message = format!("{} is both `{}` and `{}`, expected one", subject.name, first.key, second.key);
            self.diagnostics.push(Diagnostic::new(second.key_span, message));
        }
        for entry in entries {
            match alternatives.iter().find(|alternative| alternative.name == entry.key) {
                None => {
                    let message = format!("{} has no alternative `{}`", subject.name, entry.key);
                    self.diagnostics
                        .push(Diagnostic::new(entry.key_span, message).with_valid_names(&entry.key, names.clone()));
                }
                Some(Alternative { content: Some(content), .. }) => {
                    let subject = ValueLabel::new(format!("`{}`", entry.key), entry.key_span);
                    self.check(&mut entry.node, content, &subject);
                }
                Some(_) => {
                    let message = format!("`{}` takes no value, expected {:?} alone", entry.key, entry.key);
                    self.diagnostics.push(Diagnostic::new(entry.key_span, message));
                }
            }
        }
    }

    /// Checks the values of all entries of a table against one schema.
    fn check_content(&mut self, node: &mut TomlNode, schema: &Json) {
        let TomlValue::Table(entries) = &mut node.value else { return };
        for entry in entries {
            let subject = ValueLabel::new(format!("`{}`", entry.key), entry.key_span);
            self.check(&mut entry.node, schema, &subject);
        }
    }
}

/// Hint for a number or a boolean in quotes, or a whole number with a point.
fn scalar_hint(node: &TomlNode, expected: &str) -> Option<String> {
    match &node.value {
        TomlValue::Text(text) => {
            let fits = match DeValue::parse(text).ok()?.get_ref() {
                DeValue::Integer(_) => expected.contains("integer") || expected.contains("number"),
                DeValue::Float(_) => expected.contains("number"),
                DeValue::Boolean(_) => expected.contains("true"),
                DeValue::Array(_) => expected.contains("array"),
                _ => false,
            };
            fits.then(|| format!("leave out the quotes: `{text}`"))
        }
        TomlValue::Float(number) if expected.contains("integer") && number.fract() == 0.0 && number.abs() < 1e15 => {
            Some(format!("write `{number}`"))
        }
        _ => None,
    }
}

/// Type that a schema wants, other than null; an empty text for several.
fn schema_type(schema: &Json) -> &str {
    match schema.get("type") {
        Some(Json::String(name)) => name,
        Some(Json::Array(names)) => {
            let mut names = names.iter().filter_map(Json::as_str).filter(|name| *name != "null");
            let first = names.next().unwrap_or("");
            if names.next().is_some() { "" } else { first }
        }
        _ => "",
    }
}

/// True if a value has this type of a schema.
fn is_of_type(value: &TomlValue, name: &str) -> bool {
    match value {
        TomlValue::Text(_) => name == "string",
        TomlValue::Integer(_) => name == "integer" || name == "number",
        TomlValue::Float(_) => name == "number",
        TomlValue::Boolean(_) => name == "boolean",
        TomlValue::Array(_) => name == "array",
        TomlValue::Table(_) => name == "object",
        TomlValue::Date(_) => false,
    }
}

/// What a value of this type of a schema is, for messages.
fn expected_of_type(name: &str) -> &'static str {
    match name {
        "string" => "a string, in quotes",
        "integer" => "an integer",
        "number" => "a finite number",
        "boolean" => "`true` or `false`",
        "array" => "an array, written `[…]`",
        _ => "a table, written `{ … }`",
    }
}

/// Smallest and largest integer that a schema allows, within the i64 range of TOML.
fn integer_bounds(schema: &Json) -> (i128, i128) {
    let (low, high) = match schema.get("format").and_then(Json::as_str).unwrap_or("") {
        "uint8" => (0, u8::MAX.into()),
        "uint16" => (0, u16::MAX.into()),
        "uint32" => (0, u32::MAX.into()),
        "uint64" | "uint" => (0, i64::MAX.into()),
        "int32" => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    };
    let bound = |name| schema.get(name).and_then(Json::as_i64).map(i128::from);
    (bound("minimum").map_or(low, |own| own.max(low)), bound("maximum").map_or(high, |own| own.min(high)))
}

/// Returns true if `text` matches the regular expression `pattern` of a schema.
pub(super) fn matches_pattern(pattern: &str, text: &str) -> bool {
    // There are a few patterns, and a file may have thousands of texts.
    static COMPILED: Mutex<BTreeMap<String, Option<Regex>>> = Mutex::new(BTreeMap::new());
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if !compiled.contains_key(pattern) {
        compiled.insert(pattern.to_owned(), Regex::new(pattern).ok());
    }
    compiled[pattern].as_ref().is_some_and(|pattern| pattern.is_match(text))
}
