//! Errors of DataFusion as ours, with the place in the query and the nearest names.
//!
//! Most of its errors have no fields, so the names are read from the texts of its messages.

use std::io::ErrorKind;

use arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::parquet::errors::ParquetError;

use crate::names::{
    first_word, is_compared_with, is_double_quoted, nearest_names, place_of_operator, place_of_text, place_of_word,
    quoted_hyphenated_name, quoted_instance_name,
};
use crate::query_options::MAX_TEMPORARY_BYTES;
use crate::state::{CATALOG, FILES};
use crate::vectors::VectorMeasure;
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_base::suggest::closest_name;

/// Characters shown of a line of the query, around the place of the error.
const SHOWN_CHARS: usize = 100;

/// Start of messages of DataFusion about a query that cannot be planned, which says nothing to the reader.
const PLANNING: &str = "Error during planning: ";
/// The same of a query that runs.
const RUNNING: &str = "Execution error: ";

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
        root => {
            let message = root.strip_backtrace();
            match ConditionMessage::parse(&message) {
                Some(condition) => condition_error(condition, sql),
                None => planning_error(&message, sql).unwrap_or_else(|| sql_error(error)),
            }
        }
    }
}

/// Error of a condition that a scan has evaluated.
fn condition_error(ConditionMessage { text, category, hint }: ConditionMessage, sql: &str) -> Error {
    let error = planning_error(&text, sql).filter(|error| error.category() == category).unwrap_or_else(|| {
        let text = text.strip_prefix("SQL: ").unwrap_or(&text);
        Error::new(category, format!("SQL: {}", lower_first(text)))
    });
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// Converts an error of a query whose names were all found.
pub(super) fn named_query_error(error: &DataFusionError, sql: &str) -> Error {
    match error.find_root() {
        // DataFusion looks for the columns of one subquery in another.
        DataFusionError::SchemaError(schema_error, _)
            if matches!(**schema_error, SchemaError::FieldNotFound { .. }) =>
        {
            not_planned()
        }
        _ => query_error(error, sql),
    }
}

/// Error for a correlated subquery that DataFusion does not plan.
fn not_planned() -> Error {
    Error::usage("SQL: a subquery names a column of an outer table in a form that is not planned").hint(
        "compute it in a `WITH` query for all outer rows, and join that; the nearest rows of each row: `FROM a, LATERAL (SELECT … FROM b \
         ORDER BY cosine_distance(b.v, a.v) LIMIT 3) b`, with a measure first in the order; with `GROUP BY`, name grouped columns",
    )
}

/// Error about a place of the query, which is named before `more`.
pub(super) fn error_at(message: &str, more: &str, sql: &str, line: u64, column: u64) -> Error {
    let place = usize::try_from(line).ok().zip(usize::try_from(column).ok());
    let excerpt = SourceExcerpt::new(sql, place.map(|(line, column)| QueryPlace { line, column }));
    Error::usage(format!("SQL: {message}{}{more}{}", excerpt.place, excerpt.lines))
}

/// Error for a message of DataFusion that names no place and gives no hint; `None` for other messages.
fn planning_error(message: &str, sql: &str) -> Option<Error> {
    let at = |place: Option<(u64, u64)>, message: &str| match place {
        Some((line, column)) => error_at(message, "", sql, line, column),
        None => Error::usage(format!("SQL: {message}")),
    };
    if let Some(GroupMessage { column, clause }) = GroupMessage::parse(message) {
        let text = format!("`{column}` is in `{clause}`, but neither in `GROUP BY` nor in an aggregate function");
        let is_grouped = sql.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ").contains("group by");
        let hint = if is_grouped {
            format!("add it to the others: `GROUP BY …, {column}`")
        } else {
            format!("write: `GROUP BY {column}`")
        };
        return Some(at(place_of_word(&column, sql), &text).hint(hint));
    }
    if let Some(FunctionMessage { function, near }) = FunctionMessage::parse(message) {
        let error = at(place_of_word(&function, sql), &format!("there is no function `{function}`"));
        return Some(match near {
            Some(near) => error.hint(format!("did you mean `{near}`?")),
            None => error.hint("`SHOW FUNCTIONS` lists all"),
        });
    }
    match UnplannedMessage::parse(message).as_ref().map(|message| message.expression.as_str()) {
        Some("InSubquery" | "Exists" | "SetComparison") => {
            let text = "SQL: `IN`, `EXISTS`, `ANY` or `ALL` with a subquery in a place or form that is not planned";
            return Some(Error::usage(text).hint(
                "with columns of an outer table, or in `ON` of an outer join, compute it in a `WITH` query, and join that",
            ));
        }
        Some("ScalarSubquery") => return Some(not_planned()),
        _ if message.contains("OuterReferenceColumn") => return Some(not_planned()),
        _ => {}
    }
    if message.ends_with("Divide by zero error") {
        return Some(Error::usage("SQL: division by zero").hint("`x / NULLIF(y, 0)` is a missing value where y is 0"));
    }
    let text = message.strip_prefix(PLANNING).unwrap_or(message);
    // Refusals of our own planner begin with the operator.
    if let Some((operator, _)) = text.strip_prefix('`').and_then(|rest| rest.split_once('`'))
        && let Some(place) =
            if operator == "LATERAL" { place_of_word(operator, sql) } else { place_of_operator(operator, sql) }
    {
        return Some(at(Some(place), text));
    }
    if let Some(ArgumentMessage { function, text }) = ArgumentMessage::parse(message) {
        let hint = format!("`SHOW FUNCTIONS LIKE '{function}'` describes it");
        return Some(at(place_of_word(&function, sql), &text).hint(hint));
    }
    if let Some(SignatureMessage { function, arguments }) = SignatureMessage::parse(message) {
        let text = format!("`{function}` has no form with the arguments ({arguments})");
        let hint = format!("`SHOW FUNCTIONS LIKE '{function}'` describes it");
        return Some(at(place_of_word(&function, sql), &text).hint(hint));
    }
    let ConversionMessage { text, data_type } = ConversionMessage::parse(message)?;
    let place = place_of_text(&text, sql);
    let error = at(place, &format!("a comparison or cast of type {data_type} got the text `'{text}'`"));
    Some(if place.is_none() && text.parse::<f64>().is_ok() {
        error.hint("`::double` converts numbers of every form: `settings['fit.gradient_clip']::double = 2`")
    } else {
        error
    })
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
    let root = error.find_root();
    let message = root.strip_backtrace().replace('\n', " ");
    let message = message.trim_end_matches('.');
    if causes(error).any(is_read_error) {
        return damaged_table(message);
    }
    if let Some(kind) = file_error_kind(error) {
        return file_error(kind, message);
    }
    match root {
        DataFusionError::Internal(_) => Error::internal(format!("SQL: {message}")),
        DataFusionError::ResourcesExhausted(_) => Error::stage(format!("SQL: {}", memory_message(message)))
            .hint("read fewer rows or columns, or allow more with `--query-memory` of the command, the server or the executors"),
        _ => {
            let refused = ["DDL not supported", "DML not supported", "Statement not supported"];
            if refused.iter().any(|start| message.contains(start)) {
                return read_only();
            }
            if message.contains("to 'json_get' at position 2") {
                return Error::usage("SQL: `->` has no key, because it binds weaker than a comparison")
                    .hint("write brackets: `(settings->'epochs') > 1`");
            }
            let message = message.strip_prefix(PLANNING).or_else(|| message.strip_prefix(RUNNING)).unwrap_or(message);
            Error::usage(format!("SQL: {}", lower_first(&message.replace('\t', " "))))
        }
    }
}

/// Message about memory without the list of DataFusion's reservations.
fn memory_message(message: &str) -> String {
    let parts = || {
        let (_, rest) = message.rsplit_once("Failed to allocate additional ")?;
        let (wanted, rest) = rest.split_once(" for ")?;
        let (operator, rest) = rest.split_once(" with ")?;
        let (left, _) = rest.split_once(" - ")?.1.split_once(" remain")?;
        Some(format!("the memory of the query is used up: {operator} wanted {wanted} more, and {left} were left"))
    };
    parts().unwrap_or_else(|| message.to_owned())
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
    Error::usage("SQL: the store is read-only, wanted a query").hint("only `pairloom run` writes to a store")
}

/// Error for a statement that would write its result to a file.
pub(super) fn no_copy() -> Error {
    Error::usage("SQL: the store is read-only, and a query writes no files")
        .hint("the command writes the result of a query to a file: `pairloom sql QUERY --output FILE`")
}

/// Error for an unknown column, with at most five near columns of the tables of the query.
fn unknown_column_error(name: &str, valid: &[Column], excerpt: &SourceExcerpt) -> Error {
    let near = nearest_names(name, valid.iter().map(|column| column.name.as_str()));
    let names: Vec<&str> = near.iter().map(|(_, name)| *name).collect();
    let there = match (names.len(), valid.len()) {
        (0, _) => String::new(),
        (shown, all) if shown == all => format!("; there are {}", names.join(", ")),
        _ => format!("; the nearest are {}", names.join(", ")),
    };
    let error = Error::usage(format!("SQL: there is no column `{name}`{}{there}{}", excerpt.place, excerpt.lines));
    match near.first() {
        Some((distance, near)) if *distance <= 1 + name.len() / 4 => error.hint(format!("did you mean `{near}`?")),
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
        let chars: Vec<char> = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
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

/// Start of a message about an expression that is not planned.
const UNPLANNED: &str = "This feature is not implemented: Physical plan does not support logical expression ";

/// Message about a column that is neither grouped nor in an aggregate function.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GroupMessage {
    /// Name of the column, without its table.
    pub(super) column: String,
    /// Clause that has the column: `SELECT`, `HAVING`, `ORDER BY`.
    pub(super) clause: String,
}

impl GroupMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let clause = between(message, "Column in ", " must be in GROUP BY")?;
        let column = between(message, ", column \"", "\" must appear in the GROUP BY")?;
        let is_path = column.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '"'));
        let last = column.rsplit('.').next().filter(|_| is_path).unwrap_or(column);
        Some(Self { column: last.to_owned(), clause: clause.to_owned() })
    }
}

