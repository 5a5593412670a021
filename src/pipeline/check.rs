//! Compares a tree with the JSON Schema of the settings, collects every fault, and makes the tree ready for serde: paths
//! are resolved, seeds filled in, shorthands written out.

use std::path::Path;

use regex::Regex;
use serde_json::Value as Json;

use super::fault::Fault;
use super::form::{resolve, sole_property};
use super::place::{Place, Texts};
use super::tree::{Entry, Node, Value};
use crate::suggest::quoted;

/// What a value is checked with.
pub(super) struct Checker<'a> {
    /// `$defs` of the schema.
    pub(super) definitions: &'a Json,
    pub(super) texts: &'a Texts,
    /// The folder that paths of the file are relative to.
    pub(super) folder: &'a Path,
    /// Environment variables.
    pub(super) environment: &'a dyn Fn(&str) -> Option<String>,
    /// Whether a variable that is not set is a fault.
    pub(super) sources_needed: bool,
    /// The seed of stages that give none; `None` outside of stages.
    pub(super) seed: Option<Node>,
    /// Settings that were dropped because they are wrong.
    pub(super) dropped: Vec<String>,
    /// Every `stage.table` that was met, with its place.
    pub(super) references: Vec<(String, Place)>,
    pub(super) faults: Vec<Fault>,
}

/// What is checked: what messages call it, and where to point when something is missing from it.
#[derive(Clone)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) place: Place,
}

impl Subject {
    pub(super) fn new(name: impl Into<String>, place: Place) -> Self {
        Self { name: name.into(), place }
    }
}

