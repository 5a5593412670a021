//! Top-k joins against a sort of all pairs.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{Float64Type, Int64Type};
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::{ExecutionPlan, displayable, execute_stream};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion_proto::physical_plan::{AsExecutionPlan, PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_proto::protobuf::PhysicalPlanNode;

use crate::testing::{put, run};
use crate::{PlanRunner, Session, decode_operator, encode_operator, store_url};
use pairloom_kernels::random::Rng;
use pairloom_store::Store;
use pairloom_tables as tables;

/// Vectors of both tables, by their ids.
pub(super) type Vectors = Vec<(i64, Vec<f32>)>;

pub(super) fn random_vectors(seed: u64, count: i64, width: usize) -> Vectors {
    let mut rng = Rng::new(seed, &[]);
    #[expect(clippy::cast_possible_truncation, reason = "test values are small")]
    let mut vector = || (0..width).map(|_| (rng.uniform() * 2.0 - 1.0) as f32).collect::<Vec<f32>>();
    (0..count).map(|id| (id, vector())).collect()
}

fn features(vectors: &[(i64, Vec<f32>)]) -> RecordBatch {
    let width = vectors[0].1.len();
    let values = vectors.iter().flat_map(|(_, vector)| vector.iter().copied()).collect();
    tables::batch(
        &tables::features::table().schema_with_width(width),
        vec![
            Arc::new(Int64Array::from_iter_values(vectors.iter().map(|(id, _)| *id))),
            Arc::new(StringArray::from_iter_values(
                vectors.iter().map(|(id, _)| if id % 2 == 0 { "test" } else { "val" }),
            )),
            tables::vector_array(values, width).unwrap(),
        ],
    )
    .unwrap()
}

/// Session with the tables `q.features` and `g.features`, the latter in several parts.
pub(super) fn session(queries: &Vectors, items: &Vectors) -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let q = put(&store, "extract", 1, &[("features", vec![features(queries)])]);
    let parts = items.chunks(items.len().div_ceil(3)).map(features).collect();
    let g = put(&store, "extract", 2, &[("features", parts)]);
    run(&store, "20260101T000000", &[("q", "extract", &q), ("g", "extract", &g)]);
    (folder, Session::open(&store).unwrap())
}

pub(super) fn rows(session: &Session, sql: &str) -> RecordBatch {
    let rows = session.query(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    let schema = rows.schema();
    let batches = rows.collect::<Result<Vec<_>, _>>().unwrap_or_else(|error| panic!("{sql}: {error}"));
    concat_batches(&schema, &batches).unwrap()
}

/// Ids of the query and the item, and measure, of each row.
fn triples(batch: &RecordBatch) -> Vec<(i64, i64, f64)> {
    let ids = |at: usize| batch.column(at).as_primitive::<Int64Type>().clone();
    let (queries, items, values) = (ids(0), ids(1), batch.column(2).as_primitive::<Float64Type>());
    (0..batch.num_rows()).map(|row| (queries.value(row), items.value(row), values.value(row))).collect()
}

fn f64s(vector: &[f32]) -> impl Iterator<Item = f64> + '_ {
    vector.iter().map(|&value| f64::from(value))
}

fn product(a: &[f32], b: &[f32]) -> f64 {
    f64s(a).zip(f64s(b)).map(|(a, b)| a * b).sum()
}

/// Measures by their definitions. The smaller one is nearer.
pub(super) fn distance(measure: &str, a: &[f32], b: &[f32]) -> f64 {
    let cosine = || product(a, b) / (product(a, a) * product(b, b)).sqrt();
    match measure {
        "cosine_distance" => 1.0 - cosine(),
        "cosine_similarity" => -cosine(),
        "inner_product" | "negative_inner_product" => -product(a, b),
        "l2_distance" => f64s(a).zip(f64s(b)).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt(),
        "l1_distance" => f64s(a).zip(f64s(b)).map(|(a, b)| (a - b).abs()).sum(),
        other => panic!("{other}"),
    }
}

/// The k nearest items of each query that satisfy a condition, by a sort of all.
pub(super) fn sorted(
    [queries, items]: [&Vectors; 2],
    measure: &str,
    k: usize,
    accept: impl Fn(i64, i64) -> bool,
) -> Vec<(i64, i64, f64)> {
    let mut all = Vec::new();
    for (query, vector) in queries {
        let mut of_query: Vec<(i64, f64)> = items
            .iter()
            .filter(|(item, _)| accept(*query, *item))
            .map(|(item, other)| (*item, distance(measure, vector, other)))
            .collect();
        of_query.sort_by(|a, b| a.1.total_cmp(&b.1));
        all.extend(of_query.into_iter().take(k).map(|(item, value)| (*query, item, value)));
    }
    all
}

