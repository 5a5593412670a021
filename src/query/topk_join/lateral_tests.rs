//! Forms of lateral queries against a sort of all pairs: left joins, further terms of the order, offsets, refusals.

use std::sync::Arc;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;

use super::tests::{ByMessages, Vectors, random_vectors, rows, session, sorted};
use crate::Session;
use pairloom_store::Store;

/// Ids of the query and of the item, which may be missing, of each row.
type Pairs = Vec<(i64, Option<i64>)>;

fn pairs(session: &Session, sql: &str) -> Pairs {
    let batch = rows(session, sql);
    let [queries, items] = [0, 1].map(|at| batch.column(at).as_primitive::<Int64Type>().clone());
    (0..batch.num_rows()).map(|row| (queries.value(row), items.is_valid(row).then(|| items.value(row)))).collect()
}

/// Pairs of a sort without the first `skip` of each query; a query without any has one whose item is missing.
fn with_missing(queries: &Vectors, found: &[(i64, i64, f64)], skip: usize) -> Pairs {
    let of_query = |&(query, _): &(i64, Vec<f32>)| {
        let items = found.iter().filter(|row| row.0 == query).skip(skip).map(|row| (query, Some(row.1)));
        let items: Pairs = items.collect();
        if items.is_empty() { vec![(query, None)] } else { items }
    };
    queries.iter().flat_map(of_query).collect()
}

/// The same tables in one process, and with plans that are sent as messages, as to a cluster.
fn sessions(queries: &Vectors, items: &Vectors) -> Vec<(Vec<tempfile::TempDir>, Session)> {
    let (own, whole) = session(queries, items);
    let (folder, sent) = session(queries, items);
    let store = Store::open(folder.path()).unwrap();
    vec![(vec![own], whole), (vec![folder], sent.with_runner(Arc::new(ByMessages(store))))]
}

#[test]
fn a_left_join_keeps_queries_without_rows() {
    let (queries, items) = (random_vectors(21, 23, 7), random_vectors(22, 600, 7));
    for (_folders, session) in sessions(&queries, &items) {
        for (skip, condition) in [(0, "t.image_id % 3 = q.image_id % 4"), (2, "t.image_id * 5 < q.image_id")] {
            let sql = format!(
                "SELECT q.image_id AS q, t.image_id, t.m, t.five, t.own, t.split, t.feature FROM q.features q LEFT JOIN LATERAL \
                 (SELECT t.*, 5 AS five, q.image_id AS own, cosine_distance(t.feature, q.feature) AS m FROM g.features t \
                 WHERE {condition} ORDER BY m LIMIT 3 OFFSET {skip}) t ON true ORDER BY q, m"
            );
            let accept = |query: i64, item: i64| match skip {
                0 => item % 3 == query % 4,
                _ => item * 5 < query,
            };
            let found = sorted([&queries, &items], "cosine_distance", 3 + skip, accept);
            let wanted = with_missing(&queries, &found, skip);
            assert!(wanted.iter().any(|pair| pair.1.is_none()) && wanted.iter().any(|pair| pair.1.is_some()));
            assert_eq!(pairs(&session, &sql), wanted, "{condition}");
            let batch = rows(&session, &sql);
            for (column, (query, item)) in (2..7).flat_map(|column| wanted.iter().map(move |pair| (column, pair))) {
                let row = wanted.iter().position(|pair| pair == &(*query, *item)).unwrap();
                assert_eq!(batch.column(column).is_null(row), item.is_none(), "column {column} of row {row}");
            }
        }
        // The other table is empty.
        let sql = "SELECT q.image_id, t.image_id FROM q.features q LEFT JOIN LATERAL (SELECT image_id FROM g.features g WHERE \
            image_id % 7 = 9 ORDER BY g.feature <=> q.feature LIMIT 2) t ON true ORDER BY q.image_id";
        assert_eq!(pairs(&session, sql), with_missing(&queries, &[], 0));
    }
}

