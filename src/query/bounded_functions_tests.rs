//! Tests of the limits of the values that functions compute.

use crate::testing::text;
use crate::{OutputFormat, Session};
use pairloom_base::error::ErrorCategory;

#[test]
fn functions_make_no_values_beyond_the_limit() {
    let session = Session::of_empty_tables([]).unwrap();
    for (call, function) in [
        ("range(0, 3000000000)", "range"),
        ("range(9000000000, 0, -3)", "range"),
        ("generate_series(-9223372036854775808, 9223372036854775807)", "generate_series"),
        ("range(value, 300000) FROM range(0, 8000)", "range"),
        ("range(DATE '2020-01-01', DATE '2030-01-01', INTERVAL '1 nanosecond')", "range"),
        (
            "generate_series(TIMESTAMP '2020-01-01', TIMESTAMP '2020-01-02', INTERVAL '1 microsecond')",
            "generate_series",
        ),
        ("array_repeat('word', 1000000000)", "array_repeat"),
        ("array_repeat(array_repeat(1, 100000), 100000)", "array_repeat"),
        ("list_repeat(repeat('a', 1000000), value) FROM range(2000, 2001)", "array_repeat"),
        ("array_resize([1], 1000000000, 0)", "array_resize"),
        ("repeat('a', 2000000000)", "repeat"),
        ("repeat('words', 100000 * value) FROM range(0, 8000)", "repeat"),
        ("lpad('a', 2000000000)", "lpad"),
        ("rpad('a', 1000000 + value) FROM range(0, 8000)", "rpad"),
        ("replace(repeat('a', 1000000), 'a', repeat('b', 1000000))", "replace"),
        ("regexp_replace(repeat('a', 1000000), 'a', repeat('b', 1000000), 'g')", "regexp_replace"),
        ("repeat('a', 300000000)", "repeat"),
        ("repeat(arrow_cast(repeat('a', value), 'Utf8View'), 1000000) FROM range(1000, 1001)", "repeat"),
        ("array_repeat('a', 250000000)", "array_repeat"),
        ("lpad('a', 100000000, 'ä')", "lpad"),
        ("rpad('a', 9223372036854775807)", "rpad"),
        ("array_append(range(0, 300000), value) FROM range(8000)", "array_append"),
        ("array_slice(range(0, 300000), 1, 299000 + value) FROM range(1000)", "array_slice"),
        ("array_remove(range(0, 300000), value) FROM range(8000)", "array_remove"),
        ("to_char(DATE '2020-01-01' + value, repeat('%Y', 1000000)) FROM range(8000)", "to_char"),
        ("array_to_string(range(0, 20000), repeat('a', 1000000))", "array_to_string"),
        ("array_to_string(array_repeat(NULL, 20000), ',', repeat('a', 1000000))", "array_to_string"),
        ("array_to_string(array_repeat(1e300, 2000000), '')", "array_to_string"),
        ("array_to_string(array_repeat(1e-300, 2000000), '')", "array_to_string"),
        ("list_to_string([range(0, 10000), range(value)], repeat('a', 100000)) FROM range(5, 6)", "array_to_string"),
        // The values of columns are not computed while the query is planned.
        ("concat(x, value, x) FROM (SELECT repeat('a', 140000000 + value) x, value FROM range(1))", "concat"),
        ("x || x FROM (SELECT repeat('a', 140000000 + value) x FROM range(1))", "||"),
        ("value || x || x FROM (SELECT repeat('a', 140000000 + value) x, value FROM range(1))", "||"),
        ("concat_ws(repeat('a', 100000000), 1, 2, 3, 4)", "concat_ws"),
        ("concat_ws(repeat('a', 1000000 + value), value, 2, 3, 4) FROM range(1, 1000)", "concat_ws"),
        ("array_concat(x, x) FROM (SELECT range(0, 17000000 + value) x FROM range(1))", "array_concat"),
        ("x || x FROM (SELECT range(0, 17000000 + value) x FROM range(1))", "array_concat"),
        ("[x, x] FROM (SELECT range(0, 17000000 + value) x FROM range(1))", "make_array"),
        // Constants that are joined before anything is computed.
        ("concat(repeat('a', 140000000), repeat('a', 140000000))", "concat"),
    ] {
        // The length of the value, so that it is not shown.
        let error = text(&session, &format!("SELECT {call}"), OutputFormat::Csv).unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Usage, "{call}: {error}");
        assert!(error.to_string().starts_with(&format!("SQL: `{function}` would make up to ")), "{call}: {error}");
        assert!(error.hint_text().is_some(), "{call}: {error}");
    }
}

