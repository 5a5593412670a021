//! Tests of the messages of wrong queries: places, near names, quotes.

use super::testing::{scores, store, text};
use super::{OutputFormat, Session};
use pairloom_base::error::{Error, ErrorCategory};
use pairloom_base::runtime::NamedFile;
use pairloom_storage::parquet;

fn error(sql: &str) -> Error {
    let (_folder, store, _) = store();
    text(&Session::open(&store).unwrap(), sql, OutputFormat::Csv).expect_err("the query is wrong")
}

#[test]
fn a_syntax_error_shows_its_place() {
    let got = error("SELECT rsum\nFROM test.summary\nWHERE rsum > > 1").to_string();
    assert!(got.starts_with("SQL: expected an expression, found `>` at line 3, column 14"), "{got}");
    assert!(got.ends_with("\n  WHERE rsum > > 1\n               ^"), "{got}");
    assert!(error("SELECT (1").to_string().ends_with("found the end of the query"));
}

#[test]
fn a_name_with_a_hyphen_needs_quotes() {
    for sql in ["SELECT * FROM dev-set.summary", "SELECT dev-set.summary.rsum FROM test.summary"] {
        let got = error(sql);
        let hint = got.hint_text().unwrap_or_default();
        assert_eq!(hint, "a name with a hyphen needs double quotes: `\"dev-set\".summary`", "{sql}: {got}");
    }
}

#[test]
fn an_unknown_column_names_near_ones_and_its_place() {
    let got = error("SELECT method,\n  s.rsun FROM test.summary s");
    assert_eq!(got.hint_text(), Some("did you mean `rsum`?"));
    assert_eq!(
        got.to_string(),
        "SQL: there is no column `rsun` at line 2, column 3; there are rsum, method\n    s.rsun FROM test.summary s\n    ^"
    );
    let got = error("SELECT rsum FROM test.summary a, test.summary b");
    assert!(got.to_string().starts_with("SQL: several tables have a column `rsum`"), "{got}");
}

#[test]
fn operators_of_vector_databases_are_refused_with_the_function() {
    let pair = "FROM cnn.features a, cnn.features b";
    for (sql, function) in [
        (format!("SELECT a.feature <-> b.feature {pair}"), "array_distance(a, b)"),
        (format!("SELECT a.feature <#> b.feature {pair}"), "inner_product(a, b)"),
        (format!("SELECT a.feature <+> b.feature {pair}"), "l1_distance(a, b)"),
        (format!("SELECT a.feature <~> b.feature {pair}"), "cosine_distance, cosine_similarity, inner_product"),
    ] {
        let got = error(&sql);
        let text = format!("{got} {}", got.hint_text().unwrap_or_default());
        assert!(text.contains(function), "{sql}: {text}");
    }
    // Between numbers it is an equality for MySQL and DataFusion.
    let got = error("SELECT 1 <=> NULL").to_string();
    assert!(got.contains("`a IS NOT DISTINCT FROM b`") && got.contains("`cosine_distance(a, b)`"), "{got}");
}

#[test]
fn habits_of_other_programs_are_answered_with_our_form() {
    for (sql, hint) in [
        ("SELECT rsum FROM test.summary WHERE method = \"nns\"", "single quotes are for text: `'nns'`"),
        ("SELECT \"RSUM\" FROM test.summary", "did you mean `rsum`?"),
        ("FROM test.summary LIMIT 1", "write: `SELECT * FROM test.summary`"),
        (
            "SELECT method, avg(rsum) FROM test.summary",
            "either add 'test.summary.method' to GROUP BY clause, or use an aggregate function like \
             ANY_VALUE(test.summary.method)",
        ),
        ("SELECT * FROM test", "`SHOW TABLES FROM test` describes them"),
        ("SELECT * FROM 'my scores.csv'", "name the file: `--file 'mine=my scores.csv'`, and query `FROM mine`"),
        ("SELECT * FROM read_csv('a.csv')", "name the file: `--file mine=scores.csv`, and query `FROM mine`"),
        (
            "COPY (SELECT 1) TO 'a.csv'",
            "the command writes the result of a query to a file: `pairloom sql QUERY --output FILE`",
        ),
        (
            "COPY test.summary TO 'a.csv' (FORMAT csv)",
            "the command writes the result of a query to a file: `pairloom sql QUERY --output FILE`",
        ),
    ] {
        let got = error(sql);
        assert_eq!(got.hint_text(), Some(hint), "{sql}: {got}");
    }
}

