//! Names of tables and columns in SQL: quotes, names with a hyphen, the nearest names for a mistyped one, and the error for a
//! table that a session does not have.

use std::collections::BTreeSet;

use datafusion::common::TableReference;
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::catalog::{ALL_RUNS_SCHEMA, STORE_SCHEMA, StoreCatalog};
use crate::store_tables;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_base::suggest::name_distance;
use pairloom_stage::{INSTANCE_SIGN, is_instance_character, stage_of_instance};
use pairloom_store::record::{RunLog, RunOutcome, RunRecord, StageRecord};
use pairloom_tables as tables;

/// Maximum number of near names in a message.
const NEAREST: usize = 5;
/// Distance to a name that is too long to be compared.
const FAR: usize = 1 << 20;
/// Extensions of files of tables, which people write in place of a table.
const FILE_EXTENSIONS: [&str; 11] =
    ["csv", "tsv", "tab", "parquet", "json", "jsonl", "ndjson", "arrow", "feather", "txt", "xlsx"];

/// Name and size of a table that a query can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedTable {
    /// Schema: the stage, `store`, `files` or `information_schema`.
    pub schema: String,
    /// Name.
    pub table: String,
    /// Number of rows, if it is known without reading the table.
    pub rows: Option<u64>,
}

impl ListedTable {
    /// Table of the schema `store`.
    pub(super) fn of_store(table: &str) -> Self {
        Self { schema: "store".to_owned(), table: table.to_owned(), rows: None }
    }

    /// Name in a query: `stage.table`, quoted where necessary.
    #[must_use]
    pub fn sql_name(&self) -> String {
        format!("{}.{}", quote_identifier(&self.schema), quote_identifier(&self.table))
    }
}

