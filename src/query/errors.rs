//! Errors of DataFusion as ours, with the place in the query and the nearest names.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use arrow::error::ArrowError;
use datafusion::common::{Column, Diagnostic, SchemaError, TableReference};
use datafusion::error::DataFusionError;
use datafusion::parquet::errors::ParquetError;

use crate::names::{
    first_word, is_compared_with, is_double_quoted, nearest_names, only_call_of, quote_identifier,
    quoted_hyphenated_name, quoted_instance_name,
};
use crate::query_options::MAX_TEMPORARY_BYTES;
use crate::vectors::VectorMeasure;
use pairloom_base::error::{Error, ErrorCategory, Result, TruncatedList, is_control};
use pairloom_base::suggest::closest_name;

/// Characters shown of a line of the query, around the place of the error.
const SHOWN_CHARS: usize = 100;

/// Forms of a function that a message names.
const SHOWN_FORMS: usize = 5;
/// Tables of a query that a message names.
const SHOWN_TABLES: usize = 5;

/// First words of statements that a session runs.
const FIRST_WORDS: [&str; 6] = ["SELECT", "WITH", "SHOW", "DESCRIBE", "EXPLAIN", "VALUES"];

/// Line and column in a query, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct QueryPlace {
    line: usize,
    column: usize,
}

/// Converts an error of planning or running the query `sql`.
pub(super) fn query_error(error: &DataFusionError, sql: &str) -> Error {
    let error = located_error(error, sql);
    if error.category() != ErrorCategory::Usage {
        return error;
    }
    // The name is wrong in every query that has it, and its parts say nothing to the reader.
    match quoted_hyphenated_name(sql) {
        Some(name) => error.hint(format!("a name with a hyphen needs double quotes: `{name}`")),
        None => match quoted_instance_name(sql) {
            Some(name) => error.hint(format!("the name of an instance needs double quotes: `{name}`")),
            None => error,
        },
    }
}

/// Converts an error, with its place if it is one of the query's text.
fn located_error(error: &DataFusionError, sql: &str) -> Error {
    let span = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    let span_place = span.and_then(|span| {
        Some(QueryPlace {
            line: usize::try_from(span.start.line).ok()?,
            column: usize::try_from(span.start.column).ok()?,
        })
    });
    match error.find_root() {
        DataFusionError::SQL(parser_error, _) => {
            let message = parser_error.to_string();
            let (message, place) = split_place(message.trim_start_matches("sql parser error: "));
            syntax_error(message, sql, place.or(span_place))
        }
        DataFusionError::SchemaError(schema_error, _) => match &**schema_error {
            SchemaError::FieldNotFound { field, valid_fields } => {
                if let Some(table) = field.relation.as_ref().filter(|table| !is_table_of(table, valid_fields)) {
                    return absent_table_error(table, &field.name, valid_fields, &SourceExcerpt::new(sql, span_place));
                }
                let error = unknown_column_error(&field.name, valid_fields, &SourceExcerpt::new(sql, span_place));
                let is_column = valid_fields.iter().any(|column| column.name.eq_ignore_ascii_case(&field.name));
                if is_double_quoted(&field.name, sql) && !is_column {
                    return error.hint(format!("single quotes are for text: `'{}'`", field.name.replace('\'', "''")));
                }
                if error.hint_text().is_none() && is_compared_with(&field.name, sql) {
                    return error.hint(format!("a text needs single quotes: `'{}'`", field.name));
                }
                error
            }
            SchemaError::AmbiguousReference { field } => {
                let excerpt = SourceExcerpt::new(sql, span_place);
                let message = format!("SQL: several tables have a column `{}`{}", field.name, excerpt.place);
                Error::usage(message + &excerpt.lines).hint(format!("name the table too: `table.{}`", field.name))
            }
            _ => sql_error(error),
        },
        DataFusionError::External(_) => sql_error(error),
        root => match error.diagnostic() {
            Some(diagnostic) => diagnostic_error(diagnostic, &SourceExcerpt::new(sql, span_place)),
            None => match root {
                DataFusionError::Plan(message) => match message.strip_prefix("Invalid qualifier ") {
                    Some(table) => Some(Error::usage(format!("SQL: there is no table `{table}` in this query"))),
                    None => argument_error(message, sql),
                },
                _ => None,
            }
            .unwrap_or_else(|| sql_error(error)),
        },
    }
}