/// Message about a function that has no form with these types of arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SignatureMessage {
    /// Name of the function.
    pub(super) function: String,
    /// Types of the arguments.
    pub(super) arguments: String,
}

impl SignatureMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let call = between(message, "No function matches the given name and argument types '", "'.")?;
        let (function, arguments) = call.split_once('(')?;
        let arguments = arguments.strip_suffix(')')?.replace("non-null ", "");
        Some(Self { function: function.to_owned(), arguments })
    }
}

/// Message of a function of ours about its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ArgumentMessage {
    /// Name of the function.
    pub(super) function: String,
    /// The function's own words.
    pub(super) text: String,
}

impl ArgumentMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let function = between(message, "Function '", "' user-defined coercion failed with: Error during planning: ")?;
        let (_, text) = message.split_once("user-defined coercion failed with: Error during planning: ")?;
        let text = text.split(" No function matches").next()?.trim_end_matches(['.', ' ', '\n']);
        // Those of DataFusion speak of its inner types.
        text.starts_with('`').then(|| Self { function: function.to_owned(), text: text.to_owned() })
    }
}

/// Message about a function that does not exist.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FunctionMessage {
    /// Name of the function.
    pub(super) function: String,
    /// Name of the nearest function, if one is near.
    pub(super) near: Option<String>,
}