/// Name as an SQL identifier, quoted if necessary.
#[must_use]
pub fn quote_identifier(name: &str) -> String {
    let plain = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) {
        name.to_owned()
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

/// Error for an unknown table: for a stage its tables, for a file the option that reads it, otherwise at most five near
/// names and a hint if one is close.
pub(super) fn unknown_table_error(name: &str, tables: impl Iterator<Item = ListedTable>) -> Error {
    let tables: Vec<ListedTable> = tables.collect();
    if let Some(error) = stage_error(name, &tables).or_else(|| file_error(name)) {
        return error;
    }
    let mut near: Vec<(usize, String)> =
        tables.iter().map(|table| (table_distance(name, table), table.sql_name())).collect();
    // Of equally near names, those without quotes come first.
    near.sort_by_cached_key(|(distance, name)| (*distance, name.contains('"'), name.clone()));
    near.dedup();
    let all = near.len();
    near.truncate(NEAREST);
    let names: Vec<&str> = near.iter().map(|(_, name)| name.as_str()).collect();
    let there = if all > NEAREST { "the nearest are" } else { "there are" };
    let more = if all > NEAREST { "; `SHOW TABLES` lists all" } else { "" };
    let error = Error::usage(format!("SQL: there is no table `{name}`; {there} {}{more}", names.join(", ")));
    match near.first() {
        Some((distance, near)) if *distance <= 2 + name.len() / 4 => error.hint(format!("did you mean `{near}`?")),
        _ => error,
    }
}

/// Tables that queries read most, which a message names first.
const COMMON_TABLES: [&str; 5] = ["summary", "metrics", "rankings", "history", "captions"];
/// Schemas that are no stages.
const SCHEMAS: [&str; 3] = ["store", "all_runs", "information_schema"];

/// Error for a stage or schema where a table is wanted; `None` if there is none of this name.
fn stage_error(name: &str, tables: &[ListedTable]) -> Option<Error> {
    let bare = name.trim_matches('"');
    let schema = tables.iter().map(|table| table.schema.as_str()).find(|schema| schema.eq_ignore_ascii_case(bare))?;
    let mut own: Vec<&ListedTable> = tables.iter().filter(|table| table.schema == schema).collect();
    let what = if SCHEMAS.contains(&schema) { "a schema" } else { "a stage" };
    let all = own.len();
    if all > NEAREST {
        let rank = |name: &str| COMMON_TABLES.iter().position(|common| *common == name).unwrap_or(COMMON_TABLES.len());
        own.sort_by_key(|table| rank(&table.table));
        own.truncate(NEAREST);
    }
    let names = own.iter().map(|table| format!("`{}`", table.sql_name())).collect::<Vec<_>>().join(", ");
    let expected =
        if all > NEAREST { format!("its {all} tables, such as {names}") } else { format!("its tables: {names}") };
    let error = Error::usage(format!("SQL: `{name}` is {what}, expected one of {expected}"));
    Some(error.hint(format!("`SHOW TABLES FROM {}` describes them", quote_identifier(schema))))
}

/// Error for a file, or a function that reads files, where a table is wanted; `None` if the name is neither.
fn file_error(name: &str) -> Option<Error> {
    let path = name.trim_matches(['"', '\'']);
    let extension = path.rsplit_once('.').map(|(_, extension)| extension.to_lowercase());
    let is_file = path.contains('/') || extension.is_some_and(|extension| FILE_EXTENSIONS.contains(&&*extension));
    let lower = path.to_lowercase();
    let is_reader = !lower.contains('.') && (lower.starts_with("read_") || lower.ends_with("_scan"));
    if is_file {
        let error = Error::usage(format!("SQL: `{path}` is no table; a query reads no files by their path"));
        let argument = format!("mine={path}");
        let argument = if path.contains(char::is_whitespace) { format!("'{argument}'") } else { argument };
        return Some(error.hint(format!("name the file: `--file {argument}`, and query `FROM mine`")));
    }
    let error = || Error::usage(format!("SQL: there is no function `{name}`; a query reads no files by their path"));
    is_reader.then(|| error().hint("name the file: `--file mine=scores.csv`, and query `FROM mine`"))
}

/// Distance between a mistyped name and a table: the number of typing mistakes, or a little more than that of one half
/// if the other half is missing or quite different.
fn table_distance(name: &str, table: &ListedTable) -> usize {
    let lower = name.to_lowercase().replace('"', "");
    let distance = |a: &str, b: &str| name_distance(a, b).unwrap_or(FAR);
    let whole = distance(&lower, &format!("{}.{}", table.schema, table.table));
    // The most common mistake: `summary` instead of `test.summary`.
    let (schema, last) = lower.rsplit_once('.').unwrap_or(("", &lower));
    let by_table = 1 + 4 * distance(last, &table.table) + usize::from(!schema.is_empty());
    let by_schema = 2 + 3 * distance(schema, &table.schema) + distance(last, &table.table).min(3);
    whole.min(by_table).min(if schema.is_empty() { usize::MAX } else { by_schema })
}

/// Nearest of `names` to `name`, at most five, nearest first, each with its distance.
pub(super) fn nearest_names<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Vec<(usize, &'n str)> {
    let lower = name.to_lowercase();
    let mut near: Vec<(usize, &str)> = names.filter_map(|other| Some((name_distance(&lower, other)?, other))).collect();
    near.sort_unstable();
    near.dedup();
    near.truncate(NEAREST);
    near
}

/// Returns true if a query has this name in double quotes.
pub(super) fn is_double_quoted(name: &str, sql: &str) -> bool {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().unwrap_or_default();
    let is_it =
        |token: &Token| matches!(token, Token::Word(word) if word.quote_style == Some('"') && word.value == name);
    tokens.iter().any(is_it)
}

/// First word of a query.
pub(super) fn first_word(sql: &str) -> Option<String> {
    let mut tokens = Vec::new();
    // Before an error of the tokeniser there may be words.
    let _ = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location_into_buf(&mut tokens);
    tokens.into_iter().find_map(|token| match token.token {
        Token::Word(word) => Some(word.value),
        _ => None,
    })
}

/// Line and column of the last place of a column that is named with its table.
pub(super) fn last_place_of(table: &str, column: &str, sql: &str) -> Option<(u64, u64)> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().ok()?;
    let is_word =
        |token: &Token, name: &str| matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case(name));
    let mut parts = tokens.windows(3).rev();
    let found = parts.find(|parts| {
        is_word(&parts[0].token, table) && parts[1].token == Token::Period && is_word(&parts[2].token, column)
    });
    let start = found?[0].span.start;
    Some((start.line, start.column))
}