const MEASURES: [(&str, &str); 6] = [
    ("cosine_distance", ""),
    ("cosine_similarity", "DESC"),
    ("inner_product", "DESC"),
    ("negative_inner_product", ""),
    ("l2_distance", ""),
    ("l1_distance", ""),
];

#[track_caller]
fn assert_same(got: &[(i64, i64, f64)], wanted: &[(i64, i64, f64)], what: &str) {
    let ids = |rows: &[(i64, i64, f64)]| rows.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>();
    assert_eq!(ids(got), ids(wanted), "{what}");
    let is_near = |(got, wanted): (&(i64, i64, f64), &(i64, i64, f64))| (got.2.abs() - wanted.2.abs()).abs() < 1e-12;
    assert!(got.iter().zip(wanted).all(is_near), "{what}: {got:?}, expected {wanted:?}");
}

#[test]
fn a_lateral_join_has_the_rows_of_a_sort() {
    let (queries, items) = (random_vectors(1, 23, 19), random_vectors(2, 2000, 19));
    let (_folder, session) = session(&queries, &items);
    for (measure, order) in MEASURES {
        let sql = format!(
            "SELECT q.image_id AS q, t.image_id AS i, t.m FROM q.features q, LATERAL (SELECT g.image_id, \
             {measure}(g.feature, q.feature) AS m FROM g.features g ORDER BY m {order} LIMIT 7) t"
        );
        assert_same(&triples(&rows(&session, &sql)), &sorted([&queries, &items], measure, 7, |_, _| true), measure);
        // The order's expression is not selected, and arguments are the other way round.
        let sql = format!(
            "SELECT q.image_id AS q, t.image_id AS i, {measure}(q.feature, t.feature) AS m FROM q.features q CROSS JOIN \
             LATERAL (SELECT * FROM g.features g ORDER BY {measure}(q.feature, g.feature) {order} LIMIT 7) t"
        );
        assert_same(&triples(&rows(&session, &sql)), &sorted([&queries, &items], measure, 7, |_, _| true), measure);
    }
    let plan = rows(
        &session,
        "EXPLAIN SELECT q.image_id, t.image_id FROM q.features q, LATERAL (SELECT g.image_id FROM g.features g ORDER BY \
         g.feature <=> q.feature LIMIT 7) t",
    );
    let text = format!("{:?}", plan.column(1).as_string::<i32>());
    assert!(text.contains("TopKJoinExec: k=7") && !text.contains("CrossJoin"), "{text}");
}

#[test]
fn conditions_of_pairs_are_kept() {
    let vectors = random_vectors(3, 900, 8);
    let (_folder, session) = session(&vectors, &vectors);
    let sql = |condition: &str| {
        format!(
            "SELECT a.image_id AS q, t.image_id AS i, t.m FROM q.features a, LATERAL (SELECT b.image_id, \
             cosine_distance(a.feature, b.feature) AS m FROM g.features b WHERE {condition} ORDER BY m LIMIT 3) t \
             WHERE a.image_id < 40"
        )
    };
    let few: Vectors = vectors[..40].to_vec();
    let wanted = |accept: fn(i64, i64) -> bool| sorted([&few, &vectors], "cosine_distance", 3, accept);
    let got = |condition: &str| triples(&rows(&session, &sql(condition)));
    assert_same(&got("b.image_id <> a.image_id"), &wanted(|a, b| a != b), "others");
    assert_same(&got("b.split = 'val'"), &wanted(|_, b| b % 2 == 1), "a split");
    // So rare that the candidates of a first search do not suffice, or that there are fewer than three.
    assert_same(&got("b.image_id % 40 = a.image_id"), &wanted(|a, b| b % 40 == a), "rare");
    assert_same(
        &got("b.image_id > a.image_id + 898 AND b.split = a.split"),
        &wanted(|a, b| b > a + 898 && a % 2 == b % 2),
        "too rare",
    );
}

