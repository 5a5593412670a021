//! Tests of methods through the stage: choice on a validation split, hubs, settings.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;

use super::tests::{TestCaptions, TestImages, host, stage};
use crate::testing::RunOnHost as _;
use pairloom_kernels::measure::bootstrap::{QueryValues, bootstrap_interval};
use pairloom_kernels::measure::hubs::{Hubness, k_occurrences};
use pairloom_kernels::measure::recall::wilson_95;
use pairloom_kernels::random::Rng;
use pairloom_retrieval::methods::{
    BestOf, Csls, DbNorm, DisSimLocal, DualSoftmax, InvertedSoftmax, MutualProximity, Nns, QbNorm, RelaxedGreedy,
    Sinkhorn,
};
use pairloom_retrieval::{Method, Protocol};
use pairloom_spec::stages::evaluate::{Evaluate, QueryBankSettings};
use pairloom_stage::{Stage, TableRef};
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;

const WIDTH: usize = 6;

/// Unit vectors around a common direction, so that there are hubs.
#[expect(clippy::cast_possible_truncation, reason = "embeddings are f32")]
fn vectors(seed: u64, count: usize) -> Vec<Vec<f32>> {
    let mut rng = Rng::new(seed, &[]);
    (0..count)
        .map(|_| {
            let drawn: Vec<f64> = (0..WIDTH).map(|_| 0.4 + 2.0 * rng.uniform() - 1.0).collect();
            let norm = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
            drawn.iter().map(|x| (x / norm) as f32).collect()
        })
        .collect()
}

/// Tables with 12 images of three captions each in the test split, and 9 images of two captions in the training split.
struct MethodFixture {
    images: TestImages,
    captions: TestCaptions,
}

impl MethodFixture {
    fn new() -> Self {
        let (test, train) = (vectors(1, 12), vectors(2, 9));
        let (test_vectors, train_vectors) = (vectors(3, 36), vectors(4, 18));
        let image = |split| move |(id, vector): (usize, Vec<f32>)| (number(id), split, vector);
        let mut images: TestImages = test.into_iter().enumerate().map(image("test")).collect();
        images.extend(train.into_iter().enumerate().map(|(id, vector)| (100 + number(id), "train", vector)));
        let mut captions: TestCaptions = test_vectors
            .into_iter()
            .enumerate()
            .map(|(id, vector)| (number(id), number(id / 3), "test", vector))
            .collect();
        let more = train_vectors.into_iter().enumerate();
        captions.extend(more.map(|(id, vector)| (100 + number(id), 100 + number(id / 2), "train", vector)));
        Self { images, captions }
    }

    fn host(&self) -> InMemoryHost {
        let mut host = host(&self.images, &self.captions);
        for side in ["images", "captions"] {
            let batches = host.input_tables[side].clone();
            host.input_tables.insert(format!("query_bank.{side}"), batches);
        }
        host
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).expect("a small number")
}

pub(super) fn evaluate(methods: Vec<Method>) -> Evaluate {
    let table = |name: &str| TableRef::try_from(format!("vectors.{name}")).expect("a table's name");
    let bank = QueryBankSettings {
        images: Some(table("image_embeddings")),
        captions: Some(table("caption_embeddings")),
        ..QueryBankSettings::default()
    };
    Evaluate { methods, query_bank: Some(bank), ..stage(&[Protocol::All]) }
}

/// Top-k items of the queries of a method and direction.
fn found(rankings: &RecordBatch, method: &str, parameters: Option<&str>, direction: &str) -> Vec<Vec<usize>> {
    let text = |name: &str| tables::text_column(rankings, name).expect("a column").clone();
    let (methods, all, directions) = (text("method"), text("parameters"), text("direction"));
    let top = rankings["top_ids"].as_list::<i32>();
    let is = |row: &usize| {
        let found = all.is_valid(*row).then(|| all.value(*row));
        methods.value(*row) == method && found == parameters && directions.value(*row) == direction
    };
    let ids = |row: usize| {
        let ids = top.value(row).as_primitive::<Int64Type>().values().to_vec();
        ids.into_iter().map(|id| usize::try_from(id).expect("an id")).collect()
    };
    (0..rankings.num_rows()).filter(is).map(ids).collect()
}