/// Line and column of the call of a function; `None` if there is another number than one.
pub(super) fn only_call_of(function: &str, sql: &str) -> Option<(u64, u64)> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().ok()?;
    let is_it = |token: &Token| matches!(token, Token::Word(word) if word.value.eq_ignore_ascii_case(function));
    let mut calls = tokens.windows(2).filter(|pair| is_it(&pair[0].token) && pair[1].token == Token::LParen);
    let start = calls.next()?.first()?.span.start;
    calls.next().is_none().then_some((start.line, start.column))
}

/// Returns true if a comparison has the name, without quotes, on its right side: `method = nns`.
pub(super) fn is_compared_with(name: &str, sql: &str) -> bool {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().unwrap_or_default();
    let tokens: Vec<&Token> = tokens.iter().filter(|token| !matches!(token, Token::Whitespace(_))).collect();
    tokens.windows(2).any(|pair| {
        matches!(pair[0], Token::Eq | Token::Neq)
            && matches!(pair[1], Token::Word(word) if word.quote_style.is_none() && word.value == name)
    })
}

/// Finds the name of an instance without quotes, such as `test@row=max.summary`, which is no SQL. Returns the correctly
/// quoted name.
pub(super) fn quoted_instance_name(sql: &str) -> Option<String> {
    let name = sql.split(|c: char| c.is_whitespace() || c == ';').find(|word| {
        let coordinates = word.split_once(INSTANCE_SIGN).map(|(_, coordinates)| coordinates);
        coordinates.is_some_and(|of| of.contains('=') || of.starts_with('*')) && word.chars().all(is_instance_character)
    })?;
    let (stage, table) = name.trim_end_matches(',').rsplit_once('.')?;
    Some(format!("\"{stage}\".{}", quote_identifier(table)))
}

/// Finds a name with a hyphen before a dot, such as `hal-bank-test.summary`, which SQL reads as a subtraction. Returns the
/// correctly quoted name.
pub(super) fn quoted_hyphenated_name(sql: &str) -> Option<String> {
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize().ok()?;
    let word = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.clone()),
        // Parts such as the `2` of `run-2`.
        Token::Number(digits, _) => Some(digits.clone()),
        _ => None,
    };
    for start in 0..tokens.len() {
        // No name begins in the middle of another.
        if start > 0 && matches!(tokens[start - 1], Token::Minus | Token::Period) {
            continue;
        }
        let Some(mut name) = word(&tokens[start]) else { continue };
        let mut end = start + 1;
        while let Some(Token::Minus) = tokens.get(end)
            && let Some(next) = tokens.get(end + 1).and_then(word)
        {
            name = format!("{name}-{next}");
            end += 2;
        }
        // `knn-10.summary` has the number `10.`.
        if end > start + 1
            && let Some(digits) = name.strip_suffix('.')
            && let Some(table) = tokens.get(end).and_then(word)
        {
            return Some(format!("\"{digits}\".{table}"));
        }
        if end > start + 1
            && let Some(Token::Period) = tokens.get(end)
            && let Some(table) = tokens.get(end + 1).and_then(word)
        {
            return Some(format!("\"{name}\".{table}"));
        }
    }
    None
}

/// Values of an axis that a hint lists.
const SHOWN_VALUES: usize = 8;

/// Number of recent runs that are searched for the table.
const SEARCHED_RUNS: usize = 200;