#[test]
fn an_offset_leaves_the_nearest_out() {
    let (queries, items) = (random_vectors(23, 5, 4), random_vectors(24, 300, 4));
    for (_folders, session) in sessions(&queries, &items) {
        let sql = "SELECT q.image_id AS q, t.image_id, t.m FROM q.features q, LATERAL (SELECT image_id, \
            array_distance(g.feature, q.feature) AS m FROM g.features g ORDER BY m LIMIT 4 OFFSET 3) t ORDER BY q, m";
        let found = sorted([&queries, &items], "l2_distance", 7, |_, _| true);
        let wanted: Pairs = found.chunks(7).flat_map(|list| list[3..].iter().map(|row| (row.0, Some(row.1)))).collect();
        assert_eq!(pairs(&session, sql), wanted);
        let beyond = sql.replace("OFFSET 3", "OFFSET 300");
        assert_eq!(pairs(&session, &beyond), []);
    }
}

/// Few directions, so that most cosines are equal, in more than one block of items.
#[test]
fn equal_measures_have_the_order_of_the_other_terms() {
    let queries: Vectors = vec![(1, vec![1.0, 0.0]), (2, vec![0.0, 1.0]), (3, vec![1.0, 1.0])];
    let directions = [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 0.0]];
    let items: Vectors = (0..40_000i64)
        .zip(directions.iter().cycle())
        .map(|(id, direction)| (id * 7919 % 40_000, direction.to_vec()))
        .collect();
    let (_folder, session) = session(&queries, &items);
    let cosine = |a: &[f32], b: &[f32]| {
        let product = |a: &[f32], b: &[f32]| f64::from(a[0] * b[0] + a[1] * b[1]);
        product(a, b) / (product(a, a) * product(b, b)).sqrt()
    };
    // Even ids have the split `test`, and odd ones `val`.
    for (terms, descending) in
        [("image_id", false), ("m DESC, image_id DESC", true), ("split DESC, image_id % 100, image_id", false)]
    {
        let sql = format!(
            "SELECT q.image_id AS q, t.image_id FROM q.features q, LATERAL (SELECT image_id, split, cosine_similarity(g.feature, \
             q.feature) AS m FROM g.features g ORDER BY m DESC, {terms} LIMIT 6) t"
        );
        let key = |id: i64| match terms {
            "image_id" => (0, 0, id),
            "m DESC, image_id DESC" => (0, 0, -id),
            _ => (-(id % 2), id % 100, id),
        };
        let mut wanted = Pairs::new();
        for (query, vector) in &queries {
            let mut of_query: Vec<(f64, i64)> = items.iter().map(|(id, item)| (cosine(vector, item), *id)).collect();
            of_query.sort_by(|a, b| b.0.total_cmp(&a.0).then(key(a.1).cmp(&key(b.1))));
            wanted.extend(of_query[..6].iter().map(|near| (*query, Some(near.1))));
        }
        assert_eq!(pairs(&session, &sql), wanted, "{terms}");
        let first = wanted[0].1.unwrap();
        assert!(if descending { first > 39_000 } else { first < 40_000 }, "{first}");
    }
}

#[test]
fn a_limit_of_0_has_no_rows() {
    let (queries, items) = (random_vectors(28, 4, 3), random_vectors(29, 30, 3));
    for (_folders, session) in sessions(&queries, &items) {
        let sql = |join: &str, limit: &str| {
            format!(
                "SELECT q.image_id AS q, t.image_id FROM q.features q {join} (SELECT image_id FROM g.features g ORDER BY \
                 g.feature <=> q.feature LIMIT {limit}) t"
            )
        };
        for limit in ["0", "0 OFFSET 2"] {
            assert_eq!(pairs(&session, &sql(", LATERAL", limit)), []);
            let outer = format!("{} ON true ORDER BY q", sql("LEFT JOIN LATERAL", limit));
            assert_eq!(pairs(&session, &outer), with_missing(&queries, &[], 0));
        }
    }
}

#[test]
fn a_condition_of_the_join_follows_the_limit() {
    let (queries, items) = (random_vectors(25, 9, 3), random_vectors(26, 90, 3));
    let (_folder, session) = session(&queries, &items);
    let sql = "SELECT q.image_id AS q, t.image_id FROM q.features q JOIN LATERAL (SELECT image_id, \
        cosine_distance(g.feature, q.feature) AS m FROM g.features g ORDER BY m LIMIT 5) t ON t.m < 0.1 AND t.image_id > q.image_id";
    let found = sorted([&queries, &items], "cosine_distance", 5, |_, _| true);
    let wanted: Pairs =
        found.iter().filter(|row| row.2 < 0.1 && row.1 > row.0).map(|row| (row.0, Some(row.1))).collect();
    assert!(!wanted.is_empty() && wanted.len() < found.len());
    assert_eq!(pairs(&session, sql), wanted);
}