impl FunctionMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let function = between(message, "Invalid function '", "'")?;
        // The nearest name can be quite another word.
        let near = between(message, "Did you mean '", "'").and_then(|near| closest_name(function, [near]));
        Some(Self { function: function.to_owned(), near: near.map(str::to_owned) })
    }
}

/// Message about a table that was not looked up before the query was planned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TableMessage {
    /// Name of the table, as a query writes it.
    pub(super) table: String,
}

impl TableMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let full = between(message, "table '", "' not found")?;
        let table = full.strip_prefix(CATALOG).and_then(|rest| rest.strip_prefix('.')).unwrap_or(full);
        let table = table.strip_prefix(FILES).and_then(|rest| rest.strip_prefix('.')).unwrap_or(table);
        Some(Self { table: table.to_owned() })
    }
}

/// Message about a text that cannot be converted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConversionMessage {
    /// Text, as the query or the data has it.
    pub(super) text: String,
    /// Type that was wanted.
    pub(super) data_type: String,
}

impl ConversionMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let (_, rest) = message.split_once("Cast error: Cannot cast string '")?;
        let (text, rest) = rest.rsplit_once("' to value of ")?;
        let (data_type, _) = rest.split_once(" type")?;
        Some(Self { text: text.to_owned(), data_type: data_type.to_owned() })
    }
}

