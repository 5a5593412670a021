//! Mistakes with quotes, which swallow rows: a quote that is never closed, or is closed by a quote far below.
//!
//! | text of the file | Python's `csv`, strict | `DuckDB` | pandas | here |
//! |---|---|---|---|---|
//! | a quote that is never closed | error | error | error | error |
//! | text after a closing quote | error | error | joined | error |
//! | a quoted field of several lines | field | field | field | field |
//! | …, one of which looks like a row | field | field | field | field, with a warning |
//! | …, at least four, all of which look like rows | field | field | field | error |
//!
//! A line looks like a row if it has as many fields as the table has columns. The last line of a field in the first
//! column has so many in any case, and is not counted.

use super::DelimitedRecord;
use crate::text_lines::MAX_LINE_BYTES;
use pairloom_base::error::Severity;
use pairloom_storage::image_names::shown_name;

/// Number of lines of one field that are rows beyond doubt, if all of them look so.
const ROWS_BEYOND_DOUBT: usize = 3;
/// Number of characters of the file that a message shows.
const SHOWN: usize = 24;

/// Hint for mistakes with quotes.
macro_rules! quote_hint {
    () => {
        "a field that starts with a quote must end with one, and quotes inside are doubled: `\"a \"\"big\"\" dog\"`"
    };
}

/// Mistake with quotes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QuoteMistake {
    /// Line of the opening quote.
    pub(super) line: u64,
    pub(super) message: String,
    pub(super) severity: Severity,
    pub(super) hint: &'static str,
}

/// Returns the first mistake with quotes in a record of a table with `columns` columns.
pub(super) fn quote_mistake(record: &DelimitedRecord, separator: u8, columns: usize) -> Option<QuoteMistake> {
    let mistake = |line, message, severity| Some(QuoteMistake { line, message, severity, hint: quote_hint!() });
    if !record.raw.contains(&b'"') {
        return None;
    }
    if let Some(Quoted { field, open, close }) = first_text_after_quote(&record.raw, separator) {
        let (line, end) = (record.line_of(open), record.line_of(close));
        let shown = String::from_utf8_lossy(&record.raw[close..]);
        let shown: String = shown_name(shown.lines().next().unwrap_or_default()).chars().take(SHOWN).collect();
        let message = if line == end {
            format!("field {field} has text after its closing quote: `{shown}`")
        } else {
            format!("field {field} starts with a quote, which the next quote, in line {end}, does not close: `{shown}`")
        };
        return mistake(line, message, Severity::Error);
    }
    let (field, line) = record.open?;
    let last = record.last_line();
    if record.is_too_long {
        let message = format!(
            "field {} starts with a quote, and its row is longer than {} MiB: is its quote closed?",
            field + 1,
            MAX_LINE_BYTES >> 20
        );
        return mistake(line, message, Severity::Error);
    }
    if !record.is_complete {
        let swallowed = match last - line {
            0 => String::new(),
            1 => ", and so swallows the line after it".to_owned(),
            lines => format!(", and so swallows the {lines} lines after it"),
        };
        let message = format!("field {} starts with a quote that is never closed{swallowed}", field + 1);
        return mistake(line, message, Severity::Error);
    }
    let later = record.line_starts.len().saturating_sub(1);
    let lines = if field == 0 { later.saturating_sub(1) } else { later };
    let looks_like_row = |line: &&[u8]| columns > 1 && field_count(line, separator) == columns;
    let rows = record.later_lines().take(lines).filter(looks_like_row).count();
    match rows {
        0 => None,
        rows if rows == lines && rows >= ROWS_BEYOND_DOUBT => Some(QuoteMistake {
            line,
            message: format!(
                "a quoted field goes on to line {last}, over {rows} lines that look like rows: is its quote closed?"
            ),
            severity: Severity::Error,
            hint: concat!(quote_hint!(), "; or replace line breaks inside of captions by spaces"),
        }),
        rows => mistake(
            line,
            format!("a quoted field goes on to line {last}, and lines of it look like rows: {rows} of {}", later + 1),
            Severity::Warning,
        ),
    }
}

/// Quoted field: its number from 1, and the places of its quotes.
struct Quoted {
    field: usize,
    open: usize,
    close: usize,
}

/// Finds the first quoted field that goes on after its closing quote.
fn first_text_after_quote(record: &[u8], separator: u8) -> Option<Quoted> {
    let ends_field = |byte: Option<&u8>| byte.is_none_or(|byte| *byte == separator || matches!(byte, b'\n' | b'\r'));
    let (mut at, mut field) = (0, 1);
    while at < record.len() {
        if record[at] == b'"' {
            let open = at;
            loop {
                at += 1 + record[at + 1..].iter().position(|&byte| byte == b'"')?;
                if record.get(at + 1) != Some(&b'"') {
                    break;
                }
                at += 1;
            }
            if !ends_field(record.get(at + 1)) {
                return Some(Quoted { field, open, close: at });
            }
        }
        at += record[at..].iter().position(|&byte| byte == separator)? + 1;
        field += 1;
    }
    None
}

/// Number of fields of a line without quotes.
fn field_count(line: &[u8], separator: u8) -> usize {
    line.split(|&byte| byte == separator).count()
}