impl Checker<'_> {
    /// Checks `node` against `schema`.
    pub(super) fn check(&mut self, node: &mut Node, schema: &Json, subject: &Subject) {
        let definition = schema.get("$ref").and_then(Json::as_str).unwrap_or_default();
        let schema = resolve(self.definitions, schema);
        if let Some(Json::Array(options)) = schema.get("anyOf") {
            // An optional value: TOML has no null.
            if let Some(option) = options.iter().find(|option| option.get("type") != Some(&Json::from("null"))) {
                self.check(node, option, subject);
            }
        } else if schema.get("oneOf").is_some() || schema.get("enum").is_some() || schema.get("const").is_some() {
            self.check_choice(node, &Alternative::all(schema), subject);
        } else {
            match type_of(schema) {
                "string" => self.check_text(node, schema, definition, subject),
                "integer" => self.check_integer(node, schema, subject),
                "number" => self.check_number(node, schema, subject),
                "boolean" if !matches!(node.value, Value::Boolean(_)) => self.wrong(node, subject, "`true` or `false`"),
                "array" => self.check_array(node, schema, subject),
                "object" => self.check_object(node, schema, subject),
                _ => {}
            }
        }
    }

    fn wrong(&mut self, node: &Node, subject: &Subject, wanted: &str) {
        let message = format!("{} is {}, wanted {wanted}", subject.name, node.describe());
        self.faults.push(Fault::new(node.place, message));
    }

    /// The characters of an argument are the text, whatever else TOML would take them for.
    fn argument_as_text(&self, node: &mut Node) {
        let scalar = matches!(node.value, Value::Integer(_) | Value::Float(_) | Value::Boolean(_) | Value::Date(_));
        if scalar && node.place.is_argument() {
            node.value = Value::Text(self.texts.slice(node.place).to_owned());
        }
    }

    fn check_text(&mut self, node: &mut Node, schema: &Json, definition: &str, subject: &Subject) {
        self.argument_as_text(node);
        let Value::Text(text) = &node.value else {
            let wanted = match definition {
                "#/$defs/TableRef" => "a table of another stage, written \"stage.table\"",
                "#/$defs/Source" => "a path, in quotes",
                _ => "a string, in quotes",
            };
            self.wrong(node, subject, wanted);
            return;
        };
        if schema.get("minLength").is_some() && text.is_empty() {
            self.wrong(node, subject, "a path");
        } else if let Some(pattern) = schema.get("pattern").and_then(Json::as_str)
            && !matches(pattern, text)
        {
            let wanted = match definition {
                "#/$defs/TableRef" => "a table of another stage, written \"stage.table\"".to_owned(),
                _ => format!("text of the form `{pattern}`"),
            };
            self.wrong(node, subject, &wanted);
        } else if definition == "#/$defs/TableRef" {
            self.references.push((text.clone(), node.place));
        } else if definition == "#/$defs/Source" {
            self.resolve_source(node, subject);
        }
    }

    /// Replaces `${NAME}`, makes the path relative to the current folder, and looks whether there is something.
    fn resolve_source(&mut self, node: &mut Node, subject: &Subject) {
        let Value::Text(text) = &node.value else { return };
        let begins_with_variable = text.starts_with("${");
        let mut path = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("${") {
            path.push_str(before);
            let Some((name, after)) = after.split_once('}').filter(|(name, _)| !name.is_empty()) else {
                self.wrong(node, subject, "`${NAME}` with a name and a closing brace");
                return;
            };
            rest = after;
            match (self.environment)(name) {
                Some(value) if !value.is_empty() => path.push_str(&value),
                _ if !self.sources_needed => {
                    path.push_str("${");
                    path.push_str(name);
                    path.push('}');
                }
                _ => {
                    let message = format!("{} names the environment variable `{name}`, which is not set", subject.name);
                    let fault = Fault::new(node.place, message);
                    self.faults.push(
                        fault.hint(format!("set it: `{name}=/path/to/it pairloom …`, or give the path with `--set`")),
                    );
                    return;
                }
            }
        }
        path.push_str(rest);
        if !node.place.is_argument() && !begins_with_variable {
            match self.folder.join(&path).into_os_string().into_string() {
                Ok(joined) => path = joined,
                Err(_) => self.wrong(node, subject, "a path of Unicode text, and so the folder of the pipeline file"),
            }
        }
        if self.sources_needed && !Path::new(&path).exists() {
            let message = format!("{} is `{path}`, and nothing is there", subject.name);
            self.faults.push(Fault::new(node.place, message).hint(
                if node.place.is_argument() || begins_with_variable {
                    "relative paths of `--set` and of environment variables start at the current folder"
                } else {
                    "relative paths start at the folder of the pipeline file"
                },
            ));
        }
        node.value = Value::Text(path);
    }

    fn check_integer(&mut self, node: &Node, schema: &Json, subject: &Subject) {
        let Value::Integer(number) = node.value else {
            self.wrong(node, subject, "an integer");
            return;
        };
        let (low, high) = bounds(schema);
        if number < low {
            self.wrong(node, subject, &format!("an integer of at least {low}"));
        } else if number > high {
            self.wrong(node, subject, &format!("an integer of at most {high}"));
        }
    }

    fn check_number(&mut self, node: &Node, schema: &Json, subject: &Subject) {
        let number = match node.value {
            Value::Float(number) if number.is_finite() => number,
            #[expect(clippy::cast_precision_loss, reason = "compared with bounds only")]
            Value::Integer(number) => number as f64,
            _ => return self.wrong(node, subject, "a finite number"),
        };
        let bound = |name| schema.get(name).and_then(Json::as_f64);
        if bound("minimum").is_some_and(|low| number < low) || bound("maximum").is_some_and(|high| number > high) {
            let low = bound("minimum").map(|low| format!("at least {low}"));
            let high = bound("maximum").map(|high| format!("at most {high}"));
            let wanted: Vec<_> = low.into_iter().chain(high).collect();
            self.wrong(node, subject, &wanted.join(" and "));
        }
    }

    fn check_array(&mut self, node: &mut Node, schema: &Json, subject: &Subject) {
        if !matches!(node.value, Value::Array(_)) {
            self.wrong(node, subject, "an array, written `[…]`");
            return;
        }
        let (Value::Array(items), Some(schema)) = (&mut node.value, schema.get("items")) else { return };
        for (i, item) in items.iter_mut().enumerate() {
            let name = format!("item {} of {}", i + 1, subject.name);
            let subject = Subject::new(name, item.place);
            self.check(item, schema, &subject);
        }
    }

    fn check_object(&mut self, node: &mut Node, schema: &Json, subject: &Subject) {
        if !matches!(node.value, Value::Table(_)) {
            self.wrong(node, subject, "a table, written `{ … }`");
            return;
        }
        let Value::Table(entries) = &mut node.value else { return };
        let empty = serde_json::Map::new();
        let properties = schema.get("properties").and_then(Json::as_object).unwrap_or(&empty);
        // Of a table whose names are free, as in `published = { all = 0.734 }`.
        let any = schema.get("additionalProperties").filter(|any| any.is_object());
        let required = schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str);
        // Settings that serde can do without are dropped when they are wrong: the rest of the stage can then be read, and
        // what else is wrong with it be found.
        entries.retain_mut(|entry| {
            let Some(property) = properties.get(&entry.key).or(any) else {
                let message = format!("{} has no setting `{}`", subject.name, entry.key);
                let names = properties.keys().map(String::as_str);
                self.faults.push(Fault::new(entry.key_place, message).valid(&entry.key, names));
                return false;
            };
            let before = self.faults.len();
            let subject = Subject::new(format!("`{}`", entry.key), entry.key_place);
            self.check(&mut entry.node, property, &subject);
            let kept = self.faults.len() == before || required.clone().any(|name| name == entry.key);
            if !kept {
                self.dropped.push(entry.key.clone());
            }
            kept
        });
        let absent = |name: &str| !entries.iter().any(|entry| entry.key == name);
        for name in required.clone().filter(|name| absent(name)) {
            let about = properties.get(name).map(|property| self.about(property)).unwrap_or_default();
            let fault = Fault::new(subject.place, format!("{} lacks the setting `{name}`", subject.name));
            self.faults.push(if about.is_empty() { fault } else { fault.note(format!("`{name}`: {about}")) });
        }
        if let Some(seed) = self.seed.clone().filter(|_| properties.contains_key("seed") && absent("seed")) {
            entries.push(Entry { key: "seed".to_owned(), key_place: seed.place, node: seed });
        }
    }

    /// What a setting means, in one line.
    fn about(&self, schema: &Json) -> String {
        let text = schema.get("description").or_else(|| resolve(self.definitions, schema).get("description"));
        text.and_then(Json::as_str).and_then(|text| text.lines().next()).unwrap_or_default().to_owned()
    }

    /// Checks a value that is one of several named alternatives: `"name"` or `{ name = … }`.
    pub(super) fn check_choice(&mut self, node: &mut Node, alternatives: &[Alternative<'_>], subject: &Subject) {
        self.argument_as_text(node);
        let names = alternatives.iter().map(|alternative| alternative.name);
        if let Value::Text(name) = &node.value {
            match alternatives.iter().find(|alternative| alternative.name == name) {
                None => {
                    let message = format!("{} is {}", subject.name, node.describe());
                    self.faults.push(Fault::new(node.place, message).valid(name, names));
                }
                Some(Alternative { by_name: true, content: None, .. }) => {}
                Some(Alternative { by_name: true, name, content: Some(content) }) => {
                    let entry = Entry { key: (*name).to_owned(), key_place: node.place, node: Node::empty(node.place) };
                    *node = Node { place: node.place, value: Value::Table(vec![entry]) };
                    self.check_content(node, content);
                }
                Some(Alternative { name, .. }) => {
                    let message = format!("{} is {name:?}, which needs a value", subject.name);
                    self.faults.push(Fault::new(node.place, message).hint(format!("write `{{ {name} = … }}`")));
                }
            }
            return;
        }
        let Value::Table(entries) = &mut node.value else {
            let message = format!("{} is {}, wanted one of {}", subject.name, node.describe(), quoted(names.clone()));
            self.faults.push(Fault::new(node.place, message));
            return;
        };
        if entries.is_empty() {
            let message = format!("{} is an empty table, wanted one of {}", subject.name, quoted(names.clone()));
            self.faults.push(Fault::new(subject.place, message));
        }
        if let [first, second, ..] = entries.as_slice()
            && entries.iter().all(|entry| names.clone().any(|name| name == entry.key))
        {
            let message = format!("{} is both `{}` and `{}`, wanted one", subject.name, first.key, second.key);
            self.faults.push(Fault::new(second.key_place, message));
        }
        for entry in entries {
            match alternatives.iter().find(|alternative| alternative.name == entry.key) {
                None => {
                    let message = format!("{} has no alternative `{}`", subject.name, entry.key);
                    self.faults.push(Fault::new(entry.key_place, message).valid(&entry.key, names.clone()));
                }
                Some(Alternative { content: Some(content), .. }) => {
                    let subject = Subject::new(format!("`{}`", entry.key), entry.key_place);
                    self.check(&mut entry.node, content, &subject);
                }
                Some(_) => {
                    let message = format!("`{}` takes no value, wanted {:?} alone", entry.key, entry.key);
                    self.faults.push(Fault::new(entry.key_place, message));
                }
            }
        }
    }

    /// Checks what stands under the one name of a table.
    fn check_content(&mut self, node: &mut Node, schema: &Json) {
        let Value::Table(entries) = &mut node.value else { return };
        for entry in entries {
            let subject = Subject::new(format!("`{}`", entry.key), entry.key_place);
            self.check(&mut entry.node, schema, &subject);
        }
    }
}