#[test]
fn the_table_function_has_the_rows_of_a_sort() {
    let (queries, items) = (random_vectors(4, 11, 33), random_vectors(5, 500, 33));
    let (_folder, session) = session(&queries, &items);
    for (measure, _) in MEASURES {
        let sql = format!(
            "SELECT query_image_id, image_id, score FROM topk_join('q.features', 'g.features', 5, '{measure}') ORDER BY \
             query_image_id, rank"
        );
        assert_same(&triples(&rows(&session, &sql)), &sorted([&queries, &items], measure, 5, |_, _| true), measure);
    }
    let all = rows(&session, "SELECT * FROM topk_join('q.features', 'g.features', 2)");
    let explained = rows(&session, "EXPLAIN SELECT * FROM topk_join('q.features', 'g.features', 2)");
    let plans = explained.column(1).as_string::<i32>();
    assert!(plans.iter().flatten().any(|plan| plan.contains("TopKJoinExec")), "{plans:?}");
    let names: Vec<String> = all.schema().fields().iter().map(|field| field.name().clone()).collect();
    assert_eq!(names, ["query_image_id", "query_split", "image_id", "split", "rank", "score"]);
    assert_eq!(all.num_rows(), 22);
    // k beyond the number of items.
    assert_eq!(rows(&session, "SELECT 1 FROM topk_join('q.features', 'g.features', 600)").num_rows(), 11 * 500);
}