/// Error for an unknown table.
///
/// # Errors
/// The store cannot be read.
pub(super) fn error(catalog: &StoreCatalog, reference: &TableReference) -> Result<Error> {
    let name = &reference.to_string();
    if let TableReference::Bare { table } = reference
        && let Some((schema, of_schema)) = table.split_once('.')
        && is_table(catalog, schema, of_schema)?
    {
        let error = Error::usage(format!("SQL: `{table}` in quotes is the name of a table without a stage"));
        return Ok(error.hint(format!("write `{schema}.{of_schema}` without quotes, or quote the two names apart")));
    }
    if catalog.log().is_none() && matches!(reference.schema(), Some(ALL_RUNS_SCHEMA)) {
        return Ok(Error::usage(format!("SQL: there is no table `{name}` here"))
            .hint("an expectation sees the tables of its own run"));
    }
    if catalog.run().is_none()
        && let Some(log) = catalog.log()
        && let Some(stage) = reference.schema()
        && log.last_finished(None)?.is_none()
        && log.readable().any(|run| run.stage(stage).is_some() || run.instances(stage).next().is_some())
    {
        return Ok(log.none_finished(None).context(format!("SQL: there is no table `{name}`")));
    }
    if let Some(hint) = catalog.run().and_then(|run| instances_hint(run, reference)) {
        return Ok(Error::usage(format!("SQL: there is no table `{name}`")).hint(hint));
    }
    if let Some(hint) = catalog.log().and_then(|log| other_run(log, catalog.run(), reference)) {
        let of_run = catalog.run().map(|run| format!(" in the run `{}` of `{}`", run.run, run.pipeline));
        let message = format!("SQL: there is no table `{name}`{}", of_run.unwrap_or_default());
        return Ok(Error::usage(message).hint(hint));
    }
    let listed = catalog.tables()?;
    let is_empty = listed.is_empty() && catalog.store().is_some();
    let store_tables = store_tables::names().map(ListedTable::of_store);
    let of_all_runs =
        |table: &str| ListedTable { schema: ALL_RUNS_SCHEMA.to_owned(), table: table.to_owned(), rows: None };
    let all_runs: Vec<ListedTable> = tables::all().iter().map(|table| of_all_runs(table.name)).collect();
    // Another name without a schema means a table of the run.
    let is_meant = !is_empty && name.contains('.') || name.eq_ignore_ascii_case(ALL_RUNS_SCHEMA);
    let all_runs = all_runs.into_iter().filter(|_| is_meant);
    let error = unknown_table_error(name, listed.into_iter().chain(store_tables).chain(all_runs));
    Ok(match error.hint_text() {
        None if is_empty => error.hint("no run has finished a stage in this store"),
        _ => error,
    })
}

/// Hint with the values of the axes, for the name of an instance that a run does not have.
fn instances_hint(run: &RunRecord, reference: &TableReference) -> Option<String> {
    let (stage, table) = (reference.schema()?, reference.table());
    let base = stage_of_instance(stage);
    let instances: Vec<&StageRecord> = run.instances(base).collect();
    let first = instances.first().filter(|_| base != stage && run.instances(stage).next().is_none())?;
    let values_of = |axis: usize| {
        let mut values = TruncatedList::new(SHOWN_VALUES);
        let mut seen = BTreeSet::new();
        let texts = instances.iter().map(|instance| instance.coordinates[axis].value_text());
        values.extend(texts.filter(|text| seen.insert(text.clone())));
        format!("{} ({})", first.coordinates[axis].axis, values.join(", "))
    };
    let axes: Vec<String> = (0..first.coordinates.len()).map(values_of).collect();
    Some(format!("`{base}` is repeated over {}; one instance is `\"{}\".{table}`", axes.join(" and "), first.name))
}

/// Returns true if there is a table of this name in a stage of the run, or in a schema.
fn is_table(catalog: &StoreCatalog, schema: &str, table: &str) -> Result<bool> {
    Ok(match schema {
        ALL_RUNS_SCHEMA => tables::all().iter().any(|known| known.name == table),
        STORE_SCHEMA => store_tables::names().any(|known| known == table),
        _ => catalog.table(schema, table)?.is_some(),
    })
}

