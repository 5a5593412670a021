//! Statements in a text: the ends of statements, the one statement of a query, and the kinds that a session runs: queries,
//! `EXPLAIN`, `SHOW` and `DESCRIBE`. All others would write.

use datafusion::common::TableReference;
use datafusion::error::DataFusionError;
use datafusion::sql::parser::{DFParserBuilder, Statement};
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    DescribeAlias, ObjectName, ShowStatementFilter, ShowStatementFilterPosition, ShowStatementOptions, Statement as Sql,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use crate::errors::{checked, no_copy, query_error, read_only};
use pairloom_base::error::{Error, Result};

/// Splits a text into statements that end with `;`, and the rest after the last one. A `;` within quotes or a comment
/// ends nothing; statements without content are left out.
#[must_use]
pub fn split_statements(text: &str) -> (Vec<String>, String) {
    let mut places = TokenPlaces::new(text);
    let mut tokens = Vec::new();
    // With an open quote or comment, the tokens before it are kept.
    let is_open = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location_into_buf(&mut tokens).is_err();
    let (mut statements, mut start, mut has_content) = (Vec::new(), 0, false);
    for token in tokens {
        match token.token {
            Token::SemiColon => {
                let end = places.byte_of(token.span.start.line, token.span.start.column);
                // Tokens within `/*! … */` have places that are not theirs.
                if end < start || !text[end..].starts_with(';') {
                    has_content = true;
                    continue;
                }
                if has_content {
                    statements.push(text[start..end].trim().to_owned());
                }
                (start, has_content) = (end + 1, false);
            }
            Token::Whitespace(_) | Token::EOF => {}
            _ => has_content = true,
        }
    }
    let rest = text.get(start..).unwrap_or_default();
    (statements, if has_content || is_open { rest.trim().to_owned() } else { String::new() })
}

/// Largest number of operators, joins or set operations within each other: each is a level of the tree of the query.
const MAX_CHAIN: usize = 1_000;

/// Parses a text with one statement.
///
/// # Errors
/// It is no SQL, or another number of statements. Or it has more than a thousand operators within each other: nobody limits
/// the tree of `1 + 1 + …`, and to drop it would use up the stack.
pub(super) fn parse(sql: &str) -> Result<Statement> {
    let wrong = |error: DataFusionError| query_error(&error, sql);
    let tokens = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location();
    let tokens = tokens.map_err(|error| wrong(ParserError::from(error).into()))?;
    check_depth(&tokens)?;
    let mut parser = DFParserBuilder::new(tokens).build().map_err(wrong)?;
    let mut statements = parser.parse_statements().map_err(wrong)?;
    match (statements.pop_front(), statements.len()) {
        (Some(statement), 0) => Ok(statement),
        (None, _) => Err(Error::usage("SQL: the query is empty").hint("`SHOW TABLES` lists the tables")),
        (_, more) => Err(Error::usage(format!("SQL: {} statements, expected one", more + 1))),
    }
}

/// The query of a statement, also of one that is explained.
pub(super) fn sql_of_mut(statement: &mut Statement) -> Option<&mut Sql> {
    match statement {
        Statement::Statement(sql) => Some(sql),
        Statement::Explain(explained) => sql_of_mut(&mut explained.statement),
        _ => None,
    }
}

