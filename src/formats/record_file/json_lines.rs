//! JSON Lines: one JSON object a line.
//!
//! Format: <https://jsonlines.org>.

use std::path::Path;

use serde_json::{Map, Value};

use super::{FieldValue, RecordPlace};
use crate::json::has_more_values;
use crate::text_lines::{LineBreak, LineReader, NOT_UTF8_HINT};
use pairloom_base::error::{Result, TruncatedList, ValidationErrors, escape_line};

/// Calls `visit` for every object, with the values of the fields `names`. Blank lines are skipped.
///
/// # Errors
/// As [`RecordFile::for_each`](super::RecordFile::for_each). A column is missing if no object has it.
pub(super) fn for_each(
    path: &Path,
    gzip: bool,
    names: &[&str],
    hint: &str,
    check: impl Fn() -> Result<()>,
    mut visit: impl FnMut(RecordPlace, &[FieldValue<'_>]) -> Result<(), String>,
) -> Result<()> {
    let mut lines = LineReader::open(path, gzip, LineBreak::LineFeed)?;
    let mut mistakes = ValidationErrors::in_file(path);
    let mut first_keys: Option<Vec<String>> = None;
    let mut seen = vec![false; names.len()];
    while let Some((line, content)) = lines.next_line()? {
        check()?;
        let place = RecordPlace::Line(line);
        match parse_object(content) {
            Ok(None) => {}
            Err(problem) => {
                if line == 1 && content.trim_ascii_start().starts_with(b"[") {
                    mistakes
                        .hint("the file is one list: write one object a line, such as with `jq -c '.[]' FILE > NEW`");
                }
                if std::str::from_utf8(content).is_err() {
                    mistakes.hint(NOT_UTF8_HINT);
                }
                mistakes.add(place, problem);
            }
            Ok(Some(object)) => {
                first_keys.get_or_insert_with(|| object.keys().cloned().collect());
                for (seen, name) in seen.iter_mut().zip(names) {
                    *seen |= object.contains_key(*name);
                }
                let values: Vec<_> = names.iter().map(|name| FieldValue::of_json(object.get(*name))).collect();
                if let Err(problem) = visit(place, &values) {
                    mistakes.add(place, problem);
                }
            }
        }
    }
    if let Some(keys) = first_keys {
        let mut missing = ValidationErrors::in_file(path);
        for (name, _) in names.iter().zip(&seen).filter(|(_, seen)| !**seen) {
            missing.add(format_args!("field `{name}`"), "is in no line");
        }
        let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
        let mut present = TruncatedList::default();
        for key in keys {
            present.push(format_args!("`{}`", escape_line(&key)));
        }
        missing.hint(format!("the first line has {}{hint}", present.join(", ")));
        missing.into_result()?;
    }
    mistakes.into_result()
}

/// Names of the fields of the first object. Lines that are no objects are skipped, since [`for_each`] reports them.
///
/// # Errors
/// The file cannot be read.
pub(super) fn first_fields(path: &Path, gzip: bool) -> Result<Vec<String>> {
    let mut lines = LineReader::open(path, gzip, LineBreak::LineFeed)?;
    while let Some((_, content)) = lines.next_line()? {
        if let Ok(Some(object)) = parse_object(content) {
            return Ok(object.keys().cloned().collect());
        }
    }
    Ok(Vec::new())
}

/// Returns true if an object has the field `name`. Calls `check` before each line. Lines that are no objects are
/// skipped, since [`for_each`] reports them.
///
/// # Errors
/// The file cannot be read, or an error of `check`.
pub(super) fn has_field(path: &Path, gzip: bool, name: &str, check: impl Fn() -> Result<()>) -> Result<bool> {
    let key = format!("\"{name}\"");
    let mut lines = LineReader::open(path, gzip, LineBreak::LineFeed)?;
    while let Some((_, content)) = lines.next_line()? {
        check()?;
        // Most lines without the field need no parser.
        let may_have = std::str::from_utf8(content).is_ok_and(|text| text.contains(&key));
        if may_have && parse_object(content).is_ok_and(|object| object.is_some_and(|object| object.contains_key(name)))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Maximum number of values in a line.
const MAX_VALUES: usize = 1_000_000;

/// Parses the object of a line; `None` for a blank line.
fn parse_object(line: &[u8]) -> Result<Option<Map<String, Value>>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "bytes that are not UTF-8".to_owned())?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    if has_more_values(line, MAX_VALUES) {
        return Err(format!("more than {MAX_VALUES} values in a line"));
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err("no JSON object, expected one a line: `{\"name\": …}`".to_owned()),
        Err(error) => {
            let column = error.column();
            let reason = error.to_string();
            let reason = reason.split(" at line ").next().unwrap_or_default();
            Err(format!("no JSON object: {reason} in column {column}"))
        }
    }
}