/// Error that DataFusion describes for a reader, with its first advice.
fn diagnostic_error(Diagnostic { message, helps, notes, .. }: &Diagnostic, excerpt: &SourceExcerpt) -> Error {
    let error = Error::usage(format!("SQL: {}{}{}", lower_first(message), excerpt.place, excerpt.lines));
    let advice = helps.first().map(|help| &help.message).or(notes.first().map(|note| &note.message));
    match advice {
        Some(advice) => error.hint(lower_first(advice)),
        None => error,
    }
}

/// Error for arguments of a function that have other types than it takes; `None` for another message.
fn argument_error(message: &str, sql: &str) -> Option<Error> {
    let (reason, rest) = message.split_once("No function matches the given name and argument types '")?;
    let (call, forms) = rest.split_once("'. You might need to add explicit type casts.")?;
    let (name, types) = call.strip_suffix(')')?.split_once('(')?;
    let forms: Vec<&str> = forms.lines().map(str::trim).filter(|form| form.ends_with(')')).collect();
    let (line, column) = only_call_of(name, sql).unwrap_or_default();
    let error = |message: &str| error_at(message, "", sql, line, column);
    // Our own functions say what they expect.
    if let Some((_, own)) = reason.split_once("user-defined coercion failed with: ") {
        return Some(error(one_line(own.trim()).trim_start_matches("Error during planning: ")));
    }
    if name.contains("percentile") && types.contains(", List(") {
        let hint = format!("write a call for each share: `{name}(0.25) WITHIN GROUP (ORDER BY x)`, and so on");
        return Some(error(&format!("`{name}` of a list of shares, expected one number from 0 to 1")).hint(hint));
    }
    let names = |words: &[&str], text: &str| words.iter().any(|word| text.contains(word));
    let takes_numbers =
        |form: &&str| names(&["Decimal", "Float", "Int", "Numeric"], form) && !names(&["String", "Utf8"], form);
    if types.contains("Utf8") && !types.contains("List(") && forms.iter().any(takes_numbers) {
        let hint = "`try_cast(x AS DOUBLE)` is missing where a text such as `n/a` is no number, and `CAST(x AS DOUBLE)` is \
                    an error there";
        return Some(error(&format!("`{name}` of a text, expected numbers")).hint(hint));
    }
    let mut expected = TruncatedList::new(SHOWN_FORMS);
    expected.extend(forms.iter().map(|form| format!("`{form}`")));
    let message = format!("there is no `{call}`; there are {}", expected.join(", "));
    Some(error(&message).hint("`CAST(x AS type)` changes a type"))
}

/// Error about a place of the query, which is named before `more`.
pub(super) fn error_at(message: &str, more: &str, sql: &str, line: u64, column: u64) -> Error {
    let place = usize::try_from(line).ok().zip(usize::try_from(column).ok());
    let excerpt = SourceExcerpt::new(sql, place.map(|(line, column)| QueryPlace { line, column }));
    Error::usage(format!("SQL: {message}{}{more}{}", excerpt.place, excerpt.lines))
}

/// Error for a query that is no SQL.
fn syntax_error(message: &str, sql: &str, place: Option<QueryPlace>) -> Error {
    let message = match message.strip_prefix("Expected: ") {
        None => lower_first(message),
        Some(expected) => match expected.split_once(", found: ") {
            Some((expected, "EOF")) => format!("expected {expected}, found the end of the query"),
            Some((expected, found)) => format!("expected {expected}, found `{found}`"),
            None => format!("expected {expected}"),
        },
    };
    let excerpt = SourceExcerpt::new(sql, place);
    let error = Error::usage(format!("SQL: {message}{}{}", excerpt.place, excerpt.lines));
    let first_word = first_word(sql);
    let first_word = first_word.as_deref();
    // Operators of pgvector.
    if sql.contains("<->") {
        error.hint("the Euclidean distance of vectors is `array_distance(a, b)`")
    } else if first_word.is_some_and(|word| word.eq_ignore_ascii_case("copy")) {
        // Options of `COPY` in the forms of other programs.
        no_copy()
    } else if sql.contains("<#>") {
        error.hint("the inner product of vectors is `inner_product(a, b)`")
    } else if sql.contains("<+>") {
        error.hint("the L1 distance of vectors is `l1_distance(a, b)`")
    } else if ["<~>", "<%>"].iter().any(|operator| sql.contains(operator)) {
        let names = VectorMeasure::ALL.map(VectorMeasure::name).join(", ");
        error.hint(format!("vectors of bits have no distance here; the measures of vectors are {names}"))
    } else if let Some(keyword) = first_word.and_then(|word| closest_name(word, FIRST_WORDS))
        && first_word.is_some_and(|word| !word.eq_ignore_ascii_case(keyword))
    {
        error.hint(format!("did you mean `{keyword}`?"))
    } else {
        error
    }
}

