//! Tree of TOML values with their source spans, and diagnostics of a file that is not TOML, with hints for the usual slips.

use az::SaturatingAs;
use toml::de::{DeTable, DeValue};

use super::diagnostic::{Diagnostic, SourceSpan};

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

/// Form of a pipeline file, for hints.
const FORM: &str = "a pipeline file is TOML: tables `[stage.NAME.KIND]`, settings `name = value`";

/// Maximum number of errors of the parser with a diagnostic of their own. Others are counted: each looks at its line and at
/// those before it.
const MAX_ERRORS: usize = 200;

/// Diagnostics of the errors of the TOML parser in `text`.
pub(super) fn syntax_diagnostics(text: &str, errors: &[toml::de::Error]) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    // End of a table that is there twice. Its settings are no mistakes of their own.
    let mut repeated_until = 0;
    let mut has_colon = false;
    let mut errors: Vec<(SourceSpan, &toml::de::Error)> =
        errors.iter().map(|error| (SourceSpan::in_file(error.span().unwrap_or_default()), error)).collect();
    errors.sort_by_key(|(span, _)| *span);
    let more = errors.split_off(errors.len().min(MAX_ERRORS));
    for (span, error) in errors {
        let place = SyntaxPlace::new(text, span);
        if error.message().starts_with("duplicate key") {
            if span.start >= repeated_until {
                diagnostics.push(repeated(&place));
            }
            if place.is_header() {
                repeated_until = place.next_header();
            }
            continue;
        }
        let is_colon = place.after().trim_start().starts_with(':') || place.before().trim_end().ends_with(':');
        if !(is_colon && has_colon) {
            let reason =
                if is_colon { "got `:`, expected `=`".to_owned() } else { error.message().replace('\n', ", ") };
            let message = format!("not TOML: {reason}");
            let diagnostic = Diagnostic::new(span, message);
            diagnostics.push(match hint(&place, error.message(), is_colon) {
                Some(hint) => diagnostic.hint(hint),
                None => diagnostic,
            });
        }
        has_colon |= is_colon;
    }
    if let Some((span, _)) = more.first() {
        diagnostics.push(Diagnostic::new(*span, format!("not TOML: {} more places from here on", more.len())));
    }
    diagnostics
}

/// Hint about an error of the parser.
fn hint(place: &SyntaxPlace<'_>, message: &str, is_colon: bool) -> Option<String> {
    let got = place.text[place.span.start..place.span.end.max(place.span.start)].trim();
    let bare = got.trim_matches(['“', '”', '„', '‘', '’', '"', '\'']);
    if is_colon {
        Some(format!("a colon is YAML; {FORM}"))
    } else if place.text.trim_start().starts_with('{') {
        Some(format!("this looks like JSON; {FORM}"))
    } else if message.contains("must be quoted") && got != bare {
        Some(format!("use straight quotes: `\"{bare}\"`"))
    } else if message.contains("must be quoted") {
        Some(format!("write `\"{bare}\"`"))
    } else if place.before().ends_with(|c: char| c.is_ascii_digit()) && place.after().starts_with(',') {
        Some("decimals have a point: `0.1`".to_owned())
    } else if message.contains("unclosed table") && place.after().contains(']') {
        Some("names of stages have letters, digits, `-` and `_`".to_owned())
    } else {
        None
    }
}

/// Diagnostic of a key or a table that is there twice.
fn repeated(place: &SyntaxPlace<'_>) -> Diagnostic {
    let names = names(&place.text[place.line..place.span.end]);
    let first = place.first_line(&names).map(|line| format!("; the first is in line {line}")).unwrap_or_default();
    if place.is_header() {
        let message = format!("the table `[{}]` is there twice{first}", names.join("."));
        Diagnostic::new(place.span, message).hint("give one of the stages another name, or join the two tables")
    } else {
        let name = &place.text[place.span.start..place.span.end];
        Diagnostic::new(place.span, format!("`{name}` is set twice{first}")).hint("keep one of the two")
    }
}

/// Place of a syntax error in the text.
struct SyntaxPlace<'t> {
    text: &'t str,
    span: SourceSpan,
    /// Start of the line.
    line: usize,
}

impl<'t> SyntaxPlace<'t> {
    fn new(text: &'t str, span: SourceSpan) -> Self {
        let start = text.floor_char_boundary(span.start);
        let end = text.ceil_char_boundary(span.end.max(start));
        let line = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
        Self { text, span: SourceSpan::in_file(start..end), line }
    }

    /// Text of the line before the error.
    fn before(&self) -> &'t str {
        &self.text[self.line..self.span.start]
    }

    /// Text of the line from the error on.
    fn after(&self) -> &'t str {
        self.text[self.span.start..].lines().next().unwrap_or_default()
    }

    /// True if the line is the header of a table.
    fn is_header(&self) -> bool {
        is_header(&self.text[self.line..])
    }

    /// Start of the next header, or the end of the text.
    fn next_header(&self) -> usize {
        let mut at = self.span.end;
        while let Some(newline) = self.text[at..].find('\n') {
            at += newline + 1;
            if is_header(&self.text[at..]) {
                return at;
            }
        }
        self.text.len()
    }

    /// Number of the first line before the error with the same header, or with the same key in the same table.
    fn first_line(&self, path: &[String]) -> Option<usize> {
        let lines: Vec<&str> = self.text[..self.line].lines().collect();
        let table = lines.iter().rposition(|line| is_header(line)).map_or(0, |header| header + 1);
        let is_first = |line: &str| {
            let key = line.split(['=', ']']).next().unwrap_or_default();
            is_header(line) == self.is_header() && names(key) == path
        };
        let start = if self.is_header() { 0 } else { table };
        Some(start + lines[start..].iter().position(|line| is_first(line))? + 1)
    }
}

fn is_header(line: &str) -> bool {
    line.trim_start_matches([' ', '\t']).starts_with('[')
}

/// Names of a dotted key, without brackets and quotes.
fn names(key: &str) -> Vec<String> {
    let names = key.trim().trim_start_matches('[').split('.');
    names.map(|name| name.trim().trim_matches(['"', '\'']).to_owned()).filter(|name| !name.is_empty()).collect()
}