/// Message about an expression that is not planned.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct UnplannedMessage {
    /// DataFusion's name of the expression.
    pub(super) expression: String,
}

impl UnplannedMessage {
    pub(super) fn parse(message: &str) -> Option<Self> {
        let (expression, _) = message.strip_prefix(UNPLANNED)?.split_once('(')?;
        Some(Self { expression: expression.to_owned() })
    }
}

/// Text between two marks.
fn between<'t>(text: &'t str, start: &str, end: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    Some(rest.split_once(end)?.0)
}

/// Start of a message of the reader of Parquet about a condition that it evaluates.
const CONDITION: &str = "Parquet error: External: Compute error: Error evaluating filter predicate: ";

/// Message about a condition that the reader of Parquet evaluates. The error is written in the form of `Debug`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConditionMessage {
    /// Message of the error.
    pub(super) text: String,
    /// Category of the error.
    pub(super) category: ErrorCategory,
    /// Its hint, if it is one of ours.
    pub(super) hint: Option<String>,
}

impl ConditionMessage {
    /// True for a message that [`Self::parse`] reads.
    pub(super) fn is_one(message: &str) -> bool {
        message.starts_with(CONDITION)
    }

    pub(super) fn parse(message: &str) -> Option<Self> {
        let error = message.strip_prefix(CONDITION)?;
        if let Some((kind, ours)) = error.strip_prefix("External(Error { kind: ").and_then(|rest| rest.split_once('"'))
        {
            let (text, rest) = unescaped(ours);
            let hint = rest.strip_prefix(", hint: Some(\"").map(|hint| unescaped(hint).0);
            let category = match kind.split_once(',') {
                Some(("Usage", _)) => ErrorCategory::Usage,
                Some(("Data", _)) => ErrorCategory::Data,
                Some(("Stage", _)) => ErrorCategory::Stage,
                Some(("Interrupted", _)) => ErrorCategory::Interrupted,
                _ => ErrorCategory::Internal,
            };
            return Some(Self { text, category, hint });
        }
        let category = match error.split_once('(') {
            Some(("Internal", _)) => ErrorCategory::Internal,
            Some(("ResourcesExhausted", _)) => ErrorCategory::Stage,
            _ => ErrorCategory::Usage,
        };
        let text = match error.split_once('"') {
            _ if error.starts_with("ArrowError(DivideByZero") => "Divide by zero error".to_owned(),
            Some((kind, text)) if kind.ends_with("CastError(") => format!("Cast error: {}", unescaped(text).0),
            Some((_, text)) => unescaped(text).0,
            None => error.to_owned(),
        };
        Some(Self { text, category, hint: None })
    }
}