fn check_depth(tokens: &[TokenWithSpan]) -> Result<()> {
    // On each level of brackets: operators in a row, and the deepest row within brackets of this row. A comma begins
    // another row.
    let (mut levels, mut longest) = (vec![(0_usize, 0_usize)], 0);
    for TokenWithSpan { token, .. } in tokens {
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => levels.push((0, 0)),
            Token::RParen | Token::RBracket | Token::RBrace if levels.len() > 1 => {
                let (row, within) = levels.pop().unwrap_or_default();
                if let Some((_, deepest)) = levels.last_mut() {
                    *deepest = (*deepest).max(row + within);
                }
            }
            _ => {}
        }
        let Some((row, within)) = levels.last_mut() else { break };
        match token {
            Token::Comma | Token::SemiColon => *row = 0,
            Token::Number(..) | Token::Whitespace(_) | Token::SingleQuotedString(_) => {}
            Token::Word(word) => *row += usize::from(is_operator(word.keyword)),
            // Brackets are levels, and subscripts and calls follow each other.
            _ => *row += 1,
        }
        longest = longest.max(*row + *within);
    }
    if longest <= MAX_CHAIN {
        return Ok(());
    }
    Err(Error::usage(format!("SQL: {longest} operators within each other, expected at most {MAX_CHAIN}"))
        .hint("`x IN (…)`, or a table of values: `FROM (VALUES (1), (2)) AS t(x)`"))
}

/// True for a keyword that joins two expressions or queries.
fn is_operator(keyword: Keyword) -> bool {
    use Keyword::{AND, AT, BETWEEN, COLLATE, EXCEPT, ILIKE, INTERSECT, IS, JOIN, LIKE, NOT, OR, UNION, XOR};
    matches!(
        keyword,
        AND | OR | XOR | NOT | IS | LIKE | ILIKE | BETWEEN | COLLATE | AT | UNION | EXCEPT | INTERSECT | JOIN
    )
}

/// Byte offsets of lines and columns. A place behind the one before, in its line, costs the characters between the two: a
/// line may have a million tokens.
struct TokenPlaces<'t> {
    text: &'t str,
    line_starts: Vec<usize>,
    /// Line and column, both from 0, and byte offset of the last place.
    last: (usize, usize, usize),
}

impl<'t> TokenPlaces<'t> {
    fn new(text: &'t str) -> Self {
        let line_starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        Self { text, line_starts, last: (0, 0, 0) }
    }

    /// Byte offset of a line and column, both from 1; columns count characters.
    fn byte_of(&mut self, line: u64, column: u64) -> usize {
        let from_zero = |number: u64| usize::try_from(number).unwrap_or(1).saturating_sub(1);
        let (line, column) = (from_zero(line), from_zero(column));
        let line_start = self.line_starts.get(line).copied().unwrap_or(self.text.len());
        let (before, start) = match self.last {
            (last_line, last_column, byte) if last_line == line && last_column <= column => (last_column, byte),
            _ => (0, line_start),
        };
        let rest = self.text[start..].char_indices().nth(column - before);
        let byte = rest.map_or(self.text.len(), |(at, _)| start + at);
        self.last = (line, column, byte);
        byte
    }
}

/// Statement by the way in which it is answered.
pub(super) enum Request {
    /// DataFusion plans it.
    Query,
    /// It has the rows of another query, over the tables of `information_schema`.
    Rewritten(String),
    /// The columns of a table.
    Describe(TableReference),
}

