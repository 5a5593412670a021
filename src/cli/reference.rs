//! The generated files of the checkout: the JSON Schema of pipeline files, and the reference in `docs/reference/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use clap::CommandFactory;
use clap_markdown::MarkdownOptions;
use serde_json::{Map, Value};

use super::args::Cli;
use super::schemas::pipeline_schema;
use pairloom_tables as tables;

/// Folder of the reference.
const REFERENCE: &str = "docs/reference";

/// First line of each page.
const MARK: &str =
    "<!-- Generated from the code: `UPDATE_GENERATED=1 cargo test --package pairloom-cli generated`. -->\n";

/// Page of the settings that several stages have.
const SHARED: &str = "shared-settings";

/// Page of what is beside the stages in a pipeline file.
const PIPELINE: &str = "pipeline-file";

/// Definition of the list of all stages.
const STAGES: &str = "AnyStage";

/// Path and content of every generated file.
fn generated_files() -> Vec<(String, String)> {
    let schema = pipeline_schema();
    let mut files = Settings::new(serde_json::from_str(&schema).expect("the schema is JSON")).pages();
    files.push(("command-line".to_owned(), command_line()));
    files.push(("tables".to_owned(), table_columns()));
    let pages = files.into_iter().map(|(page, text)| (format!("{REFERENCE}/{page}.md"), format!("{MARK}\n{text}")));
    std::iter::once(("schemas/pipeline.schema.json".to_owned(), schema)).chain(pages).collect()
}

/// Page of the command line.
fn command_line() -> String {
    let options = MarkdownOptions::new().title("Command line".to_owned()).show_footer(false);
    // The text must not depend on the width of the terminal or on environment variables.
    let command = Cli::command().term_width(0).mut_args(|argument| argument.hide_env_values(true));
    let text = clap_markdown::help_markdown_command_custom(&command, &options);
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    format!("{}\n", lines.join("\n").trim_end())
}

