//! Tests of what is refused.

use crate::testing::text;
use crate::{OutputFormat, Session};
use pairloom_base::error::ErrorCategory;

/// Each query is refused by the part that its message names, with the form to write instead.
#[test]
fn what_is_not_of_this_sql_is_refused() {
    let session = Session::of_empty_tables([]).unwrap();
    let (a, b) = ("(VALUES (1), (2)) a(x)", "(VALUES (1), (NULL)) b(y)");
    let rows = format!("(SELECT y FROM {b})");
    let same = format!("FROM {b} WHERE y = x");
    for (sql, expected) in [
        (format!("SELECT x FROM {a} WHERE EXISTS (SELECT 1 {same})"), "reads `a.x` of the query around it"),
        (format!("SELECT x FROM {a} WHERE x IN (SELECT y {same})"), "reads `a.x` of the query around it"),
        (format!("SELECT (SELECT count(*) {same}) FROM {a}"), "reads `a.x` of the query around it"),
        (format!("SELECT count(*) FILTER (WHERE x > (SELECT max(y) {same})) FROM {a}"), "reads `a.x`"),
        (format!("EXPLAIN SELECT x FROM {a} WHERE EXISTS (SELECT 1 {same})"), "reads `a.x`"),
        (format!("SELECT x, n FROM {a}, LATERAL (SELECT count(*) n {same}) l"), "`LATERAL` has another order"),
        (format!("SELECT x IN {rows} FROM {a}"), "`IN` with a subquery outside"),
        (format!("SELECT x FROM {a} WHERE NOT (x IN {rows})"), "`IN` with a subquery outside"),
        (format!("SELECT x FROM {a} WHERE (x IN {rows}) IS NULL"), "`IN` with a subquery outside"),
        (format!("SELECT x FROM {a} WHERE CASE WHEN x IN {rows} THEN true END"), "`IN` with a subquery outside"),
        (format!("SELECT x FROM {a} JOIN {b} ON x IN {rows}"), "`IN` with a subquery outside"),
        (format!("SELECT x FROM {a} WHERE x NOT IN {rows} OR x = 1"), "`NOT IN` with a subquery"),
        (format!("SELECT x FROM {a} WHERE 3 NOT IN {rows}"), "`NOT IN` with a subquery"),
        (format!("SELECT EXISTS {rows}"), "`EXISTS` outside"),
        (format!("SELECT x FROM {a} WHERE x > ALL {rows}"), "`ANY` or `ALL` with a subquery"),
        (format!("SELECT x FROM {a}, {b} WHERE x IS NOT DISTINCT FROM y"), "`IS DISTINCT FROM` between columns"),
        (format!("SELECT x FROM {a} WHERE x IS DISTINCT FROM 1 AND x > 0"), "before an operator"),
        (format!("SELECT x FROM {a} TABLESAMPLE (10 PERCENT)"), "`TABLESAMPLE`"),
        (format!("SELECT * FROM {a} LEFT JOIN (SELECT 1 x) b USING (x)"), "with `USING` or `NATURAL`"),
        (format!("SELECT * FROM {a} FULL JOIN (SELECT 1 x) b USING (x)"), "with `USING` or `NATURAL`"),
        (format!("SELECT * FROM {a} NATURAL RIGHT JOIN (SELECT 1 x) b"), "with `USING` or `NATURAL`"),
        (format!("SELECT x FROM {a} INTERSECT ALL SELECT y FROM {b}"), "`INTERSECT ALL` or `EXCEPT ALL`"),
        (format!("SELECT * FROM (SELECT x FROM {a} ORDER BY x OFFSET 1) t"), "`OFFSET` without `LIMIT`"),
        (format!("SELECT x FROM {a} FETCH FIRST 1 ROW ONLY"), "`FETCH`"),
        (format!("SELECT TOP 1 x FROM {a}"), "`TOP`"),
        (format!("SELECT x FROM {a} FOR UPDATE"), "`FOR` behind a query"),
        (format!("FROM {a}"), "a query without `SELECT`"),
        (format!("SELECT x INTO t FROM {a}"), "`SELECT … INTO`"),
        ("SELECT 'abc' SIMILAR TO 'b'".to_owned(), "`'abc' SIMILAR TO 'b'`"),
        ("SELECT '{}'->>'a' || 'b'".to_owned(), "`->` or `->>` before an operator"),
        ("SELECT no_such(1)".to_owned(), "there is no function `no_such`"),
    ] {
        let error = text(&session, &sql, OutputFormat::Csv).expect_err(&sql);
        assert_eq!(error.category(), ErrorCategory::Usage, "{sql}: {error}");
        assert!(error.to_string().contains(expected) && error.hint_text().is_some(), "{sql}: {error}");
    }
}

#[test]
fn the_place_of_what_is_refused_is_shown() {
    let session = Session::of_empty_tables([]).unwrap();
    for (sql, place) in [
        ("SELECT 1\nFROM range(3)\nWHERE value NOT IN (SELECT 1) OR true", "at line 3, column 7"),
        (
            "SELECT x FROM (SELECT 1 x) a WHERE EXISTS (SELECT 1 FROM range(2) WHERE value = a.x)",
            "at line 1, column 81",
        ),
        ("SELECT 1 + nothing(2)", "at line 1, column 12"),
    ] {
        let error = text(&session, sql, OutputFormat::Csv).unwrap_err();
        assert!(error.to_string().contains(place), "{sql}: {error}");
    }
}