/// Converts an error: a data error if reading failed, otherwise a usage error of the query. An error of this crate keeps
/// its category, message and hint.
pub(super) fn sql_error(error: &DataFusionError) -> Error {
    if let Some(ours) = causes(error).find_map(|cause| cause.downcast_ref::<Error>()) {
        return ours.clone();
    }
    let usage = |message: &str| Error::usage(format!("SQL: {}", lower_first(&one_line(message))));
    if let Some(message) = condition_failure(error) {
        return usage(message);
    }
    let root = error.find_root();
    if causes(error).any(is_read_error) {
        return damaged_table(&one_line(&root.strip_backtrace()));
    }
    if let Some(kind) = file_error_kind(error) {
        return file_error(kind, &one_line(&root.strip_backtrace()));
    }
    match root {
        DataFusionError::Internal(message) => Error::internal(format!("SQL: {}", one_line(message))),
        DataFusionError::ResourcesExhausted(message) => Error::stage(format!("SQL: {}", one_line(message)))
            .hint("read fewer rows or columns, or allow more with `--query-memory` of the command, the server or the executors"),
        DataFusionError::ArrowError(error, _) if matches!(**error, ArrowError::DivideByZero) => {
            Error::usage("SQL: division by zero").hint("`x / NULLIF(y, 0)` is a missing value where y is 0")
        }
        DataFusionError::ArrowError(error, _) => usage(&error.to_string()),
        DataFusionError::Plan(message) | DataFusionError::Execution(message) | DataFusionError::NotImplemented(message) => {
            usage(message)
        }
        other => usage(&other.strip_backtrace()),
    }
}

fn one_line(message: &str) -> String {
    // The lines show the expression, and where it is wrong.
    let reason = message.split_once("regex parse error:").and_then(|(_, lines)| lines.split_once("\nerror: "));
    if let Some(reason) = reason.and_then(|(_, reason)| reason.lines().next()) {
        return format!("a regular expression is wrong: {reason}");
    }
    message.trim_end_matches(['.', '\n']).replace(['\n', '\t'], " ")
}

/// Message about a condition that the reader of Parquet could not compute. That is no error of the file.
pub(super) fn condition_failure(error: &DataFusionError) -> Option<&str> {
    causes(error).find_map(|cause| match cause.downcast_ref()? {
        ParquetError::External(inner) => match inner.downcast_ref()? {
            ArrowError::ComputeError(message) => Some(message.as_str()),
            _ => None,
        },
        _ => None,
    })
}

/// Error for a file that cannot be read, with what the reader says about it.
fn damaged_table(message: &str) -> Error {
    Error::data(format!("cannot read a table: {message}"))
        .hint("run the pipeline again, which rebuilds damaged results; copy a file of `--file`, or create it again")
}

/// An error and its causes, outermost first.
fn causes(error: &DataFusionError) -> impl Iterator<Item = &(dyn std::error::Error + 'static)> {
    let first: &(dyn std::error::Error + 'static) = error;
    std::iter::successors(Some(first), |error| error.source())
}

/// True for an error of a file, or of its format.
fn is_read_error(error: &(dyn std::error::Error + 'static)) -> bool {
    matches!(error.downcast_ref(), Some(ArrowError::ParquetError(_)))
        || error.is::<ParquetError>()
        || error.is::<object_store::Error>()
}

/// Kind of an error of reading or writing a file that is not in the store: a temporary file, or one of `--file`.
fn file_error_kind(error: &DataFusionError) -> Option<ErrorKind> {
    causes(error).find_map(|cause| match cause.downcast_ref() {
        Some(ArrowError::IoError(_, error)) => Some(error.kind()),
        _ => cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind),
    })
}

/// Error for a file that is not in the store.
fn file_error(kind: ErrorKind, message: &str) -> Error {
    let fewer = "read fewer rows or columns, or allow more memory with `--query-memory`";
    if message.contains("exceeded the allowable limit") {
        let gib = MAX_TEMPORARY_BYTES >> 30;
        return Error::stage(format!("SQL: the query needs more than {gib} GiB of temporary files")).hint(fewer);
    }
    match kind {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            Error::stage(format!("SQL: a temporary file cannot be written: {message}"))
                .hint(format!("free space in the folder that `TMPDIR` names, by default `/tmp`; or {fewer}"))
        }
        ErrorKind::InvalidData | ErrorKind::UnexpectedEof => {
            Error::data(format!("SQL: a file cannot be read: {message}"))
        }
        _ => Error::stage(format!("SQL: a file cannot be read or written: {message}"))
            .hint("it is one of `--file`, or a temporary one in the folder that `TMPDIR` names, by default `/tmp`"),
    }
}