/// One of the named alternatives of a value.
pub(super) struct Alternative<'s> {
    pub(super) name: &'s str,
    /// Whether `"name"` alone will do.
    pub(super) by_name: bool,
    /// What stands behind the name in `{ name = … }`.
    pub(super) content: Option<&'s Json>,
}

impl<'s> Alternative<'s> {
    /// The alternatives of a schema, in the order of the Rust type.
    pub(super) fn all(schema: &'s Json) -> Vec<Self> {
        let mut all: Vec<Self> = Vec::new();
        let parts = schema.get("oneOf").and_then(Json::as_array).map_or(std::slice::from_ref(schema), Vec::as_slice);
        for part in parts {
            let several = part.get("enum").and_then(Json::as_array).into_iter().flatten();
            for name in part.get("const").into_iter().chain(several).filter_map(Json::as_str) {
                match all.iter_mut().find(|alternative| alternative.name == name) {
                    Some(known) => known.by_name = true,
                    None => all.push(Self { name, by_name: true, content: None }),
                }
            }
            if let Some((name, content)) = sole_property(part) {
                all.push(Self { name, by_name: false, content: Some(content) });
            }
        }
        all
    }
}

/// The type that a schema wants, null aside.
fn type_of(schema: &Json) -> &str {
    match schema.get("type") {
        Some(Json::String(name)) => name,
        Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).find(|name| *name != "null").unwrap_or(""),
        _ => "",
    }
}

/// The smallest and the largest integer that a schema allows. TOML itself ends at i64.
fn bounds(schema: &Json) -> (i128, i128) {
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

/// Whether `text` has the form of a pattern of the schema.
pub(super) fn matches(pattern: &str, text: &str) -> bool {
    Regex::new(pattern).is_ok_and(|pattern| pattern.is_match(text))
}
