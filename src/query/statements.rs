//! Statements in a text: the ends of statements, the kinds that a session runs (queries, `EXPLAIN`, `SHOW` and `DESCRIBE`;
//! all others would write), and queries that DataFusion would read as other ones.

use std::ops::ControlFlow;

use datafusion::common::TableReference;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DescribeAlias, Expr, Join, JoinConstraint, JoinOperator, LimitClause, ObjectName, Query, Select,
    SelectFlavor, SetExpr, SetOperator, SetQuantifier, ShowStatementFilter, ShowStatementFilterPosition,
    ShowStatementOptions, Statement as Sql, TableFactor, Visit, Visitor,
};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::errors::{checked, no_copy, read_only};
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

/// Refuses a statement whose tree is so deep that planning it could exhaust the stack, such as `1 + 1 + …`.
///
/// # Errors
/// The statement has more than a thousand operators within each other.
pub(super) fn check_depth(sql: &str) -> Result<()> {
    let mut tokens = Vec::new();
    // The parser has the better message for a text that has no tokens.
    let _ = Tokenizer::new(&GenericDialect {}, sql).tokenize_with_location_into_buf(&mut tokens);
    // On each level of brackets: operators in a row, and the deepest row within brackets of this row. A comma begins
    // another row.
    let (mut levels, mut longest) = (vec![(0_usize, 0_usize)], 0);
    for token in tokens {
        match token.token {
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
        match token.token {
            Token::Comma => *row = 0,
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
    Err(Error::usage(format!("SQL: {longest} operators within each other, wanted at most {MAX_CHAIN}"))
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
            Sql::Query(query) => match &*query.body {
                SetExpr::Select(select) if select.flavor == SelectFlavor::FromFirstNoSelect => {
                    let from: Vec<String> = select.from.iter().map(ToString::to_string).collect();
                    let error = Error::usage("SQL: the query has no `SELECT`");
                    Err(error.hint(format!("write what to select: `SELECT * FROM {}`", from.join(", "))))
                }
                _ => Ok(Request::Query),
            },
            Sql::Explain { .. } => Ok(Request::Query),
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
            _ => Err(Error::usage("SQL: `EXPLAIN` of this statement, wanted a query")),
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
            return Err(Error::usage(format!("SQL: `SHOW TABLES FROM {other}`, wanted the name of a stage")));
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
        None => Err(Error::usage("SQL: `SHOW COLUMNS` without a table, wanted `SHOW COLUMNS FROM stage.table`")),
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

/// Refuses a statement whose rows would be wrong, with DataFusion 55 and sqlparser 0.62.
///
/// # Errors
/// The statement has one of these, and the hint says how to write it:
/// - `TABLESAMPLE`, which is left out.
/// - `RIGHT` or `FULL JOIN` with `USING`, or `NATURAL`: the common column has the values of the left table only.
/// - `INTERSECT ALL` and `EXCEPT ALL`: repeated rows are not counted.
/// - `a IS DISTINCT FROM b AND c` without brackets: it is read as `a IS DISTINCT FROM (b AND c)`.
/// - `ORDER BY` and `OFFSET` without `LIMIT` in a subquery: the order is lost before rows are skipped.
pub(super) fn check_reading(statement: &Statement) -> Result<()> {
    let sql = match statement {
        Statement::Statement(sql) => sql,
        Statement::Explain(explained) => return check_reading(&explained.statement),
        _ => return Ok(()),
    };
    match sql.visit(&mut Misread { depth: 0, is_lateral: false }) {
        ControlFlow::Break((what, hint)) => Err(Error::usage(format!("SQL: {what} is not supported")).hint(hint)),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Visitor that ends at the first part of a query that would be misread, with its name and a hint.
struct Misread {
    /// Number of queries around.
    depth: usize,
    /// True if the next query is a lateral one, whose planner refuses it with its own reason.
    is_lateral: bool,
}

impl Visitor for Misread {
    type Break = (&'static str, &'static str);

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        let is_lateral = std::mem::take(&mut self.is_lateral);
        check_body(&query.body)?;
        let is_offset_alone =
            matches!(&query.limit_clause, Some(LimitClause::LimitOffset { limit: None, offset: Some(_), .. }));
        if self.depth > 1 && !is_lateral && query.order_by.is_some() && is_offset_alone {
            return ControlFlow::Break(("`OFFSET` without `LIMIT` in a subquery", "add a `LIMIT`"));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<Self::Break> {
        select.from.iter().flat_map(|tables| &tables.joins).try_for_each(check_join)
    }

    fn pre_visit_table_factor(&mut self, table: &TableFactor) -> ControlFlow<Self::Break> {
        match table {
            TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => {
                ControlFlow::Break(("`TABLESAMPLE`", "`WHERE random() < 0.1` keeps a tenth"))
            }
            TableFactor::Derived { lateral, .. } => {
                self.is_lateral = *lateral;
                ControlFlow::Continue(())
            }
            TableFactor::NestedJoin { table_with_joins, .. } => table_with_joins.joins.iter().try_for_each(check_join),
            _ => ControlFlow::Continue(()),
        }
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::IsDistinctFrom(_, right) | Expr::IsNotDistinctFrom(_, right) if is_condition(right) => {
                ControlFlow::Break((
                    "`IS DISTINCT FROM` before `AND` or `OR`",
                    "put it in brackets: `(a IS DISTINCT FROM b) AND c`",
                ))
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Returns true for conditions that are joined without brackets.
fn is_condition(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor, .. })
}

/// Refuses set operations that do not count rows.
fn check_body(body: &SetExpr) -> ControlFlow<(&'static str, &'static str)> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return ControlFlow::Continue(()) };
    let counts = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
    if counts && *op != SetOperator::Union {
        let hint = "leave out `ALL`, or count the rows of each side with `GROUP BY`";
        return ControlFlow::Break(("`INTERSECT ALL` or `EXCEPT ALL`", hint));
    }
    check_body(left)?;
    check_body(right)
}

/// Refuses joins whose common column is taken from the left table, which may lack the row.
fn check_join(join: &Join) -> ControlFlow<(&'static str, &'static str)> {
    let (JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) | JoinOperator::FullOuter(constraint)) =
        &join.join_operator
    else {
        return ControlFlow::Continue(());
    };
    match constraint {
        JoinConstraint::Using(_) | JoinConstraint::Natural => ControlFlow::Break((
            "`RIGHT JOIN` or `FULL JOIN` with `USING` or `NATURAL`",
            "`a FULL JOIN b ON a.x = b.x`, and `coalesce(a.x, b.x)` for the common column",
        )),
        _ => ControlFlow::Continue(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::text;
    use crate::{OutputFormat, Session};
    use pairloom_base::error::ErrorCategory;

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

    #[test]
    fn queries_that_would_be_misread_are_refused() {
        let session = Session::of_empty_tables([]).unwrap();
        let run = |sql: &str| text(&session, sql, OutputFormat::Csv);
        let (a, b) = ("(VALUES (1), (2)) a(x)", "(VALUES (2), (3)) b(x)");
        let both = "(VALUES (true, false), (false, true)) t(f, g)";
        for (sql, wanted) in [
            (format!("SELECT x FROM {a} TABLESAMPLE (1 ROWS)"), "`TABLESAMPLE` is not"),
            (format!("SELECT x FROM (SELECT x FROM {a}) s TABLESAMPLE BERNOULLI (10)"), "`TABLESAMPLE` is not"),
            (format!("SELECT x FROM {a} RIGHT JOIN {b} USING (x)"), "`USING`"),
            (format!("SELECT x FROM {a} FULL JOIN {b} USING (x)"), "`USING`"),
            (format!("SELECT 1 WHERE EXISTS (SELECT x FROM ({a} NATURAL FULL JOIN {b}))"), "`NATURAL`"),
            (format!("EXPLAIN SELECT x FROM {a} NATURAL RIGHT JOIN {b}"), "`NATURAL`"),
            (format!("SELECT x FROM {a} INTERSECT ALL SELECT x FROM {b}"), "`INTERSECT ALL`"),
            (format!("(SELECT x FROM {a} EXCEPT ALL SELECT x FROM {b}) UNION SELECT 1"), "`EXCEPT ALL`"),
            (format!("SELECT f FROM {both} WHERE f IS DISTINCT FROM true AND g"), "`IS DISTINCT FROM` before"),
            (format!("SELECT f IS NOT DISTINCT FROM g OR true FROM {both}"), "`IS DISTINCT FROM` before"),
            (format!("SELECT sum(x) FROM (SELECT x FROM {a} ORDER BY x OFFSET 1)"), "`OFFSET` without"),
        ] {
            let error = run(&sql).unwrap_err();
            assert_eq!(error.category(), ErrorCategory::Usage, "{sql}: {error}");
            assert!(error.to_string().contains(wanted) && error.hint_text().is_some(), "{sql}: {error}");
        }
        // The same as the hints say, and what is read as it is written. Rows by hand.
        for (sql, wanted) in [
            (format!("SELECT coalesce(a.x, b.x) x FROM {a} FULL JOIN {b} ON a.x = b.x ORDER BY x"), "1 2 3"),
            (format!("SELECT x FROM {a} JOIN {b} USING (x)"), "2"),
            (format!("SELECT x FROM {a} LEFT JOIN {b} USING (x) ORDER BY x"), "1 2"),
            (format!("SELECT x FROM {a} INTERSECT SELECT x FROM {b}"), "2"),
            (format!("SELECT x FROM {a} UNION ALL SELECT x FROM {b} ORDER BY x"), "1 2 2 3"),
            (format!("SELECT f FROM {both} WHERE (f IS DISTINCT FROM true) AND g"), "false"),
            (format!("SELECT f FROM {both} WHERE g AND f IS DISTINCT FROM true"), "false"),
            (format!("SELECT x FROM {a} WHERE x IS DISTINCT FROM 1 + 1"), "1"),
            (format!("SELECT sum(x) FROM (SELECT x FROM {a} ORDER BY x LIMIT 9 OFFSET 1)"), "2"),
            (format!("SELECT x FROM {a} ORDER BY x OFFSET 1"), "2"),
        ] {
            let csv = run(&sql).unwrap();
            assert_eq!(csv.lines().skip(1).collect::<Vec<_>>().join(" "), wanted, "{sql}");
        }
    }
}