/// Error for a statement that would write.
pub(super) fn read_only() -> Error {
    Error::usage("SQL: the store is read-only, expected a query").hint("only `pairloom run` writes to a store")
}

/// Error for a statement that would write its result to a file.
pub(super) fn no_copy() -> Error {
    Error::usage("SQL: the store is read-only, and a query writes no files")
        .hint("the command writes the result of a query to a file: `pairloom sql QUERY --output FILE`")
}

/// Error for an unknown column, with at most five near columns of the tables of the query.
fn unknown_column_error(name: &str, valid: &[Column], excerpt: &SourceExcerpt) -> Error {
    let near = nearest_names(name, valid.iter().map(|column| column.name.as_str()));
    let names: Vec<String> = near.iter().map(|(_, name)| quote_identifier(name)).collect();
    let there = match (names.len(), valid.len()) {
        (0, _) => String::new(),
        (shown, all) if shown == all => format!("; there are {}", names.join(", ")),
        _ => format!("; the nearest are {}", names.join(", ")),
    };
    let error = Error::usage(format!("SQL: there is no column `{name}`{}{there}{}", excerpt.place, excerpt.lines));
    match near.first() {
        Some((distance, near)) if *distance <= 1 + name.len() / 4 => {
            error.hint(format!("did you mean `{}`?", quote_identifier(near)))
        }
        _ => error,
    }
}

/// True if one of the columns is of this table. A table with a schema can be named without it.
fn is_table_of(table: &TableReference, columns: &[Column]) -> bool {
    let is_it = |known: &TableReference| {
        known.table() == table.table() && (table.schema().is_none() || known.schema() == table.schema())
    };
    columns.iter().any(|column| column.relation.as_ref().is_some_and(is_it))
}

/// Error for a column of a table that the query does not read, or reads under another name.
fn absent_table_error(table: &TableReference, column: &str, valid: &[Column], excerpt: &SourceExcerpt) -> Error {
    let name = |table: &TableReference| {
        let parts = [table.catalog(), table.schema(), Some(table.table())];
        parts.into_iter().flatten().map(quote_identifier).collect::<Vec<_>>().join(".")
    };
    let mut tables = TruncatedList::new(SHOWN_TABLES);
    let mut seen = BTreeSet::new();
    let found = valid.iter().filter_map(|column| column.relation.as_ref().map(name));
    tables.extend(found.filter(|name| seen.insert(name.clone())));
    let there = if seen.is_empty() { String::new() } else { format!("; there are {}", tables.join(", ")) };
    let message = format!("SQL: there is no table `{}` in this query{}{there}", name(table), excerpt.place);
    let error = Error::usage(message + &excerpt.lines);
    let mut having = valid.iter().filter(|valid| valid.name == column).filter_map(|valid| valid.relation.as_ref());
    match (having.next(), having.next()) {
        (Some(only), None) => error.hint(format!("did you mean `{}.{}`?", name(only), quote_identifier(column))),
        _ => error,
    }
}

/// Splits ` at Line: 1, Column: 8` off the end of a message of the parser.
fn split_place(message: &str) -> (&str, Option<QueryPlace>) {
    let split = || -> Option<(&str, QueryPlace)> {
        let (text, place) = message.rsplit_once(" at Line: ")?;
        let (line, column) = place.split_once(", Column: ")?;
        Some((text, QueryPlace { line: line.trim().parse().ok()?, column: column.trim().parse().ok()? }))
    };
    split().map_or((message, None), |(text, place)| (text, Some(place)))
}

/// Place in a query for a message: ` at line 1, column 8`, and that line with a caret below it. Both are empty if the
/// place is unknown.
#[derive(Debug, Default, PartialEq, Eq)]
struct SourceExcerpt {
    place: String,
    lines: String,
}

impl SourceExcerpt {
    fn new(sql: &str, place: Option<QueryPlace>) -> Self {
        let Some(QueryPlace { line, column }) = place.filter(|place| place.line > 0 && place.column > 0) else {
            return Self::default();
        };
        let Some(text) = sql.lines().nth(line - 1) else { return Self::default() };
        // Escaped characters would shift the caret.
        let chars: Vec<char> = text.chars().map(|c| if is_control(c) { ' ' } else { c }).collect();
        let caret = column.min(chars.len() + 1) - 1;
        let start = if chars.len() <= SHOWN_CHARS { 0 } else { caret.saturating_sub(SHOWN_CHARS / 2) };
        let shown: String = chars.iter().skip(start).take(SHOWN_CHARS).collect();
        Self {
            place: format!(" at line {line}, column {column}"),
            lines: format!("\n  {}\n  {}^", shown.trim_end(), " ".repeat(caret - start)),
        }
    }
}