/// The parser joins what follows a comma first.
#[test]
fn tables_are_joined_to_the_nearest_rows_behind_a_comma() {
    let (queries, items) = (random_vectors(28, 9, 3), random_vectors(29, 90, 3));
    let nearest = |of: &str, k: usize| {
        format!(
            "LATERAL (SELECT image_id, feature, g.feature <=> {of}.feature AS m FROM g.features g ORDER BY m LIMIT {k})"
        )
    };
    let found = sorted([&queries, &items], "cosine_distance", 4, |_, _| true);
    for (_folders, session) in sessions(&queries, &items) {
        let from = format!("FROM (SELECT 1 AS one) o, q.features q, {} t", nearest("q", 4));
        let sql = format!(
            "SELECT q.image_id AS q, i.image_id {from} JOIN g.features i ON i.image_id = t.image_id AND i.image_id % 2 = 1 \
             ORDER BY q, t.m"
        );
        let odd: Pairs = found.iter().filter(|row| row.1 % 2 == 1).map(|row| (row.0, Some(row.1))).collect();
        assert!(!odd.is_empty() && odd.len() < found.len());
        assert_eq!(pairs(&session, &sql), odd);
        let left = sql.replace(" JOIN g.", " LEFT JOIN g.");
        let kept: Pairs = found.iter().map(|row| (row.0, (row.1 % 2 == 1).then_some(row.1))).collect();
        assert_eq!(pairs(&session, &left), kept);
        // The nearest row of a row is itself.
        let sql =
            format!("SELECT q.image_id AS q, u.image_id {from} JOIN {} u ON true ORDER BY q, t.m", nearest("t", 1));
        let all: Pairs = found.iter().map(|row| (row.0, Some(row.1))).collect();
        assert_eq!(pairs(&session, &sql), all);
        for sql in [
            format!("SELECT q.image_id {from} RIGHT JOIN g.features i ON i.image_id = t.image_id"),
            format!(
                "SELECT q.image_id FROM q.features q LEFT JOIN ({} t JOIN g.features i ON true) ON true",
                nearest("q", 4)
            ),
            format!("SELECT q.image_id FROM q.features q, ({} t JOIN g.features i ON true) x", nearest("q", 4)),
        ] {
            let error = session.query(&sql).err().expect("an error");
            assert!(error.to_string().contains("`LATERAL` is first in a join without the table"), "{sql}: {error}");
            let hint = "write `FROM a CROSS JOIN LATERAL (…) b JOIN c ON …`";
            assert_eq!(error.hint_text(), Some(hint));
        }
    }
}

#[test]
fn other_forms_are_refused_with_the_reason() {
    let vectors = random_vectors(27, 4, 3);
    let (_folder, session) = session(&vectors, &vectors);
    let select = "SELECT q.image_id, t.image_id FROM q.features q";
    for (join, order, wanted) in [
        (
            ",",
            "ORDER BY split, g.feature <=> q.feature LIMIT 2) t",
            "has the order `g.split`; a measure of a vector of each side",
        ),
        (",", "ORDER BY 1 - (g.feature <=> q.feature) LIMIT 2) t", "has the order `Int64(1) - cosine_distance("),
        (",", "ORDER BY g.feature <=> q.feature DESC LIMIT 2) t", "begins with the farthest"),
        (",", "ORDER BY cosine_similarity(g.feature, q.feature) LIMIT 2) t", "begins with the farthest"),
        (
            ",",
            "ORDER BY g.feature <=> q.feature, q.image_id + g.image_id LIMIT 2) t",
            "of the outer query after the measure",
        ),
        (",", "ORDER BY g.feature <=> q.feature OFFSET 2) t", "has no `LIMIT`"),
        (
            "LEFT JOIN",
            "ORDER BY g.feature <=> q.feature LIMIT 2) t ON t.image_id > 1",
            "is in a left join with the condition",
        ),
    ] {
        let sql = format!("{select} {join} LATERAL (SELECT image_id FROM g.features g {order}");
        let error = session.query(&sql).err().expect("an error");
        assert!(error.to_string().contains(wanted), "{sql}: {error}");
        assert!(error.hint_text().is_some_and(|hint| hint.starts_with("write `LATERAL (SELECT … FROM b")), "{error}");
    }
}