/// Page of the columns of all tables.
fn table_columns() -> String {
    let mut text =
        "# Tables\n\nThe tables that stages write. In SQL, `DESCRIBE stage.table` shows the same.\n".to_owned();
    for table in tables::all() {
        let _ = write!(
            text,
            "\n## `{}`\n\n{}\n\n| column | type | content |\n|---|---|---|\n",
            table.name, table.description
        );
        for column in &table.columns {
            let missing = if column.nullable { ", may be missing" } else { "" };
            let data_type = tables::column_type(&column.data_type);
            let _ = writeln!(text, "| `{}` | `{data_type}`{missing} | {} |", column.name, cell(&column.description));
        }
    }
    text
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    headings_in_bold(text).split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Description of an item, whose own headings are no headings of the page.
fn headings_in_bold(text: &str) -> String {
    let lines = text.lines().map(|line| match line.strip_prefix("# ") {
        Some(heading) => format!("**{heading}.**"),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Value in the form of TOML.
fn toml_value(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(toml_value).collect::<Vec<_>>().join(", ")),
        Value::Object(members) if members.is_empty() => "{}".to_owned(),
        Value::Object(members) => {
            let members = members.iter().map(|(name, member)| format!("{name} = {}", toml_value(member)));
            format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
        }
        _ => value.to_string(),
    }
}

/// Members of a JSON object, or none.
fn members<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = (&'v String, &'v Value)> {
    value.get(name).and_then(Value::as_object).into_iter().flatten()
}

/// Alternatives of a value, without the missing one.
fn alternatives(value: &Value) -> Option<Vec<&Value>> {
    let forms = value.get("oneOf").or_else(|| value.get("anyOf"))?.as_array()?;
    Some(forms.iter().filter(|form| form["type"] != "null").collect())
}

/// Name of the definition that a value refers to.
fn reference(value: &Value) -> Option<&str> {
    value.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

/// Settings of pipeline files, of which each definition is on one page.
struct Settings {
    definitions: Map<String, Value>,
    /// The schema without its definitions.
    root: Value,
    /// Definitions that are described on a page, in the order in which they are met.
    on_page: BTreeMap<String, Vec<String>>,
    /// Page of a definition.
    page_of: BTreeMap<String, String>,
}

impl Settings {
    fn new(mut root: Value) -> Self {
        let definitions = root.as_object_mut().and_then(|root| root.remove("$defs")).expect("definitions");
        let Value::Object(definitions) = definitions else { unreachable!("definitions are an object") };
        let mut this = Self { definitions, root, on_page: BTreeMap::new(), page_of: BTreeMap::new() };
        let mut reached = vec![(PIPELINE.to_owned(), this.reached(&this.root))];
        for (kind, stage) in this.stages() {
            this.page_of.insert(stage.clone(), format!("stages/{kind}"));
            reached.push((format!("stages/{kind}"), this.reached(&this.definitions[&stage])));
        }
        let mut pages_of = BTreeMap::<&String, BTreeSet<&String>>::new();
        for (page, names) in &reached {
            for name in names {
                pages_of.entry(name).or_default().insert(page);
            }
        }
        for (page, names) in &reached {
            for name in names {
                let page = if pages_of[name].len() == 1 { page.as_str() } else { SHARED };
                if this.page_of.insert(name.clone(), page.to_owned()).is_none() {
                    this.on_page.entry(page.to_owned()).or_default().push(name.clone());
                }
            }
        }
        this
    }

    /// Kinds of stages, each with its definition.
    fn stages(&self) -> Vec<(String, String)> {
        let forms = alternatives(&self.definitions[STAGES]).expect("a list of stages");
        let stages = forms.into_iter().flat_map(|form| members(form, "properties"));
        stages.map(|(kind, stage)| (kind.clone(), reference(stage).expect("a definition").to_owned())).collect()
    }

    /// Definitions that a value refers to, and those that they refer to, except stages.
    fn reached(&self, value: &Value) -> Vec<String> {
        let mut found = Vec::new();
        let mut open = vec![value];
        while let Some(value) = open.pop() {
            match reference(value) {
                Some(STAGES) => {}
                Some(name) if found.iter().any(|known| known == name) => {}
                Some(name) => {
                    found.push(name.to_owned());
                    open.push(&self.definitions[name]);
                }
                None => match value {
                    Value::Object(members) => open.extend(members.values().rev()),
                    Value::Array(items) => open.extend(items.iter().rev()),
                    _ => {}
                },
            }
        }
        found
    }

    /// Names and texts of the pages.
    fn pages(&self) -> Vec<(String, String)> {
        let mut pages = Vec::new();
        let mut text = "# Pipeline files\n\nThe tables and settings of a pipeline file.\n".to_owned();
        text += "Each kind of stage has a page of its own.\n\n";
        self.describe(PIPELINE, &self.root, &mut text);
        text += "\nKinds of stages:\n\n";
        for form in alternatives(&self.definitions[STAGES]).into_iter().flatten() {
            let about = cell(form["description"].as_str().unwrap_or_default());
            for (kind, _) in members(form, "properties") {
                let _ = writeln!(text, "- [`{kind}`](stages/{kind}.md): {about}");
            }
        }
        pages.push((PIPELINE.to_owned(), text));
        for (kind, stage) in self.stages() {
            let mut text = format!("# `{kind}`\n\n");
            self.describe(&format!("stages/{kind}"), &self.definitions[&stage], &mut text);
            pages.push((format!("stages/{kind}"), text));
        }
        pages
            .push((SHARED.to_owned(), "# Shared settings\n\nSettings that several kinds of stages have.\n".to_owned()));
        for (page, text) in &mut pages {
            for name in self.on_page.get(page).into_iter().flatten() {
                let _ = write!(text, "\n## {name}\n\n");
                self.describe(page, &self.definitions[name], text);
            }
            *text = text.replace("\n\n\n", "\n\n");
        }
        pages
    }

    /// Description of a definition: its settings, or its alternatives.
    fn describe(&self, page: &str, value: &Value, text: &mut String) {
        if let Some(description) = value["description"].as_str() {
            let _ = write!(text, "{}\n\n", headings_in_bold(description));
        }
        let Some(forms) = alternatives(value) else {
            match value["type"].as_str() {
                Some("object") => self.settings(page, value, text),
                _ => {
                    let _ = writeln!(text, "Value: {}.", self.value(page, value));
                }
            }
            return;
        };
        let constants: Vec<&Value> = forms.iter().filter_map(|form| form.get("const")).collect();
        let constant = |name: &str| constants.iter().any(|constant| *constant == name);
        let mut short_forms = String::new();
        for form in forms {
            let Some((name, inner)) = members(form, "properties").next() else {
                // A form without settings that also has a long form is described there.
                let long = |name: &str| value.to_string().contains(&format!("\"required\":[\"{name}\"]"));
                if !form["const"].as_str().is_some_and(long) {
                    let about =
                        form["description"].as_str().map_or_else(String::new, |text| format!(": {}", cell(text)));
                    let _ = writeln!(short_forms, "- {}{about}", self.value(page, form));
                }
                continue;
            };
            let about = form["description"].as_str().or_else(|| inner["description"].as_str()).unwrap_or_default();
            let short = if constant(name) { format!("`\"{name}\"` or ") } else { String::new() };
            let inline = members(inner, "properties").next().is_some();
            let kind = if inline || inner["type"] == "object" { "{ … }".to_owned() } else { "…".to_owned() };
            let link = reference(inner).map_or_else(String::new, |name| format!(" ({})", self.link(page, name)));
            let _ = write!(text, "\n{short}`{{ {name} = {kind} }}`{link}: {}\n\n", headings_in_bold(about));
            if inline {
                self.settings(page, inner, text);
            }
        }
        if !short_forms.is_empty() {
            let _ = write!(text, "\n{short_forms}");
        }
    }

    /// Table of settings.
    fn settings(&self, page: &str, value: &Value, text: &mut String) {
        let needed = |name: &str| value["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
        let more = value.get("additionalProperties").filter(|more| more.is_object());
        let own: Vec<_> = members(value, "properties").collect();
        if own.is_empty() && more.is_none() {
            return;
        }
        *text += "| setting | value | default | content |\n|---|---|---|---|\n";
        for (name, setting) in own {
            let default = match setting.get("default") {
                _ if needed(name) => "required".to_owned(),
                None | Some(Value::Null) => "–".to_owned(),
                Some(default) => format!("`{}`", toml_value(default)),
            };
            let about = cell(setting["description"].as_str().unwrap_or_default());
            let _ = writeln!(
                text,
                "| `{name}` | {} | {} | {about} |",
                self.value(page, setting),
                default.replace('|', "\\|")
            );
        }
        if let Some(more) = more {
            let _ = writeln!(text, "| any other name | {} | – | |", self.value(page, more));
        }
    }

    /// Type of a value, with links to definitions.
    fn value(&self, page: &str, value: &Value) -> String {
        if let Some(name) = reference(value) {
            return self.link(page, name);
        }
        if let Some(constant) = value.get("const") {
            return format!("`{constant}`");
        }
        if let Some(choices) = value["enum"].as_array() {
            return choices.iter().map(|choice| format!("`{choice}`")).collect::<Vec<_>>().join(", ");
        }
        if let Some(forms) = alternatives(value) {
            return forms.iter().map(|form| self.value(page, form)).collect::<Vec<_>>().join(" or ");
        }
        let types = match &value["type"] {
            Value::Array(types) => types.iter().filter_map(Value::as_str).filter(|name| *name != "null").collect(),
            other => other.as_str().into_iter().collect::<Vec<_>>(),
        };
        let named = |name: &str| match name {
            "integer" | "number" => {
                let kind = if name == "integer" { "whole number" } else { "number" };
                let least = value["minimum"].as_f64().filter(|least| *least != 0.0);
                least.map_or_else(|| kind.to_owned(), |least| format!("{kind}, at least {least}"))
            }
            "string" => "text".to_owned(),
            "boolean" => "true or false".to_owned(),
            "array" => format!("list of {}", self.value(page, &value["items"])),
            "object" => {
                let names: Vec<_> = members(value, "properties").map(|(name, _)| format!("`{name}`")).collect();
                match value.get("additionalProperties").filter(|more| more.is_object()) {
                    _ if !names.is_empty() => format!("table with {}", names.join(", ")),
                    Some(more) if more["type"] != "object" => {
                        format!("table of names, each with {}", self.value(page, more))
                    }
                    _ => "table".to_owned(),
                }
            }
            other => other.to_owned(),
        };
        types.into_iter().map(named).collect::<Vec<_>>().join(" or ")
    }

    /// Link to a definition.
    fn link(&self, page: &str, name: &str) -> String {
        if name == STAGES {
            return "a stage".to_owned();
        }
        let (other, anchor) = (&self.page_of[name], name.to_lowercase());
        let path = match (page == other, page.contains('/')) {
            (true, _) => String::new(),
            (false, true) => format!("../{other}.md"),
            (false, false) => format!("{other}.md"),
        };
        format!("[{name}]({path}#{anchor})")
    }
}

/// The committed files equal the generated ones.
#[test]
fn generated_files_are_up_to_date() {
    let root = test_data::root();
    let update = std::env::var_os("UPDATE_GENERATED").is_some();
    let mut stale = Vec::new();
    let files: BTreeMap<String, String> = generated_files().into_iter().collect();
    for (name, content) in &files {
        let path = root.join(name);
        if std::fs::read_to_string(&path).ok().as_ref() == Some(content) {
            continue;
        }
        if update {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, content).unwrap();
        } else {
            stale.push(name.clone());
        }
    }
    for folder in ["schemas", REFERENCE, &format!("{REFERENCE}/stages")] {
        for entry in std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            // A program with DataFusion writes the page of its functions: `tests/it/book.rs`.
            let other = entry.path().is_dir() || name.ends_with("sql-functions.md");
            if other || files.contains_key(&name) {
                continue;
            }
            if update {
                std::fs::remove_file(entry.path()).unwrap();
            } else {
                stale.push(format!("{name} (no longer generated)"));
            }
        }
    }
    let command = "UPDATE_GENERATED=1 cargo test --package pairloom-cli generated";
    assert!(stale.is_empty(), "out of date: {stale:?}; `{command}` writes them");
}

/// A schema by hand: a definition of one stage is on its page, one of two stages on the shared page.
#[test]
fn settings_are_described_where_they_are_used() {
    let schema = serde_json::json!({
        "$defs": {
            "AnyStage": { "oneOf": [
                { "properties": { "fit": { "$ref": "#/$defs/Fit" } }, "required": ["fit"] },
                { "properties": { "rank": { "$ref": "#/$defs/Rank" } }, "required": ["rank"] },
            ] },
            "Fit": { "description": "Fits.", "type": "object", "required": ["loss"], "properties": {
                "loss": { "$ref": "#/$defs/Loss", "description": "The loss." },
                "split": { "$ref": "#/$defs/Split" },
            } },
            "Loss": { "oneOf": [
                { "required": ["max"], "properties": { "max": { "type": "object", "description": "Hardest.",
                    "properties": { "margin": { "type": "number", "default": 0.2, "description": "α | β" } } } } },
                { "const": "max" },
                { "const": "sum", "description": "All." },
            ] },
            "Rank": { "type": "object", "properties": { "split": { "$ref": "#/$defs/Split" } } },
            "Split": { "type": ["string", "null"], "description": "A split." },
        },
        "type": "object",
        "properties": { "stage": { "type": "object", "additionalProperties": { "$ref": "#/$defs/AnyStage" } } },
    });
    let pages: BTreeMap<_, _> = Settings::new(schema).pages().into_iter().collect();
    assert_eq!(
        pages["stages/fit"],
        "# `fit`\n\nFits.\n\n| setting | value | default | content |\n|---|---|---|---|\n\
         | `loss` | [Loss](#loss) | required | The loss. |\n\
         | `split` | [Split](../shared-settings.md#split) | – |  |\n\
         \n## Loss\n\n`\"max\"` or `{ max = { … } }`: Hardest.\n\n\
         | setting | value | default | content |\n|---|---|---|---|\n\
         | `margin` | number | `0.2` | α \\| β |\n\n- `\"sum\"`: All.\n"
    );
    assert!(pages[SHARED].ends_with("\n## Split\n\nA split.\n\nValue: text.\n"), "{}", pages[SHARED]);
}