fn lower_first(message: &str) -> String {
    let mut chars = message.chars();
    let second_is_lower = message.chars().nth(1).is_some_and(char::is_lowercase);
    match chars.next() {
        Some(first) if second_is_lower => first.to_lowercase().chain(chars).collect(),
        _ => message.to_owned(),
    }
}

/// Result of DataFusion as ours.
pub(super) fn checked<T>(result: datafusion::error::Result<T>) -> Result<T> {
    result.map_err(|error| sql_error(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_reading_and_ours_keep_their_category() {
        let parquet = || ArrowError::ParquetError("Parquet error: EOF".to_owned());
        for error in [DataFusionError::ArrowError(Box::new(parquet()), None), DataFusionError::from(parquet())] {
            let got = sql_error(&error.context("reading"));
            assert_eq!(got.category(), ErrorCategory::Data, "{got}");
        }
        let ours = || Box::new(Error::stage("a full disk").hint("free some space"));
        let within = ArrowError::ExternalError(Box::new(DataFusionError::External(ours())));
        for error in [DataFusionError::External(ours()), DataFusionError::ArrowError(Box::new(within), None)] {
            let got = sql_error(&error);
            assert_eq!((got.category(), got.hint_text()), (ErrorCategory::Stage, Some("free some space")), "{got}");
            assert_eq!(got.to_string(), "a full disk");
        }
    }

    #[test]
    fn a_temporary_file_that_cannot_be_written_is_no_damage_of_the_store() {
        let full = || std::io::Error::from(ErrorKind::StorageFull);
        let message = full().to_string();
        for error in [
            DataFusionError::IoError(full()),
            DataFusionError::ArrowError(Box::new(ArrowError::IoError(message, full())), None),
        ] {
            let got = sql_error(&error.context("sorting"));
            assert_eq!(got.category(), ErrorCategory::Stage, "{got}");
            assert!(
                got.to_string().contains("temporary file") && got.to_string().contains("no storage space"),
                "{got}"
            );
            assert!(got.hint_text().is_some_and(|hint| hint.contains("TMPDIR")), "{got}");
        }
        let broken = || std::io::Error::from(ErrorKind::InvalidData);
        assert_eq!(sql_error(&DataFusionError::IoError(broken())).category(), ErrorCategory::Data);
        // An error of the store has one of a file as its cause.
        let of_store = object_store::Error::Generic { store: "file", source: Box::new(full()) };
        let got = sql_error(&DataFusionError::ObjectStore(Box::new(of_store)));
        assert_eq!(got.category(), ErrorCategory::Data, "{got}");
    }

    #[test]
    fn the_place_is_split_off_and_shown_with_a_caret() {
        let (message, place) = split_place("Expected: x, found: y at Line: 2, Column: 5");
        assert_eq!((message, place), ("Expected: x, found: y", Some(QueryPlace { line: 2, column: 5 })));
        assert_eq!(split_place("Expected: x").1, None);
        let excerpt = SourceExcerpt::new("SELECT\n\t1 ö x\nFROM", place);
        assert_eq!((&*excerpt.place, &*excerpt.lines), (" at line 2, column 5", "\n   1 ö x\n      ^"));
        // A long line is shown around the place.
        let long = format!("{}HERE{}", "x".repeat(500), "y".repeat(500));
        let shown = SourceExcerpt::new(&long, Some(QueryPlace { line: 1, column: 501 })).lines;
        let lines: Vec<&str> = shown.lines().collect();
        let caret = lines[2].chars().count() - 1;
        assert_eq!(lines[1].chars().skip(caret).take(4).collect::<String>(), "HERE");
        assert_eq!(SourceExcerpt::new("x", Some(QueryPlace { line: 9, column: 1 })), SourceExcerpt::default());
    }

    #[test]
    fn an_error_of_a_condition_is_none_of_the_file() {
        let condition = ArrowError::ComputeError("no root of -1".to_owned());
        let got = sql_error(&ParquetError::External(Box::new(condition)).into());
        assert_eq!((got.category(), got.to_string().as_str()), (ErrorCategory::Usage, "SQL: no root of -1"));
        let got = sql_error(&ParquetError::EOF("the footer is missing".to_owned()).into());
        assert_eq!(got.category(), ErrorCategory::Data, "{got}");
    }
}
