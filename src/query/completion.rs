//! Completion of a statement that is being typed: keywords, schemas, tables, columns and functions.

use std::collections::BTreeSet;

use crate::names::{ListedTable, quote_identifier};

/// Keywords that are completed.
const KEYWORDS: [&str; 47] = [
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "ORDER",
    "BY",
    "HAVING",
    "LIMIT",
    "OFFSET",
    "JOIN",
    "LEFT",
    "RIGHT",
    "FULL",
    "INNER",
    "OUTER",
    "CROSS",
    "ON",
    "USING",
    "AS",
    "AND",
    "OR",
    "NOT",
    "IN",
    "IS",
    "NULL",
    "LIKE",
    "ILIKE",
    "BETWEEN",
    "CASE",
    "WHEN",
    "THEN",
    "ELSE",
    "END",
    "DISTINCT",
    "UNION",
    "ALL",
    "WITH",
    "ASC",
    "DESC",
    "CAST",
    "EXPLAIN",
    "DESCRIBE",
    "SHOW",
    "TABLES",
    "COLUMNS",
    "OVER",
    "PARTITION",
];

/// Names that a completion can offer.
pub trait CompletionNames {
    /// All tables.
    fn tables(&self) -> &[ListedTable];
    /// Columns of a table; empty if it cannot be read.
    fn columns(&self, table: &ListedTable) -> Vec<String>;
    /// All functions.
    fn functions(&self) -> &[String];
}

/// Byte offset at which the word before `cursor` starts, and the words that can replace it.
///
/// After `schema.` these are its tables, after the name or alias of a table its columns. Elsewhere they are keywords,
/// schemas, the columns of the tables of the statement, and functions.
pub fn complete(text: &str, cursor: usize, names: &impl CompletionNames) -> (usize, Vec<String>) {
    let before = text.get(..cursor).unwrap_or(text);
    let start = word_start(before);
    let word = &before[start..];
    let mut found = BTreeSet::new();
    if let Some((qualifier, last)) = split_last(word) {
        let qualified = |name: &str| format!("{qualifier}.{}", quote_identifier(name));
        let of_schema = names.tables().iter().filter(|table| matches(&table.schema, qualifier));
        found.extend(of_schema.filter(|table| begins(&table.table, last)).map(|table| qualified(&table.table)));
        for (table, alias) in tables_of(text, names) {
            let is_meant = alias.as_deref().is_some_and(|alias| matches(alias, qualifier))
                || matches(&table.table, qualifier)
                || table.sql_name().eq_ignore_ascii_case(qualifier);
            if is_meant {
                let columns = names.columns(table);
                found.extend(columns.iter().filter(|column| begins(column, last)).map(|column| qualified(column)));
            }
        }
        return (start, found.into_iter().collect());
    }
    if word.is_empty() {
        return (start, vec![]);
    }
    let is_lower = word.chars().all(|c| !c.is_uppercase());
    let keywords = KEYWORDS.iter().filter(|keyword| begins(keyword, word));
    found.extend(keywords.map(|keyword| if is_lower { keyword.to_lowercase() } else { (*keyword).to_owned() }));
    let schemas = names.tables().iter().filter(|table| begins(&table.schema, word));
    found.extend(schemas.map(|table| format!("{}.", quote_identifier(&table.schema))));
    for (table, _) in tables_of(text, names) {
        let columns = names.columns(table);
        found.extend(columns.iter().filter(|column| begins(column, word)).map(|column| quote_identifier(column)));
    }
    // Functions come after a few letters: there are hundreds.
    if word.len() >= 3 {
        let functions = names.functions().iter().filter(|function| begins(function, word));
        found.extend(functions.map(|function| format!("{function}(")));
    }
    (start, found.into_iter().collect())
}

/// Start of the word at the end of a text. A word has letters, digits, underscores, dots and quoted parts.
fn word_start(text: &str) -> usize {
    let mut start = text.len();
    let mut is_quoted = text.matches('"').count() % 2 == 1;
    for (at, c) in text.char_indices().rev() {
        let is_part = if c == '"' {
            is_quoted = !is_quoted;
            true
        } else {
            is_quoted || c.is_alphanumeric() || c == '_' || c == '.'
        };
        if !is_part {
            break;
        }
        start = at;
    }
    start
}

/// Splits a word at its last dot outside of quotes.
fn split_last(word: &str) -> Option<(&str, &str)> {
    let mut is_quoted = false;
    let mut dot = None;
    for (at, c) in word.char_indices() {
        match c {
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => dot = Some(at),
            _ => {}
        }
    }
    dot.map(|dot| (&word[..dot], &word[dot + 1..]))
}