#[test]
fn functions_within_the_limit_are_as_before() {
    let session = Session::of_empty_tables([]).unwrap();
    for (call, wanted) in [
        ("range(3)", "\"[0, 1, 2]\""),
        ("range(1, 7, 2)", "\"[1, 3, 5]\""),
        ("generate_series(3, 1, -1)", "\"[3, 2, 1]\""),
        ("range(DATE '2020-01-01', DATE '2020-04-01', INTERVAL '1 month')", "\"[2020-01-01, 2020-02-01, 2020-03-01]\""),
        ("range(NULL) IS NULL", "true"),
        ("array_repeat('a', 2)", "\"[a, a]\""),
        ("array_resize([1, 2], 3, 7)", "\"[1, 2, 7]\""),
        ("repeat('ab', 2)", "abab"),
        ("repeat(NULL, 2) IS NULL", "true"),
        ("lpad('a', 3, 'x')", "xxa"),
        ("rpad('a', 3)", "a  "),
        ("replace('banana', 'an', 'o')", "booa"),
        ("length(repeat('a', 1000000))", "1000000"),
        ("array_length(range(0, 30000000))", "30000000"),
        ("length(replace(repeat('a', 100000), value::varchar, 'bcd')) FROM range(3000, 8000) LIMIT 1", "100000"),
        ("row_number() OVER (ORDER BY x || y) FROM (SELECT 'a' x, 'b' y)", "1"),
        ("string_agg(x || y, ',' ORDER BY y || x) || '!' FROM (VALUES ('a', '2'), ('b', '1')) t(x, y)", "\"b1,a2!\""),
        ("array_agg(y ORDER BY length(x || y) DESC) FROM (VALUES ('a', 2), ('bb', 1)) t(x, y)", "\"[1, 2]\""),
        ("array_to_string([1.5, NULL, -2], ', ', '-')", "\"1.5, -, -2\""),
        ("array_to_string([[1, 2], [3]], '+')", "1+2+3"),
        ("concat('a', NULL, 2)", "a2"),
        ("'a' || 'b' || 2", "ab2"),
        ("'a' || value || arrow_cast('b', 'LargeUtf8') FROM range(1)", "a0b"),
        ("('a' || NULL) IS NULL", "true"),
        ("x || y FROM (SELECT value::varchar x, 'y' y FROM range(3)) GROUP BY x || y ORDER BY x || y LIMIT 1", "0y"),
        ("max(y) FROM (SELECT count(*)::varchar || 'x' y FROM range(3)) GROUP BY y", "3x"),
        ("count(*) FROM range(30) WHERE value::varchar || 'x' LIKE '2%x'", "11"),
        ("concat_ws('-', 'a', NULL, 2)", "a-2"),
        ("array_concat([1], [2, 3])", "\"[1, 2, 3]\""),
        ("[1] || [2]", "\"[1, 2]\""),
        ("[value, 2] FROM range(1)", "\"[0, 2]\""),
        // A batch of rows of vectors.
        ("max(length(array_to_string(array_repeat(value / 7.0, 2000), ' '))) FROM range(0, 8000)", "39999"),
        ("sum(value) FROM range(0, 100000)", "4999950000"),
    ] {
        let csv = text(&session, &format!("SELECT {call}"), OutputFormat::Csv).unwrap();
        let value = csv.split_once('\n').unwrap().1.trim_end_matches('\n');
        assert_eq!(value, wanted, "{call}");
    }
}