#[test]
fn a_wrong_type_is_named() {
    let got = error("SELECT rsum FROM test.summary WHERE rsum = 'abc'").to_string();
    assert!(got.contains("annot cast string 'abc' to value of Float64 type"), "{got}");
    let got = error("SELECT cosine_distance(feature, 3) FROM cnn.features").to_string();
    assert!(got.contains("`cosine_distance` of Int64, expected a vector: a list of numbers"), "{got}");
}

#[test]
fn a_cast_sorts_by_the_column_itself() {
    let (_folder, store, _) = store();
    let session = Session::open(&store).unwrap();
    for (sql, rows) in [
        // As texts, `8` is after `12`.
        (
            "SELECT n::varchar, count(*) AS found FROM (SELECT 4 * image_id AS n FROM cnn.features) GROUP BY n \
             ORDER BY n DESC LIMIT 1",
            "n::VARCHAR,found\n12,1\n",
        ),
        (
            "SELECT (10 * rsum)::int::varchar FROM test.summary r ORDER BY r.rsum DESC",
            "(10 * rsum)::INT::VARCHAR\n4000\n3455\n",
        ),
        ("SELECT *, rsum::int FROM test.summary LIMIT 1", "method,rsum,rsum::INT\nnns,345.5,345\n"),
    ] {
        assert_eq!(text(&session, sql, OutputFormat::Csv).unwrap(), rows, "{sql}");
    }
}

#[test]
fn mistyped_words_have_their_place_and_the_near_word() {
    for (sql, message, hint) in [
        ("SELEC 1", "SQL: expected an SQL statement, found `SELEC` at line 1, column 1", "did you mean `SELECT`?"),
        (
            "SELECT cosin_distance(feature, feature) FROM cnn.features",
            "SQL: there is no function `cosin_distance` at line 1, column 8",
            "did you mean `cosine_distance`?",
        ),
        (
            "SELECT rsum FROM test.summary WHERE method = nns",
            "SQL: there is no column `nns` at line 1, column 46; there are rsum, method",
            "a text needs single quotes: `'nns'`",
        ),
        (
            "SELECT * FROM test@row=max,seed=1.summary",
            "SQL: expected end of statement, found `=` at line 1, column 23",
            "the name of an instance needs double quotes: `\"test@row=max,seed=1\".summary`",
        ),
        ("SELECT 1 / 0", "SQL: division by zero", "`x / NULLIF(y, 0)` is a missing value where y is 0"),
    ] {
        let got = error(sql);
        let first = got.to_string().lines().next().unwrap_or_default().to_owned();
        assert_eq!((first.as_str(), got.hint_text()), (message, Some(hint)), "{sql}");
    }
    let hint = |sql: &str| error(sql).hint_text().map(str::to_owned);
    assert_eq!(hint("SELECT* FORM test.summary"), None);
    assert_eq!(hint("-- a comment\nSELEC 1").as_deref(), Some("did you mean `SELECT`?"));
    let hint = hint("SELECT rsum FROM test.summary WHERE method = 'a@b.com' AND rsun > 1");
    assert_eq!(hint.as_deref(), Some("did you mean `rsum`?"));
    let got = error("SELECT image_id <=> 3 FROM cnn.features").to_string();
    assert!(got.contains("`cosine_distance(a, b)` of vectors"), "{got}");
    let got = error("SELECT * FROM epoch_order(fit, 0)").to_string();
    assert!(
        got.starts_with("SQL: the stage of `epoch_order` is `fit`, expected `epoch_order('stage', epoch)`"),
        "{got}"
    );
}

