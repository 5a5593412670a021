//! JSON Lines: one JSON object a line.
//!
//! Format: <https://jsonlines.org>.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use az::SaturatingAs;
use serde_json::{Map, Value};

use super::{FieldValue, RecordPlace};
use crate::error::{Error, Result, ValidationErrors};
use crate::io::bounded;

/// Calls `visit` for every object, with the values of the fields `names`. Blank lines are skipped.
///
/// # Errors
/// As [`RecordFile::for_each`](super::RecordFile::for_each). A column is missing if no object has it.
pub(super) fn for_each(
    path: &Path,
    gzip: bool,
    names: &[&str],
    hint: &str,
    mut visit: impl FnMut(RecordPlace, &[FieldValue<'_>]) -> Result<(), String>,
) -> Result<()> {
    let mut reader = BufReader::new(bounded::open_text(path, gzip)?);
    let mut mistakes = ValidationErrors::in_file(path);
    let mut first_keys: Option<Vec<String>> = None;
    let mut seen = vec![false; names.len()];
    let (mut line, mut bytes, mut content) = (0u64, 0u64, Vec::new());
    loop {
        content.clear();
        let read = reader.read_until(b'\n', &mut content).map_err(|error| Error::io("read", path, &error))?;
        if read == 0 {
            break;
        }
        line += 1;
        bytes += read.saturating_as::<u64>();
        let place = RecordPlace::Line(line);
        match parse_object(&content, line == 1) {
            Ok(None) => {}
            Err(problem) => mistakes.add(place, problem),
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
    if bytes >= bounded::MAX_LIST_BYTES {
        return Err(Error::data(format!(
            "`{}` has more than {} bytes of text",
            path.display(),
            bounded::MAX_LIST_BYTES
        )));
    }
    if let Some(keys) = first_keys {
        let mut missing = ValidationErrors::in_file(path);
        for (name, _) in names.iter().zip(&seen).filter(|(_, seen)| !**seen) {
            missing.add(format_args!("field `{name}`"), "is in no line");
        }
        let hint = if hint.is_empty() { String::new() } else { format!("; {hint}") };
        missing.hint(format!("the first line has `{}`{hint}", keys.join("`, `")));
        missing.into_result()?;
    }
    mistakes.into_result()
}

/// Parses the object of a line; `None` for a blank line.
fn parse_object(line: &[u8], first: bool) -> Result<Option<Map<String, Value>>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "bytes that are not UTF-8".to_owned())?;
    let text = if first { text.trim_start_matches('\u{feff}') } else { text }.trim();
    if text.is_empty() {
        return Ok(None);
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(Some(object)),
        Ok(_) => Err("no JSON object, wanted one a line: `{\"name\": …}`".to_owned()),
        Err(error) => {
            let column = error.column();
            let reason = error.to_string();
            let reason = reason.split(" at line ").next().unwrap_or_default();
            Err(format!("no JSON object: {reason} in column {column}"))
        }
    }
}