/// Hint that names another run with a table of this name.
fn other_run(log: &RunLog, this: Option<&RunRecord>, reference: &TableReference) -> Option<String> {
    let (stage, table) = (reference.schema()?, reference.table());
    let has = |run: &&RunRecord| {
        let known = run.stages.iter().find(|known| known.name.eq_ignore_ascii_case(stage));
        let known = known.or_else(|| run.stage(stage)).or_else(|| run.instances(stage).next());
        Some(run.run.as_str()) != this.map(|run| run.run.as_str())
            && known.is_some_and(|stage| stage.tables.iter().any(|known| known == table))
    };
    let runs: Vec<&RunRecord> = log.readable().take(SEARCHED_RUNS).filter(has).collect();
    let is_finished = |run: &&&RunRecord| run.outcome == RunOutcome::Finished;
    let Some(run) = runs.iter().find(is_finished) else {
        let run = runs.first()?;
        let (name, outcome, short) = (&run.run, run.outcome.name(), run.short_name());
        return Some(format!("the {outcome} run `{name}` may have it: `--run {short}`"));
    };
    Some(if this.is_some_and(|this| this.pipeline_identity() == run.pipeline_identity()) {
        format!("the run `{}` has it: `--run {}`", run.run, run.short_name())
    } else {
        format!("the pipeline `{0}` has it: `--pipeline {0}`, or all runs: `{ALL_RUNS_SCHEMA}.{table}`", run.pipeline)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(schema: &str, table: &str) -> ListedTable {
        ListedTable { schema: schema.to_owned(), table: table.to_owned(), rows: None }
    }

    #[test]
    fn names_are_quoted_where_sql_needs_it() {
        for (name, quoted) in
            [("test", "test"), ("hal-bank", "\"hal-bank\""), ("Test", "\"Test\""), ("2nd", "\"2nd\""), ("", "\"\"")]
        {
            assert_eq!(quote_identifier(name), quoted);
        }
        assert_eq!(table("a-b", "a\"b").sql_name(), "\"a-b\".\"a\"\"b\"");
    }

    #[test]
    fn hyphenated_names_are_found_and_subtractions_are_not() {
        for (sql, found) in [
            ("SELECT rsum FROM hal-bank-test.summary", Some("\"hal-bank-test\".summary")),
            ("SELECT run-2.summary.rsum FROM x", Some("\"run-2\".summary")),
            ("SELECT rsum FROM a.b, hal-bank.c", Some("\"hal-bank\".c")),
            ("SELECT a - b FROM t.c", None),
            // A subtraction of a column of a table looks the same; the hint is given after an error only.
            ("SELECT a-b.c FROM \"hal-bank\".c", Some("\"a-b\".c")),
            ("SELECT t.a-t.b FROM x", None),
            ("SELECT 'a-b.c'", None),
        ] {
            assert_eq!(quoted_hyphenated_name(sql).as_deref(), found, "{sql}");
        }
    }

    #[test]
    fn a_stage_a_file_and_a_reader_of_files_are_no_tables() {
        let all = || vec![table("test", "summary"), table("test", "hubs"), table("Dev-Set", "hubs")].into_iter();
        let got = unknown_table_error("TEST", all());
        assert_eq!(got.to_string(), "SQL: `TEST` is a stage, expected one of its tables: `test.summary`, `test.hubs`");
        let got = unknown_table_error("Dev-Set", all());
        assert_eq!(got.hint_text(), Some("`SHOW TABLES FROM \"Dev-Set\"` describes them"));
        // Of many tables, five are named.
        let names = ["images", "summary", "captions", "hubs", "samples", "history", "validation"];
        let got = unknown_table_error("all_runs", names.into_iter().map(|name| table("all_runs", name)));
        assert_eq!(
            got.to_string(),
            "SQL: `all_runs` is a schema, expected one of its 7 tables, such as `all_runs.summary`, `all_runs.history`, \
             `all_runs.captions`, `all_runs.images`, `all_runs.hubs`"
        );
        for (name, hint) in [
            ("scores.csv", "name the file: `--file mine=scores.csv`, and query `FROM mine`"),
            ("my/scores", "name the file: `--file mine=my/scores`, and query `FROM mine`"),
            ("read_csv_auto", "name the file: `--file mine=scores.csv`, and query `FROM mine`"),
        ] {
            assert_eq!(unknown_table_error(name, all()).hint_text(), Some(hint));
        }
    }

    #[test]
    fn the_nearest_tables_are_named_and_no_more_than_five() {
        let stages = ["test", "dev", "fit"].map(|stage| ["summary", "rankings", "metrics"].map(|t| table(stage, t)));
        let all: Vec<ListedTable> = stages.into_iter().flatten().collect();
        let error = |name: &str| unknown_table_error(name, all.iter().cloned());
        assert_eq!(error("tset.summary").hint_text(), Some("did you mean `test.summary`?"));
        assert_eq!(error("metrics").hint_text(), Some("did you mean `dev.metrics`?"));
        let got = error("test.sumary");
        assert_eq!(got.hint_text(), Some("did you mean `test.summary`?"));
        assert!(got.to_string().ends_with("; `SHOW TABLES` lists all"), "{got}");
        // The other tables of the same stage are near.
        let got = error("test.curve");
        assert!(got.to_string().contains("nearest are test."), "{got}");
        assert_eq!(got.hint_text(), None);
        assert_eq!(got.to_string().matches("test.").count(), 4, "{got}");
    }
}