/// Scans compute conditions, and the reader of Parquet says of their errors what it says of a damaged file.
#[test]
fn an_error_of_a_condition_is_one_of_the_query() {
    let (folder, store, _) = store();
    let session = Session::open(&store).unwrap();
    let path = folder.path().join("mine.parquet");
    std::fs::write(&path, parquet::encode(&scores(&[]).schema(), &[scores(&[("nns", 1.0)])]).unwrap()).unwrap();
    session.add_file(NamedFile { name: "mine".to_owned(), path }).unwrap();
    for table in ["mine", "test.summary"] {
        for (condition, message) in [
            ("method::int = 2", "Cannot cast string 'nns' to value of Int32 type"),
            ("1 / (rsum::int - rsum::int) = 1", "DivideByZero"),
            ("chr(-rsum::int) > 'a'", "invalid Unicode scalar value: -"),
        ] {
            let sql = format!("SELECT method FROM {table} WHERE {condition}");
            let got = text(&session, &sql, OutputFormat::Csv).unwrap_err();
            assert_eq!(got.category(), ErrorCategory::Usage, "{sql}: {got}");
            assert!(got.to_string().starts_with("SQL: ") && got.to_string().contains(message), "{sql}: {got}");
        }
    }
}

#[test]
fn an_empty_query_and_two_statements_are_errors() {
    assert_eq!(error(" ; -- nothing").to_string(), "SQL: the query is empty");
    assert_eq!(error("SELECT 1; SELECT ';'; SELECT 3").to_string(), "SQL: 3 statements, expected one");
}

#[test]
fn an_interrupted_statement_ends() {
    let (_folder, store, _) = store();
    let session = Session::open(&store).unwrap();
    let interrupt = session.interrupt();
    assert!(!interrupt.interrupt(), "no statement runs");
    let endless = "SELECT count(*) FROM generate_series(1, 10000) a, generate_series(1, 1000000000) b \
                   WHERE a.value + b.value < 0";
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| {
            // The query runs by then, and never pauses by itself.
            std::thread::sleep(std::time::Duration::from_millis(300));
            while !interrupt.interrupt() {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
            assert!(!interrupt.interrupt(), "it has been interrupted already");
        });
        session.query(endless).and_then(|mut rows| rows.next().unwrap().map(|_| ()))
    });
    assert_eq!(ended.unwrap_err().category(), ErrorCategory::Interrupted);
    assert_eq!(text(&session, "SELECT 1 AS one", OutputFormat::Csv).unwrap(), "one\n1\n");
}

#[test]
fn a_table_that_the_query_lacks_is_named_and_not_its_column() {
    for (sql, message, hint) in [
        (
            "SELECT x.method FROM test.summary r",
            "SQL: there is no table `x` in this query at line 1, column 8; there are r",
            Some("did you mean `r.method`?"),
        ),
        (
            "SELECT test.summary.rsum FROM test.summary r",
            "SQL: there is no table `test.summary` in this query at line 1, column 8; there are r",
            Some("did you mean `r.rsum`?"),
        ),
        (
            "SELECT a.rsum FROM test.summary a JOIN test.summary \"B\" ON a.rsum = c.rsum",
            "SQL: there is no table `c` in this query at line 1, column 69; there are a, \"B\"",
            None,
        ),
        ("SELECT x.rank", "SQL: there is no table `x` in this query at line 1, column 8", None),
        ("SELECT x.* FROM test.summary r", "SQL: there is no table `x` in this query", None),
    ] {
        let got = error(sql);
        let first = got.to_string().lines().next().unwrap_or_default().to_owned();
        assert_eq!((first.as_str(), got.hint_text()), (message, hint), "{sql}");
    }
    // Of a table that is there, the column is absent.
    let got = error("SELECT summary.rsun FROM test.summary").to_string();
    assert!(got.starts_with("SQL: there is no column `rsun`"), "{got}");
}