/// CSLS and inverted softmax by their definitions, on the matrix of all cosines.
#[test]
fn methods_against_hubs_have_the_order_of_their_definitions() {
    let (queries, items) = (random_vectors(13, 40, 12), random_vectors(14, 60, 12));
    let (_folder, session) = session(&queries, &items);
    let cosines: Vec<Vec<f64>> = queries
        .iter()
        .map(|(_, q)| items.iter().map(|(_, i)| -distance("cosine_similarity", q, i)).collect())
        .collect();
    let of_item = |item: usize| cosines.iter().map(move |row| row[item]);
    let csls = |query: usize, item: usize| {
        let mut all: Vec<f64> = of_item(item).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        2.0 * cosines[query][item] - all[..3].iter().sum::<f64>() / 3.0
    };
    let softmax = |query: usize, item: usize| {
        let sum: f64 = of_item(item).map(|cosine| (30.0 * cosine).exp()).sum();
        (30.0 * cosines[query][item]).exp() / sum
    };
    let order = |score: &dyn Fn(usize, usize) -> f64| -> Vec<(i64, i64)> {
        let of_query = |query: usize| {
            let mut found: Vec<usize> = (0..items.len()).collect();
            found.sort_by(|&a, &b| score(query, b).total_cmp(&score(query, a)));
            found.iter().take(4).map(|&item| (queries[query].0, items[item].0)).collect::<Vec<_>>()
        };
        (0..queries.len()).flat_map(of_query).collect()
    };
    let got = |method: &str| -> Vec<(i64, i64)> {
        let sql = format!(
            "SELECT query_image_id, image_id, score FROM topk_join('q.features', 'g.features', 4, 'cosine_similarity', \
             '{method}') ORDER BY query_image_id, rank"
        );
        triples(&rows(&session, &sql)).into_iter().map(|(query, item, _)| (query, item)).collect()
    };
    let cosine = |query: usize, item: usize| cosines[query][item];
    assert_eq!(got("nns"), order(&cosine));
    assert_eq!(got(r#"{"csls": {"k": 3}}"#), order(&csls));
    assert_eq!(got(r#"{"inverted_softmax": {"beta": 30.0}}"#), order(&softmax));
    assert_ne!(order(&csls), order(&cosine));
    // A matching: each item is assigned ⌈40 / 60⌉ times at most in a round.
    let assigned = got("assignment");
    let firsts: std::collections::BTreeSet<i64> = assigned.chunks(4).map(|list| list[0].1).collect();
    assert_eq!((assigned.len(), firsts.len()), (160, 40));
}

/// CSLS and NNN by their definitions, learning from queries with an even number for those with an odd one.
#[test]
fn a_query_bank_is_a_table_with_a_condition() {
    let (queries, items) = (random_vectors(15, 40, 12), random_vectors(16, 60, 12));
    let (_folder, session) = session(&queries, &items);
    let cosine = |query: usize, item: usize| -distance("cosine_similarity", &queries[query].1, &items[item].1);
    let mean_of_bank = |item: usize| {
        let mut all: Vec<f64> = (0..40).step_by(2).map(|query| cosine(query, item)).collect();
        all.sort_by(|a, b| b.total_cmp(a));
        all[..3].iter().sum::<f64>() / 3.0
    };
    let order = |weight: f64| -> Vec<(i64, i64)> {
        let score = |query: usize, item: usize| cosine(query, item) - weight * mean_of_bank(item);
        let of_query = |query: usize| {
            let mut found: Vec<usize> = (0..items.len()).collect();
            found.sort_by(|&a, &b| score(query, b).total_cmp(&score(query, a)));
            found.iter().take(4).map(|&item| (queries[query].0, items[item].0)).collect::<Vec<_>>()
        };
        (1..40).step_by(2).flat_map(of_query).collect()
    };
    let got = |method: &str| -> Vec<(i64, i64)> {
        let sql = format!(
            "SELECT query_image_id, image_id, score FROM topk_join('q.features where split = ''val''', 'g.features', 4, \
             'cosine_similarity', '{method}', 'q.features WHERE split = ''test''') ORDER BY query_image_id, rank"
        );
        triples(&rows(&session, &sql)).into_iter().map(|(query, item, _)| (query, item)).collect()
    };
    assert_eq!(got(r#"{"csls": {"k": 3, "query_bank": true}}"#), order(0.5));
    assert_eq!(got(r#"{"nnn": {"alpha": 0.5, "k": 3}}"#), order(0.5));
    assert_eq!(got(r#"{"nnn": {"alpha": 1.5, "k": 3}}"#), order(1.5));
    assert_ne!(order(1.5), order(0.5));
}

/// Equal vectors, more than any search has spare candidates.
#[test]
fn of_equal_vectors_the_first_are_nearest() {
    let queries = random_vectors(6, 3, 5);
    let items: Vectors = (0..300).map(|id| (id, vec![1.0, 2.0, 3.0, 4.0, 5.0])).collect();
    let (_folder, session) = session(&queries, &items);
    for measure in ["cosine_similarity", "l2_distance", "l1_distance"] {
        let sql = format!("SELECT image_id FROM topk_join('q.features', 'g.features', 4, '{measure}')");
        let got = rows(&session, &sql);
        let ids: Vec<i64> = got.column(0).as_primitive::<Int64Type>().values().to_vec();
        assert_eq!(ids, [0, 1, 2, 3].repeat(3), "{measure}");
    }
}

#[test]
fn vectors_of_zeros_have_a_product_and_a_distance_but_no_cosine() {
    let mut items = random_vectors(7, 50, 4);
    items[9].1 = vec![0.0; 4];
    let mut queries = random_vectors(8, 3, 4);
    let (_folder, both) = session(&queries, &items);
    for measure in ["inner_product", "l2_distance"] {
        let got = rows(
            &both,
            &format!(
                "SELECT query_image_id, image_id, score FROM topk_join('q.features', 'g.features', 50, '{measure}')"
            ),
        );
        assert_same(&triples(&got), &sorted([&queries, &items], measure, 50, |_, _| true), measure);
    }
    assert_eq!(rows(&both, "SELECT 1 FROM topk_join('q.features', 'g.features', 50)").num_rows(), 3 * 49);
    queries[1].1 = vec![0.0; 4];
    let (_folder, zero) = session(&queries, &items);
    // A query of 0 has no cosine with any item, so its list is empty, by every form.
    let nearest = "LATERAL (SELECT image_id, cosine_similarity(g.feature, q.feature) AS m FROM g.features g ORDER BY m DESC \
        LIMIT 5) t";
    for sql in [
        "SELECT query_image_id, image_id, score FROM topk_join('q.features', 'g.features', 5)".to_owned(),
        "SELECT query_image_id, image_id, score FROM topk_join('q.features', 'g.features', 5, 'cosine_similarity', 'nns')"
            .to_owned(),
        format!("SELECT q.image_id, t.image_id, t.m FROM q.features q, {nearest}"),
    ] {
        let others = vec![queries[0].clone(), queries[2].clone()];
        let with_direction: Vectors = items.iter().filter(|(id, _)| *id != 9).cloned().collect();
        let wanted = sorted([&others, &with_direction], "cosine_similarity", 5, |_, _| true);
        let got: Vec<_> = triples(&rows(&zero, &sql)).iter().map(|row| (row.0, row.1)).collect();
        assert_eq!(got, wanted.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(), "{sql}");
    }
    let outer = format!(
        "SELECT q.image_id, coalesce(t.image_id, -1), 1.0::double FROM q.features q LEFT JOIN {nearest} ON true"
    );
    assert_eq!(triples(&rows(&zero, &outer)).iter().filter(|row| (row.0, row.1) == (1, -1)).count(), 1);
    let got = rows(
        &zero,
        "SELECT query_image_id, image_id, score FROM topk_join('q.features', 'g.features', 5, 'l2_distance')",
    );
    assert_same(&triples(&got), &sorted([&queries, &items], "l2_distance", 5, |_, _| true), "a query of 0");
}

#[test]
fn wrong_calls_say_what_is_wanted() {
    let (queries, items) = (random_vectors(9, 3, 4), random_vectors(10, 5, 6));
    let (_folder, session) = session(&queries, &items);
    let error = |sql: &str| match session.query(sql) {
        Err(error) => error.to_string(),
        Ok(mut rows) => rows.next().expect("an error").expect_err(sql).to_string(),
    };
    for (call, wanted) in [
        ("topk_join('q.features', 'g.features', 2)", "vectors of 4 and of 6 values"),
        ("topk_join('q.features', 'g.features', 0)", "k of `topk_join` is 0, expected a whole number from 1"),
        ("topk_join('q.features', 'g.features', 2.5)", "k of `topk_join` is 2.5, expected"),
        (
            "topk_join('q.features WHERE image_id IN (SELECT x FROM nope)', 'g.features', 2)",
            "a subquery in the condition of a table of `topk_join` is not supported at line 1",
        ),
        ("topk_join('q.features', 'g.features')", "has 2 arguments, expected `topk_join("),
        (
            "topk_join('q.features', 'g.features', 2, 'hamming')",
            "there is no measure `hamming`, expected one of cosine_distance",
        ),
        ("topk_join('q.features', 'g.nothing', 2)", "nothing"),
        ("topk_join('q.features', 'g.features WHERE nothing = 1', 2)", "there is no column `nothing`"),
        ("topk_join('q.features', 'g.features WHERE', 2)", "g.features WHERE"),
        ("topk_join('q.features', 'q.features', 2, 'cosine_similarity', 'nnn', 'q.nothing')", "nothing"),
        ("topk_join('q.features', 'q.features', 2, 'cosine_similarity', 'scls')", "the method `scls`: unknown variant"),
        ("topk_join('q.features', 'q.features', 2, 'cosine_similarity', '{\"csls\": 3')", "is no JSON"),
        ("topk_join('q.features', 'q.features', 2, 'l2_distance', 'csls')", "a method corrects cosines"),
        (
            "topk_join('q.features', 'q.features', 2, 'cosine_similarity', 'nnn')",
            "the method `nnn` learns from a query bank, and there is none; the bank is the sixth argument of `topk_join`",
        ),
        (
            "topk_join('q.features', 'q.features', 2, 'cosine_similarity', 'db_norm', 'q.features')",
            "learns from the items of a bank too, and there are none; the bank is the sixth argument",
        ),
        ("topk_join('q.features', 'q.features', 2, 'cosine_similarity', '{\"csls\": {\"k\": 0}}')", "csls.k"),
    ] {
        let message = error(&format!("SELECT * FROM {call}"));
        assert!(message.contains(wanted), "{call}: {message}");
    }
}

#[test]
fn values_that_are_no_numbers_are_named() {
    let queries = random_vectors(11, 3, 4);
    let mut items = random_vectors(12, 50, 4);
    items[31].1[2] = f32::NAN;
    let (_folder, session) = session(&queries, &items);
    let error = session.query("SELECT 1 FROM topk_join('q.features', 'g.features', 5)").unwrap().next().unwrap();
    let message = error.unwrap_err().to_string();
    let wanted = "SQL: the vector `g.features.feature` has a value that is not finite";
    assert_eq!(message, wanted);
    // With the identifier, where the query reads it.
    for (sql, vector) in [
        ("SELECT image_id FROM topk_join('q.features', 'g.features', 5)", "g.features.feature"),
        ("SELECT query_image_id FROM topk_join('g.features', 'q.features', 5)", "g.features.feature"),
        (
            "SELECT t.image_id FROM q.features a, LATERAL (SELECT image_id FROM g.features b ORDER BY a.feature <=> b.feature \
             LIMIT 2) t",
            "b.feature",
        ),
    ] {
        let error = session.query(sql).unwrap().next().unwrap().unwrap_err();
        let wanted = format!("SQL: the vector `{vector}` of image_id 31 has a value that is not finite");
        assert_eq!(error.to_string(), wanted, "{sql}");
        assert!(error.hint_text().unwrap().contains("a condition leaves it out: `'t WHERE vector_norm(v) < 1e30'`"));
    }
    let with_condition = "SELECT 1 FROM topk_join('q.features', 'g.features WHERE vector_norm(feature) < 1e30', 5)";
    assert_eq!(rows(&session, with_condition).num_rows(), 15);
}

/// Codec of the operators of this crate.
#[derive(Debug)]
struct OwnOperators;

impl PhysicalExtensionCodec for OwnOperators {
    fn try_decode(
        &self,
        message: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> datafusion::error::Result<Arc<dyn ExecutionPlan>> {
        decode_operator(message, inputs, context, self, converter)
    }

    fn try_encode(
        &self,
        operator: Arc<dyn ExecutionPlan>,
        message: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> datafusion::error::Result<()> {
        let own = encode_operator(&operator, self, converter)?;
        message.extend(own.unwrap_or_else(|| panic!("`{}` is no operator of this crate", operator.name())));
        Ok(())
    }
}

/// Runner that sends plans as messages, as to another process, and runs them in this one.
#[derive(Debug)]
pub(super) struct ByMessages(pub Store);

#[async_trait::async_trait]
impl PlanRunner for ByMessages {
    fn check(&self, _: &LogicalPlan) -> datafusion::error::Result<()> {
        Ok(())
    }

    fn state(&self, state: SessionState) -> SessionState {
        state
    }

    async fn run(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &SessionConfig,
    ) -> datafusion::error::Result<SendableRecordBatchStream> {
        let operators = displayable(&*plan).indent(false).to_string();
        assert!(operators.contains("TopKJoinExec: k="), "{operators}");
        let context = SessionContext::new_with_config(config.clone());
        let objects = Arc::clone(self.0.objects().inner());
        context.register_object_store(&store_url().parse().unwrap(), objects);
        let message = PhysicalPlanNode::try_from_physical_plan(plan, &OwnOperators)?;
        let plan = message.try_into_physical_plan(&context.task_ctx(), &OwnOperators)?;
        execute_stream(plan, context.task_ctx())
    }
}

#[test]
fn a_join_that_was_a_message_has_the_rows_of_a_sort() {
    let (queries, items) = (random_vectors(1, 23, 19), random_vectors(2, 2000, 19));
    let (folder, session) = session(&queries, &items);
    let session = session.with_runner(Arc::new(ByMessages(Store::open(folder.path()).unwrap())));
    for (measure, order) in MEASURES {
        let sql = format!(
            "SELECT q.image_id AS q, t.image_id AS i, t.m FROM q.features q, LATERAL (SELECT g.image_id, \
             {measure}(g.feature, q.feature) AS m FROM g.features g WHERE g.image_id % 3 <> q.image_id % 3 \
             ORDER BY m {order} LIMIT 7) t ORDER BY q, m {order}"
        );
        let wanted = sorted([&queries, &items], measure, 7, |query, item| query % 3 != item % 3);
        assert_same(&triples(&rows(&session, &sql)), &wanted, measure);
    }
    // Ranks, and columns without the measure.
    let sql = "SELECT query_image_id, image_id, 1.0::double, rank FROM topk_join('q.features', 'g.features', 2)";
    let ranked = rows(&session, sql);
    let ranks = ranked.column(3).as_primitive::<Int64Type>();
    let wanted = sorted([&queries, &items], "cosine_similarity", 2, |_, _| true);
    assert_eq!(
        triples(&ranked).iter().map(|row| (row.0, row.1)).collect::<Vec<_>>(),
        wanted.iter().map(|row| (row.0, row.1)).collect::<Vec<_>>()
    );
    assert!((0..ranked.num_rows()).all(|row| ranks.value(row) == [1, 2][row % 2]));
    // Equal vectors in several parts: the earlier rows come first.
    let equal: Vectors = (0..30).map(|id| (id, vec![1.0, 2.0])).collect();
    let (folder, session) = self::session(&vec![(7, vec![1.0, 2.0]), (8, vec![2.0, 1.0])], &equal);
    let session = session.with_runner(Arc::new(ByMessages(Store::open(folder.path()).unwrap())));
    let sql = "SELECT query_image_id, image_id, score FROM topk_join('q.features', 'g.features', 12)";
    let found: Vec<_> = triples(&rows(&session, sql)).iter().map(|row| (row.0, row.1)).collect();
    assert_eq!(found, [7, 8].iter().flat_map(|&query| (0..12).map(move |item| (query, item))).collect::<Vec<_>>());
}