#[test]
fn the_best_of_several_is_chosen_on_another_split() {
    let data = MethodFixture::new();
    let softmax = |beta| Method::InvertedSoftmax(InvertedSoftmax { beta, query_bank: false });
    let methods = vec![softmax(1.0), softmax(500.0), Method::Nns(Nns {})];
    let mut rsums = Vec::new();
    for method in &methods {
        let mut host = data.host();
        host.run_stage(&Evaluate { split: "train".to_owned(), query_bank: None, ..evaluate(vec![method.clone()]) })
            .expect("a method");
        rsums.push(super::tests::value(&host.output("metrics"), "made-9", "both", "rsum", None));
    }
    let best = (0..3).rev().max_by(|&a, &b| rsums[a].total_cmp(&rsums[b])).expect("three");
    let mut host = data.host();
    let chosen = Evaluate {
        validation_split: Some("train".to_owned()),
        ..evaluate(vec![Method::BestOf(BestOf { methods: methods.clone() })])
    };
    host.run_stage(&chosen).expect("a choice");
    let label = methods[best].label(None, Some("train"));
    let summary = host.output("summary");
    assert_eq!(tables::text_column(&summary, "method").expect("a column").value(0), label.method);
    assert_eq!(
        Some(tables::text_column(&summary, "parameters").expect("a column").value(0)),
        label.parameters.as_deref()
    );
}

#[test]
fn hub_counts_are_those_of_the_rankings() {
    let data = MethodFixture::new();
    let mut host = data.host();
    host.run_stage(&evaluate(vec![Method::Nns(Nns {})])).expect("a method");
    let (rankings, hubs) = (host.output("rankings"), host.output("hubs"));
    let lists = found(&rankings, "nns", None, "t2i");
    for (name, k) in [("n1", 1), ("n5", 5), ("n10", 10)] {
        let counts = hubs[name].as_primitive::<Int64Type>();
        let expected: Vec<i64> =
            (0..12).map(|item| number(lists.iter().filter(|list| list[..k].contains(&item)).count())).collect();
        assert_eq!(counts.values()[36..], expected, "{name}");
    }
    let metrics = host.output("metrics");
    let interval = |measure: &str| {
        let row = (0..metrics.num_rows())
            .find(|&row| tables::text_column(&metrics, "measure").expect("a column").value(row) == measure);
        let row = row.expect("the measure");
        let end = |name: &str| metrics[name].as_primitive::<arrow::datatypes::Float64Type>().value(row);
        (end("ci95_low"), end("value"), end("ci95_high"))
    };
    let (low, rsum, high) = interval("rsum");
    assert!(low < rsum && rsum < high, "{low} {rsum} {high}");
    let (low, _, high) = interval("hs_sum");
    assert!(low < high);
}

/// A row for each of the three captions of an image: the first ten rows of a caption are three images and a row of a
/// fourth. The sum of skewness is that of lists of rows. The interval of a recall of captions is that of the bootstrap over
/// images, the one of images Wilson's.
#[test]
fn duplicate_rows_and_the_intervals_of_recalls() {
    let data = MethodFixture::new();
    let mut host = data.host();
    host.run_stage(&evaluate(vec![Method::Nns(Nns {})])).expect("a method");
    let (rankings, metrics) = (host.output("rankings"), host.output("metrics"));
    let lists = ["i2t", "t2i"].map(|direction| found(&rankings, "nns", None, direction));
    let rows = |list: &Vec<usize>| list.iter().flat_map(|image| 3 * image..3 * image + 3).collect();
    let by_row: [Vec<Vec<usize>>; 2] =
        [lists[0].iter().flat_map(|list| vec![list.clone(); 3]).collect(), lists[1].iter().map(rows).collect()];
    let expected: f64 = by_row
        .iter()
        .flat_map(|lists| [1, 5, 10].map(|k| k_occurrences(lists.iter().map(Vec::as_slice), 36, k)))
        .map(|counts| Hubness::of(&counts).expect("items are found").skewness)
        .sum();
    let text = |name: &str, row: usize| tables::text_column(&metrics, name).expect("a column").value(row).to_owned();
    let number = |name: &str, row: usize| metrics[name].as_primitive::<arrow::datatypes::Float64Type>().value(row);
    let row = |measure: &str, direction: &str, variant: &str| {
        let is_it = |row: &usize| {
            (text("measure", *row), text("direction", *row), text("variant", *row))
                == (measure.to_owned(), direction.to_owned(), variant.to_owned())
        };
        (0..metrics.num_rows()).find(is_it).expect("the measure")
    };
    let got = number("value", row("hs_sum", "both", "duplicated"));
    assert!((got - expected).abs() < 1e-9, "{got}, expected {expected}");
    assert_ne!(got, number("value", row("hs_sum", "both", "")));

    // The first recall is that at 1.
    let interval = |row: usize| (number("ci95_low", row), number("ci95_high", row));
    let hit = |(caption, list): (usize, &Vec<usize>)| if list[0] == caption / 3 { 100.0 } else { 0.0 };
    let hits: Vec<f64> = lists[1].iter().enumerate().map(hit).collect();
    let images: Vec<usize> = (0..36).map(|caption| caption / 3).collect();
    let bootstrap = bootstrap_interval(&[QueryValues { values: &hits, groups: &images }], 12, 1000, 0.95, 0);
    assert_eq!(Some(interval(row("recall", "t2i", ""))), bootstrap);
    let i2t = row("recall", "i2t", "");
    assert_eq!(interval(i2t), wilson_95(number("value", i2t), 12));
}