/// Returns the way in which a statement is answered.
///
/// # Errors
/// The statement would write, or it is a `SHOW` of something else.
pub(super) fn request(statement: &Statement) -> Result<Request> {
    match statement {
        Statement::Statement(sql) => match &**sql {
            Sql::ExplainTable { describe_alias: DescribeAlias::Describe | DescribeAlias::Desc, table_name, .. } => {
                describe(table_name)
            }
            Sql::Query(_) => Ok(Request::Query),
            Sql::Explain { statement, .. } if matches!(**statement, Sql::Query(_)) => Ok(Request::Query),
            Sql::ShowTables { show_options, .. } => show_tables(show_options),
            Sql::ShowColumns { show_options, .. } => show_columns(show_options),
            Sql::ShowSchemas { show_options, .. } | Sql::ShowDatabases { show_options, .. } => {
                let filter = filter_condition("schema_name", show_options)?;
                let query = "SELECT schema_name AS \"schema\" FROM information_schema.schemata";
                Ok(Request::Rewritten(format!("{query}{}", where_clause(filter.into_iter()))))
            }
            Sql::ShowFunctions { filter } => {
                let filter = filter.as_ref().map(|filter| condition("routine_name", filter)).transpose()?;
                let query = "SELECT routine_name AS \"function\", routine_type AS \"type\", syntax, description FROM \
                             information_schema.routines";
                Ok(Request::Rewritten(format!("{query}{}", where_clause(filter.into_iter()))))
            }
            Sql::ShowVariable { .. }
            | Sql::ShowVariables { .. }
            | Sql::ShowStatus { .. }
            | Sql::ShowViews { .. }
            | Sql::ShowCatalogs { .. }
            | Sql::ShowCreate { .. }
            | Sql::ShowCollation { .. }
            | Sql::ExplainTable { .. } => Err(unknown_show()),
            Sql::Copy { .. } | Sql::Unload { .. } => Err(no_copy()),
            _ => Err(read_only()),
        },
        Statement::CopyTo(_) => Err(no_copy()),
        Statement::Explain(explained) => match request(&explained.statement)? {
            Request::Query => Ok(Request::Query),
            _ => Err(Error::usage("SQL: `EXPLAIN` of this statement, expected a query")),
        },
        _ => Err(read_only()),
    }
}

fn unknown_show() -> Error {
    Error::usage("SQL: this `SHOW` is unknown").hint(
        "there are `SHOW SCHEMAS`, `SHOW TABLES FROM stage`, `SHOW COLUMNS FROM stage.table` and \
         `SHOW FUNCTIONS LIKE 'array%'`",
    )
}

fn describe(name: &ObjectName) -> Result<Request> {
    Ok(Request::Describe(checked(object_name_to_table_reference(name.clone(), true))?))
}

fn show_tables(options: &ShowStatementOptions) -> Result<Request> {
    let parent = options.show_in.as_ref().and_then(|parent| parent.parent_name.as_ref());
    let schema = match parent.map(|name| checked(object_name_to_table_reference(name.clone(), true))).transpose()? {
        None => None,
        Some(TableReference::Bare { table }) => Some(format!("lower(table_schema) = lower({})", literal(&table))),
        Some(other) => {
            return Err(Error::usage(format!("SQL: `SHOW TABLES FROM {other}`, expected the name of a stage")));
        }
    };
    let filter = filter_condition("table_name", options)?;
    let query = "SELECT table_schema AS \"schema\", table_name AS \"table\", table_rows AS \"rows\", table_comment AS \
                 description FROM information_schema.tables";
    Ok(Request::Rewritten(format!("{query}{}", where_clause(schema.into_iter().chain(filter)))))
}

fn show_columns(options: &ShowStatementOptions) -> Result<Request> {
    let parent = options.show_in.as_ref().and_then(|parent| parent.parent_name.as_ref());
    match parent {
        Some(name) if options.filter_position.is_none() => describe(name),
        Some(_) => Err(Error::usage("SQL: `SHOW COLUMNS` with a condition").hint(
            "query `information_schema.columns` with a condition on `table_schema`, `table_name`, `column_name`",
        )),
        None => Err(Error::usage("SQL: `SHOW COLUMNS` without a table, expected `SHOW COLUMNS FROM stage.table`")),
    }
}

/// Condition of `LIKE` or `ILIKE` on a column.
fn filter_condition(column: &str, options: &ShowStatementOptions) -> Result<Option<String>> {
    if options.starts_with.is_some() || options.limit.is_some() || options.limit_from.is_some() {
        return Err(unknown_show());
    }
    let filter = match &options.filter_position {
        None => return Ok(None),
        Some(ShowStatementFilterPosition::Infix(filter) | ShowStatementFilterPosition::Suffix(filter)) => filter,
    };
    condition(column, filter).map(Some)
}