/// Text of a string literal whose opening quote was read, and what follows its closing quote.
fn unescaped(literal: &str) -> (String, &str) {
    let mut text = String::new();
    let mut chars = literal.char_indices();
    while let Some((place, char)) = chars.next() {
        match char {
            '"' => return (text, &literal[place + 1..]),
            '\\' => match chars.next() {
                Some((_, 'n' | 't' | 'r')) => text.push(' '),
                Some((_, other)) => text.push(other),
                None => {}
            },
            other => text.push(other),
        }
    }
    (text, "")
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
    fn names_are_read_from_messages() {
        let got = GroupMessage::parse(
            "Error during planning: Column in HAVING must be in GROUP BY or an aggregate function: While expanding \
             wildcard, column \"test.summary.method\" must appear in the GROUP BY clause or must be part of an \
             aggregate function, currently only \"avg(test.summary.rsum)\" appears in the SELECT clause satisfies this",
        );
        assert_eq!(got, Some(GroupMessage { column: "method".to_owned(), clause: "HAVING".to_owned() }));
        let got = SignatureMessage::parse(
            "Function 'f' failed with: No function matches the given name and argument types \
             'f(FixedSizeList(256 x non-null Float32), Int64)'. You might need to add explicit type casts.",
        );
        let arguments = "FixedSizeList(256 x Float32), Int64".to_owned();
        assert_eq!(got, Some(SignatureMessage { function: "f".to_owned(), arguments }));
        let got = FunctionMessage::parse(
            "Error during planning: Invalid function 'cosin_distance'.\nDid you mean 'cosine_distance'?",
        );
        let near = Some("cosine_distance".to_owned());
        assert_eq!(got, Some(FunctionMessage { function: "cosin_distance".to_owned(), near }));
        let got = TableMessage::parse("Error during planning: table 'pairloom.files.nope' not found");
        assert_eq!(got, Some(TableMessage { table: "nope".to_owned() }));
        let got = TableMessage::parse("Error during planning: table 'pairloom.test.nope' not found");
        assert_eq!(got, Some(TableMessage { table: "test.nope".to_owned() }));
        let got = ConversionMessage::parse("Arrow error: Cast error: Cannot cast string 'a'b' to value of Int64 type");
        assert_eq!(got, Some(ConversionMessage { text: "a'b".to_owned(), data_type: "Int64".to_owned() }));
        let got = UnplannedMessage::parse(&format!("{UNPLANNED}Exists(Exists {{ subquery: <subquery> }})"));
        assert_eq!(got, Some(UnplannedMessage { expression: "Exists".to_owned() }));
    }

    #[test]
    fn errors_of_conditions_are_those_of_the_query() {
        let parse = |error: &str| ConditionMessage::parse(&format!("{CONDITION}{error}")).unwrap();
        let of = |text: &str, category| ConditionMessage { text: text.to_owned(), category, hint: None };
        let usage = |text: &str| of(text, ErrorCategory::Usage);
        let got = parse(r#"ArrowError(CastError("Cannot cast string 'a\"b' to value of Int32 type"), Some(""))"#);
        assert_eq!(got, usage("Cast error: Cannot cast string 'a\"b' to value of Int32 type"));
        let got =
            parse(r#"ArrowError(CastError("Cannot cast string 'DivideByZero' to value of Int32 type"), Some(""))"#);
        assert_eq!(got, usage("Cast error: Cannot cast string 'DivideByZero' to value of Int32 type"));
        assert_eq!(parse(r#"ArrowError(DivideByZero, Some(""))"#), usage("Divide by zero error"));
        assert_eq!(parse(r#"Execution("no \\ value\nhere")"#), usage("no \\ value here"));
        assert_eq!(parse(r#"Internal("not \"valid\"")"#), of("not \"valid\"", ErrorCategory::Internal));
        assert_eq!(parse(r#"ResourcesExhausted("none left")"#), of("none left", ErrorCategory::Stage));
        let of_ours = |kind: &str| {
            let fields = r#"message: "SQL: too long", hint: Some("shorter"), peer: false"#;
            parse(&format!("External(Error {{ kind: {kind}, {fields} }})"))
        };
        for category in [ErrorCategory::Usage, ErrorCategory::Data, ErrorCategory::Stage, ErrorCategory::Interrupted] {
            let wanted = ConditionMessage { hint: Some("shorter".to_owned()), ..of("SQL: too long", category) };
            assert_eq!(of_ours(&format!("{category:?}")), wanted);
        }
        assert_eq!(ConditionMessage::parse("Parquet error: EOF"), None);
        let of_a_text = format!("Arrow error: Cast error: Cannot cast string '{CONDITION}' to value of Int32 type");
        assert_eq!(ConditionMessage::parse(&of_a_text), None);
    }
}