#[test]
fn bad_method_settings_are_named() {
    let none = Evaluate { query_bank: None, ..evaluate(vec![]) };
    let named = |methods: Vec<Method>| -> Vec<String> {
        let problems = Evaluate { methods, ..none.clone() }.check();
        problems.into_iter().map(|problem| problem.setting).collect()
    };
    assert_eq!(named(vec![]), ["methods"]);
    assert_eq!(named(vec![Method::Csls(Csls { k: 0, ..Csls::default() })]), ["methods.0.csls.k"]);
    assert_eq!(
        named(vec![Method::InvertedSoftmax(InvertedSoftmax { beta: f64::INFINITY, query_bank: false })]),
        ["methods.0.inverted_softmax.beta"]
    );
    assert_eq!(named(vec![Method::QbNorm(QbNorm { beta: 20.0, k: 1 })]), ["methods.0.qb_norm"]);
    let mutual = Method::MutualProximity(MutualProximity::default());
    let greedy = |lambda, over| {
        Method::RelaxedGreedy(RelaxedGreedy { lambda, over: Box::new(over), ..RelaxedGreedy::default() })
    };
    assert_eq!(named(vec![greedy(0.9, Method::Nns(Nns {}))]), ["methods.0.relaxed_greedy.lambda"]);
    assert_eq!(named(vec![greedy(2.0, mutual)]), ["methods.0.relaxed_greedy.over"]);
    assert_eq!(named(vec![Method::Nns(Nns {}), Method::Nns(Nns {})]), ["methods.1"]);
    assert_eq!(
        named(vec![Method::BestOf(BestOf { methods: vec![] })]),
        ["methods.0.best_of", "methods.0.best_of.methods"]
    );
    let same = Evaluate { validation_split: Some("test".to_owned()), ..evaluate(vec![Method::Nns(Nns {})]) };
    assert_eq!(same.check()[0].setting, "validation_split");
}

#[test]
fn methods_that_need_cosines_are_errors_with_order_similarity() {
    let data = MethodFixture::new();
    let similarity = pairloom_spec::similarity::EmbeddingSimilarity::Order {
        form: pairloom_spec::similarity::OrderPenalty::default(),
    };
    let methods = vec![
        Method::DisSimLocal(DisSimLocal { k: 3 }),
        Method::DbNorm(DbNorm { beta_queries: 8.0, beta_items: 3.0, k: 1, dynamic: false }),
        Method::DualSoftmax(DualSoftmax { beta: 20.0 }),
    ];
    assert!(evaluate(methods.clone()).check().is_empty());
    let problems = Evaluate { similarity, ..evaluate(methods) }.check();
    let at: Vec<&str> = problems.iter().map(|problem| problem.setting.as_str()).collect();
    assert_eq!(at, ["methods.0.dis_sim_local", "methods.1.db_norm", "methods.2.dual_softmax"]);
    assert!(problems[0].message.contains("compare images with captions only"), "{}", problems[0].message);
    for method in [
        Method::Csls(Csls { k: 3, query_bank: true, ..Csls::default() }),
        Method::Sinkhorn(Sinkhorn { tau: 0.1, iterations: 3, query_bank: false }),
    ] {
        data.host().run_stage(&Evaluate { similarity, ..evaluate(vec![method]) }).expect("scores are enough");
    }
}