fn condition(column: &str, filter: &ShowStatementFilter) -> Result<String> {
    match filter {
        ShowStatementFilter::Like(pattern) => Ok(format!("{column} LIKE {}", literal(pattern))),
        ShowStatementFilter::ILike(pattern) => Ok(format!("{column} ILIKE {}", literal(pattern))),
        _ => Err(unknown_show()),
    }
}

fn where_clause(conditions: impl Iterator<Item = String>) -> String {
    let conditions: Vec<String> = conditions.collect();
    if conditions.is_empty() { String::new() } else { format!(" WHERE {}", conditions.join(" AND ")) }
}

fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each `;` was counted from the start of the line: a mebibyte of them took ten minutes.
    #[test]
    fn a_line_of_many_statements_is_split_in_one_pass() {
        let (statements, rest) =
            split_statements(&format!("{}SELECT 1; 'ü;' ;{}\nx;y", ";".repeat(500_000), "a;".repeat(200_000)));
        assert_eq!((statements.len(), rest.as_str()), (2 + 200_000 + 1, "y"));
        assert_eq!(statements[..3], ["SELECT 1", "'ü;'", "a"]);
        assert_eq!(statements.last().unwrap(), "x");
    }

    #[test]
    fn deep_statements_are_refused_and_long_ones_are_not() {
        let check_depth =
            |sql: &str| check_depth(&Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location().unwrap());
        let chain = |term: &str, count: usize| format!("SELECT 1 FROM t WHERE x{}", term.repeat(count));
        for term in [" + 1", " AND x", "::int", " IS NULL", "[1]", " OR x = 1", "->'a'"] {
            assert!(check_depth(&chain(term, 300)).is_ok(), "{term}");
            assert!(check_depth(&chain(term, 1_100)).is_err(), "{term}");
        }
        assert!(check_depth(&format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(1_100))).is_err());
        let nested =
            |levels: usize| (0..levels).fold("x".to_owned(), |inner, _| format!("({inner}{})", " + 1".repeat(90)));
        assert!(check_depth(&nested(5)).is_ok() && check_depth(&nested(14)).is_err());
        for long in [
            format!("SELECT 1{}", ", a + b = c".repeat(5_000)),
            format!("SELECT 1 FROM t WHERE x IN (1{})", ", 2".repeat(50_000)),
            format!("SELECT * FROM (VALUES (1, -1){}) AS t(x, y)", ", (2, -2)".repeat(20_000)),
            "SELECT ')))'".to_owned(),
        ] {
            assert!(check_depth(&long).is_ok());
        }
    }

    #[test]
    fn statements_end_at_semicolons_outside_of_quotes_and_comments() {
        for (text, statements, rest) in [
            ("", vec![], ""),
            ("SELECT 1", vec![], "SELECT 1"),
            ("SELECT 1;", vec!["SELECT 1"], ""),
            ("SELECT 'ä;ö';  SELECT\n 2 ; ;-- end;", vec!["SELECT 'ä;ö'", "SELECT\n 2"], ""),
            ("SELECT \"a;b\" /* ; */ FROM t;\nSELECT 3", vec!["SELECT \"a;b\" /* ; */ FROM t"], "SELECT 3"),
            ("SELECT 1; SELECT 'open;", vec!["SELECT 1"], "SELECT 'open;"),
            ("SELECT /* open;", vec![], "SELECT /* open;"),
        ] {
            assert_eq!(split_statements(text), (statements.iter().map(|s| (*s).to_owned()).collect(), rest.to_owned()));
        }
    }

    /// The tokenizer reads `/*! … */` as tokens, whose places it counts from the start of the comment.
    #[test]
    fn wrong_places_of_tokens_cut_no_character() {
        for letters in 0..40 {
            let foreign = "\u{fffd}".repeat(letters);
            let text = format!("SELE'a;b':/*!\0 {foreign}b;\u{fffd}*{foreign};\u{fffd}*/z ELE");
            let (statements, rest) = split_statements(&text);
            assert!(statements.iter().chain([&rest]).all(|part| text.contains(part.as_str())), "{text}");
        }
    }
}