/// Tables that the text names, each with its alias if there is one.
fn tables_of<'n>(text: &str, names: &'n impl CompletionNames) -> Vec<(&'n ListedTable, Option<String>)> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c.is_alphanumeric() || c == '_' || c == '"') {
        rest = &rest[at..];
        let mut is_quoted = false;
        let end = rest.find(|c: char| {
            is_quoted ^= c == '"';
            !(is_quoted || c == '"' || c == '.' || c == '_' || c.is_alphanumeric())
        });
        let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
        // A comma or bracket after the word keeps the next word from being its alias.
        words.push((word, after.starts_with(char::is_whitespace)));
        rest = after;
    }
    let mut found = Vec::new();
    for (index, (word, is_followed)) in words.iter().enumerate() {
        let named = |table: &&ListedTable| table.sql_name().eq_ignore_ascii_case(word) || matches(&table.table, word);
        let Some(table) = names.tables().iter().find(named) else { continue };
        let mut next = words[index + 1..].iter().map(|(word, _)| *word);
        let alias = match next.next().filter(|_| *is_followed) {
            Some(word) if word.eq_ignore_ascii_case("AS") => next.next(),
            other => other,
        };
        let alias = alias.filter(|alias| !KEYWORDS.iter().any(|keyword| keyword.eq_ignore_ascii_case(alias)));
        found.push((table, alias.map(str::to_owned)));
    }
    found
}

/// Returns true if an SQL name, quoted or not, means `name`.
fn matches(name: &str, sql: &str) -> bool {
    name.eq_ignore_ascii_case(sql.trim_matches('"'))
}

/// Returns true if `name` begins with a typed part of a name.
fn begins(name: &str, typed: &str) -> bool {
    name.to_lowercase().starts_with(&typed.trim_matches('"').to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct KnownNames(Vec<ListedTable>, Vec<String>);

    impl CompletionNames for KnownNames {
        fn tables(&self) -> &[ListedTable] {
            &self.0
        }
        fn columns(&self, table: &ListedTable) -> Vec<String> {
            match table.table.as_str() {
                "summary" => vec!["method".to_owned(), "rsum".to_owned()],
                _ => vec!["rank".to_owned(), "query_id".to_owned()],
            }
        }
        fn functions(&self) -> &[String] {
            &self.1
        }
    }

    /// Completions at the `|` of a text.
    fn completions(text: &str) -> Vec<String> {
        let table =
            |schema: &str, table: &str| ListedTable { schema: schema.to_owned(), table: table.to_owned(), rows: None };
        let tables = vec![table("test", "summary"), table("test", "rankings"), table("hal-bank", "summary")];
        let names = KnownNames(tables, vec!["round".to_owned(), "row_number".to_owned()]);
        let cursor = text.find('|').unwrap();
        complete(&text.replace('|', ""), cursor, &names).1
    }

    #[test]
    fn keywords_schemas_tables_columns_and_functions_are_completed() {
        for (text, found) in [
            ("sel|", vec!["select"]),
            ("SEL|", vec!["SELECT"]),
            ("SELECT 1 FROM te|", vec!["test."]),
            ("SELECT 1 FROM hal|", vec!["\"hal-bank\"."]),
            ("SELECT 1 FROM test.|", vec!["test.rankings", "test.summary"]),
            ("SELECT 1 FROM \"hal-bank\".s|", vec!["\"hal-bank\".summary"]),
            ("SELECT rs| FROM test.summary", vec!["rsum"]),
            ("SELECT s.| FROM test.summary AS s, test.rankings r", vec!["s.method", "s.rsum"]),
            ("SELECT r.q| FROM test.summary AS s, test.rankings r", vec!["r.query_id"]),
            ("SELECT summary.m| FROM test.summary WHERE 1", vec!["summary.method"]),
            ("SELECT rou|", vec!["round("]),
            ("SELECT |", vec![]),
        ] {
            assert_eq!(completions(text), found, "{text}");
        }
    }

    #[test]
    fn the_word_to_replace_starts_behind_the_last_separator() {
        let names = KnownNames(vec![], vec![]);
        assert_eq!(complete("SELECT (se", 10, &names).0, 8);
        assert_eq!(complete("FROM \"a b\".c", 12, &names).0, 5);
        assert_eq!(complete("FROM \"a b", 9, &names).0, 5);
    }
}