/// A column of a CSV file is text if one cell is none, and its name may have a capital.
#[test]
fn columns_of_a_file_are_named_with_quotes_and_their_type() {
    let (folder, store, _) = store();
    let session = Session::open(&store).unwrap();
    let path = folder.path().join("papers.csv");
    std::fs::write(&path, "Year,score\n2020,1.5\n2021,n/a\n").unwrap();
    session.add_file(NamedFile { name: "papers".to_owned(), path }).unwrap();
    let error = |sql: &str| text(&session, sql, OutputFormat::Csv).expect_err(sql);
    let got = error("SELECT p.Year FROM papers p");
    assert_eq!(got.hint_text(), Some("did you mean `\"Year\"`?"));
    assert!(
        got.to_string().contains("there is no column `year` at line 1, column 8; there are \"Year\", score"),
        "{got}"
    );
    for call in [
        "avg(score)",
        "sum(score)",
        "median(score)",
        "stddev(score)",
        "corr(\"Year\", score)",
        "percentile_cont(0.5) WITHIN GROUP (ORDER BY score)",
        "approx_median(score)",
        "avg(score) OVER ()",
        "round(score)",
    ] {
        let got = error(&format!("SELECT {call} FROM papers"));
        let name = call.split_once('(').unwrap().0;
        let message = format!("SQL: `{name}` of a text, expected numbers at line 1, column 8\n");
        assert!(got.to_string().starts_with(&message), "{call}: {got}");
        assert!(got.hint_text().is_some_and(|hint| hint.contains("`try_cast(x AS DOUBLE)`")), "{call}: {got}");
    }
    let mean = text(&session, "SELECT avg(try_cast(score AS DOUBLE)) AS mean FROM papers", OutputFormat::Csv);
    assert_eq!(mean.unwrap(), "mean\n1.5\n");
}

#[test]
fn arguments_of_other_types_are_refused_without_words_of_the_engine() {
    for (call, message, hint) in [
        (
            "percentile_cont(array[0.1, 0.5]) WITHIN GROUP (ORDER BY rsum)",
            "`percentile_cont` of a list of shares, expected one number from 0 to 1",
            "write a call for each share: `percentile_cont(0.25) WITHIN GROUP (ORDER BY x)`, and so on",
        ),
        (
            "approx_percentile_cont([0.1]) WITHIN GROUP (ORDER BY rsum)",
            "`approx_percentile_cont` of a list of shares, expected one number from 0 to 1",
            "write a call for each share: `approx_percentile_cont(0.25) WITHIN GROUP (ORDER BY x)`, and so on",
        ),
        (
            "avg(rsum > 1)",
            "there is no `avg(Boolean)`; there are `avg(Decimal)`, `avg(Duration)`, `avg(Float64)`",
            "`CAST(x AS type)` changes a type",
        ),
    ] {
        let got = error(&format!("SELECT {call} FROM test.summary"));
        let first = got.to_string().lines().next().unwrap_or_default().to_owned();
        assert_eq!(first, format!("SQL: {message} at line 1, column 8"));
        assert_eq!(got.hint_text(), Some(hint), "{call}");
    }
    // Postgres has `\m` for the start of a word.
    for sql in [
        "SELECT regexp_like(method, '\\mns') FROM test.summary",
        "SELECT method ~ '\\mns' FROM test.summary",
        "SELECT regexp_like('ab', '\\m' || method) FROM test.summary",
    ] {
        assert_eq!(error(sql).to_string(), "SQL: a regular expression is wrong: unrecognized escape sequence", "{sql}");
    }
}
