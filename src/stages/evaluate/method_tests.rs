//! Every method through the stage, against its plain definition on dense matrices of f64.

#![expect(clippy::cast_precision_loss, reason = "test values are small")]

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;

use super::tests::{Captions, Images, stage, world};
use super::{Bank, Distribution, Evaluate, Method, Protocol};
use crate::kernels::hubness::csls::csls;
use crate::kernels::hubness::db_norm::{DbNorm, db_norm};
use crate::kernels::hubness::dis_sim_local::dis_sim_local;
use crate::kernels::hubness::distance::Distance;
use crate::kernels::hubness::dual_bank_sinkhorn::dual_bank_sinkhorn;
use crate::kernels::hubness::dual_softmax::dual_softmax;
use crate::kernels::hubness::empirical_proximity::empirical_proximity;
use crate::kernels::hubness::inverted_softmax::{Normaliser, inverted_softmax};
use crate::kernels::hubness::local_scaling::{LocalScaling, local_scaling};
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::mutual_proximity::mutual_proximity;
use crate::kernels::hubness::nicdm::{Nicdm, nicdm};
use crate::kernels::hubness::nnn::{Nnn, nnn};
use crate::kernels::hubness::qb_norm::{QbNorm, qb_norm};
use crate::kernels::hubness::sinkhorn::{Sinkhorn, sinkhorn};
use crate::kernels::sample::Sample;
use crate::stage::{Stage, TableRef};
use crate::stages::testing::MemoryWorld;
use crate::tables;

const WIDTH: usize = 6;

/// Unit vectors around a common direction, so that there are hubs.
#[expect(clippy::cast_possible_truncation, reason = "f32 is what embeddings are")]
fn vectors(seed: u64, count: usize) -> Vec<Vec<f32>> {
    let mut sample = Sample::new(seed, &[]);
    (0..count)
        .map(|_| {
            let drawn: Vec<f64> = (0..WIDTH).map(|_| 0.4 + 2.0 * sample.unit() - 1.0).collect();
            let norm = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
            drawn.iter().map(|x| (x / norm) as f32).collect()
        })
        .collect()
}

/// 12 images with three captions each in the test, 9 with two in the training split.
pub(super) struct Data {
    images: Images,
    captions: Captions,
}

impl Data {
    pub(super) fn new() -> Self {
        let (test, train) = (vectors(1, 12), vectors(2, 9));
        let (of_test, of_train) = (vectors(3, 36), vectors(4, 18));
        let image = |split| move |(id, vector): (usize, Vec<f32>)| (number(id), split, vector);
        let mut images: Images = test.into_iter().enumerate().map(image("test")).collect();
        images.extend(train.into_iter().enumerate().map(|(id, vector)| (100 + number(id), "train", vector)));
        let mut captions: Captions =
            of_test.into_iter().enumerate().map(|(id, vector)| (number(id), number(id / 3), "test", vector)).collect();
        let more = of_train.into_iter().enumerate();
        captions.extend(more.map(|(id, vector)| (100 + number(id), 100 + number(id / 2), "train", vector)));
        Self { images, captions }
    }

    fn of(&self, split: &str) -> [Vec<&[f32]>; 2] {
        [
            self.images.iter().filter(|row| row.1 == split).map(|row| row.2.as_slice()).collect(),
            self.captions.iter().filter(|row| row.2 == split).map(|row| row.3.as_slice()).collect(),
        ]
    }

    pub(super) fn world(&self) -> MemoryWorld {
        let mut world = world(&self.images, &self.captions);
        for side in ["images", "captions"] {
            let batches = world.tables[side].clone();
            world.tables.insert(format!("bank.{side}"), batches);
        }
        world
    }
}

pub(super) fn number(count: usize) -> i64 {
    i64::try_from(count).expect("a small number")
}

fn matrix(queries: &[&[f32]], items: &[&[f32]]) -> Matrix {
    Matrix::from_fn(queries.len(), items.len(), |q, i| {
        queries[q].iter().zip(items[i]).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    })
}

/// What one direction is ranked by: scores of the test, of the bank's queries with the items, of the queries with the bank's
/// items, of the bank's items with the items, of the bank's queries with the bank's items; and the vectors.
pub(super) struct Side<'d> {
    pub(super) test: Matrix,
    bank: Matrix,
    of_queries: Matrix,
    bank_items: Matrix,
    within: Matrix,
    queries: Vec<&'d [f32]>,
    items: Vec<&'d [f32]>,
}

impl<'d> Side<'d> {
    pub(super) fn both(data: &'d Data) -> [Self; 2] {
        let ([images, captions], [bank_images, bank_captions]) = (data.of("test"), data.of("train"));
        let side =
            |queries: &Vec<&'d [f32]>, items: &Vec<&'d [f32]>, of_queries: &[&[f32]], of_items: &[&[f32]]| Self {
                test: matrix(queries, items),
                bank: matrix(of_queries, items),
                of_queries: matrix(queries, of_items),
                bank_items: matrix(of_items, items),
                within: matrix(of_queries, of_items),
                queries: queries.clone(),
                items: items.clone(),
            };
        [side(&images, &captions, &bank_images, &bank_captions), side(&captions, &images, &bank_captions, &bank_images)]
    }

    /// `s − h`.
    fn less(&self, h: &[f64]) -> Matrix {
        Matrix::from_fn(self.test.queries, self.test.items, |q, i| self.test.at(q, i) - h[i])
    }

    pub(super) fn defined(&self, method: &Method) -> Matrix {
        self.defined_over(method, Normaliser::Others)
    }

    /// `over`: whom the inverted softmax is normalised over.
    pub(super) fn defined_over(&self, method: &Method, over: Normaliser) -> Matrix {
        let distance = Distance::Cosine;
        match *method {
            Method::Nns {} => self.test.clone(),
            Method::InvertedSoftmax { beta, bank } => {
                inverted_softmax(&self.test, bank.then_some(&self.bank), beta, over)
            }
            Method::Csls { k, bank } => csls(&self.test, bank.then_some(&self.bank), k),
            Method::Nnn { alpha, k } => nnn(&self.test, &self.bank, &Nnn { alpha, k }),
            Method::DistributionNormalisation { lambda } => {
                let mean = |item: usize| self.bank.column(item).sum::<f64>() / self.bank.queries as f64;
                self.less(&(0..self.test.items).map(|item| lambda * mean(item)).collect::<Vec<_>>())
            }
            Method::QbNorm { beta, k } => qb_norm(&self.test, &self.bank, &QbNorm { beta, k }),
            Method::DbNorm { beta_queries, beta_items, k, dynamic } => {
                let settings = DbNorm { beta_queries, beta_items, k };
                db_norm(&self.test, [&self.bank, &self.bank_items], &settings, dynamic)
            }
            Method::DualSoftmax { beta } => dual_softmax(&self.test, beta),
            Method::Sinkhorn { tau, iterations, bank } => {
                let of = if bank { &self.bank } else { &self.test };
                self.less(&sinkhorn(of, &Sinkhorn { tau, iterations }).0)
            }
            Method::DualBankSinkhorn { tau, iterations } => {
                self.less(&dual_bank_sinkhorn(&self.bank, &self.within, &Sinkhorn { tau, iterations }))
            }
            Method::MutualProximity { distribution: Distribution::Normal, bank } => {
                mutual_proximity(&self.test, bank.then_some(&self.bank))
            }
            Method::MutualProximity { distribution: Distribution::Empirical, bank } => {
                let (of_items, of_queries) =
                    if bank { (&self.bank, &self.of_queries) } else { (&self.test, &self.test) };
                empirical_proximity(&self.test, of_items, of_queries)
            }
            Method::LocalScaling { k, bank } => {
                local_scaling(&self.test, bank.then_some(&self.bank), &LocalScaling { k, distance })
            }
            Method::Nicdm { k, bank } => {
                let distances = nicdm(&self.test, bank.then_some(&self.bank), &Nicdm { k, distance });
                Matrix::from_fn(distances.queries, distances.items, |q, i| -distances.at(q, i))
            }
            Method::DisSimLocal { k } => {
                let flat = |rows: &[&[f32]]| -> Vec<f64> { rows.concat().into_iter().map(f64::from).collect() };
                let distances = dis_sim_local(&flat(&self.queries), &flat(&self.items), WIDTH, k);
                Matrix::from_fn(distances.queries, distances.items, |q, i| -distances.at(q, i))
            }
            Method::RelaxedGreedy { .. }
            | Method::Assignment {}
            | Method::KBestAssignment { .. }
            | Method::BestOf { .. } => unreachable!("no scores"),
        }
    }
}

pub(super) fn every_method() -> Vec<Method> {
    let (k, bank) = (3, false);
    let mut all =
        vec![Method::Nns {}, Method::Nnn { alpha: 0.75, k }, Method::DistributionNormalisation { lambda: 0.5 }];
    all.extend([Method::QbNorm { beta: 20.0, k: 1 }, Method::DualSoftmax { beta: 20.0 }, Method::DisSimLocal { k }]);
    for dynamic in [false, true] {
        all.push(Method::DbNorm { beta_queries: 8.0, beta_items: 3.0, k: 1, dynamic });
    }
    all.push(Method::DualBankSinkhorn { tau: 0.1, iterations: 7 });
    for bank in [bank, true] {
        all.extend([
            Method::InvertedSoftmax { beta: 30.0, bank },
            Method::Csls { k, bank },
            Method::Sinkhorn { tau: 0.1, iterations: 7, bank },
            Method::MutualProximity { distribution: Distribution::Normal, bank },
            Method::MutualProximity { distribution: Distribution::Empirical, bank },
            Method::LocalScaling { k, bank },
            Method::Nicdm { k, bank },
        ]);
    }
    all
}

pub(super) fn evaluate(methods: Vec<Method>) -> Evaluate {
    let table = |name: &str| TableRef::try_from(format!("vectors.{name}")).expect("a table's name");
    let bank = Bank {
        images: Some(table("image_embeddings")),
        captions: Some(table("caption_embeddings")),
        split: "train".to_owned(),
        memory: None,
    };
    Evaluate { methods, bank: Some(bank), ..stage(&[Protocol::All]) }
}

/// The items that queries found, by direction; the rankings of methods are told by their order.
pub(super) fn found(
    rankings: &RecordBatch,
    method: &str,
    parameters: Option<&str>,
    direction: &str,
) -> Vec<Vec<usize>> {
    let text = |name: &str| tables::texts(rankings, name).expect("a column").clone();
    let (methods, all, directions) = (text("method"), text("parameters"), text("direction"));
    let top = rankings["top_ids"].as_list::<i32>();
    let is = |row: &usize| {
        let of = all.is_valid(*row).then(|| all.value(*row));
        methods.value(*row) == method && of == parameters && directions.value(*row) == direction
    };
    let ids = |row: usize| {
        let ids = top.value(row).as_primitive::<Int64Type>().values().to_vec();
        ids.into_iter().map(|id| usize::try_from(id).expect("an id")).collect()
    };
    (0..rankings.num_rows()).filter(is).map(ids).collect()
}

#[test]
fn rankings_are_those_of_the_definitions() {
    let data = Data::new();
    let sides = Side::both(&data);
    for method in every_method() {
        let mut world = data.world();
        world.run(&evaluate(vec![method.clone()])).expect("a method");
        let (rankings, label) = (world.output("rankings"), method.label(Some("train"), None));
        for (side, direction) in sides.iter().zip(["i2t", "t2i"]) {
            let got = found(&rankings, method.name(), label.parameters.as_deref(), direction);
            let wanted: Vec<Vec<usize>> =
                side.defined(&method).rankings().into_iter().map(|items| items[..10].to_vec()).collect();
            assert_eq!(got, wanted, "{method:?} {direction}");
        }
        let metrics = world.output("metrics");
        let transductive = metrics["transductive"].as_boolean().value(0);
        let bank = tables::texts(&metrics, "bank").expect("a column").is_valid(0);
        assert_eq!((transductive, bank), (label.transductive, label.bank.is_some()), "{method:?}");
        assert!(!(transductive && bank), "{method:?}");
    }
}

#[test]
fn the_best_of_several_is_chosen_on_another_split() {
    let data = Data::new();
    let of = |beta| Method::InvertedSoftmax { beta, bank: false };
    let methods = vec![of(1.0), of(500.0), Method::Nns {}];
    let mut rsums = Vec::new();
    for method in &methods {
        let mut world = data.world();
        world
            .run(&Evaluate { split: "train".to_owned(), bank: None, ..evaluate(vec![method.clone()]) })
            .expect("a method");
        rsums.push(super::tests::value(&world.output("metrics"), "made-9", "both", "rsum", None));
    }
    let best = (0..3).rev().max_by(|&a, &b| rsums[a].total_cmp(&rsums[b])).expect("three");
    let mut world = data.world();
    let chosen = Evaluate {
        validation: Some("train".to_owned()),
        ..evaluate(vec![Method::BestOf { methods: methods.clone() }])
    };
    world.run(&chosen).expect("a choice");
    let label = methods[best].label(None, Some("train"));
    let summary = world.output("summary");
    assert_eq!(tables::texts(&summary, "method").expect("a column").value(0), label.method);
    assert_eq!(Some(tables::texts(&summary, "parameters").expect("a column").value(0)), label.parameters.as_deref());
}

#[test]
fn counts_of_hubs_are_those_of_the_rankings() {
    let data = Data::new();
    let mut world = data.world();
    world.run(&evaluate(vec![Method::Nns {}])).expect("a method");
    let (rankings, hubs) = (world.output("rankings"), world.output("hubs"));
    let lists = found(&rankings, "nns", None, "t2i");
    for (name, k) in [("n1", 1), ("n5", 5), ("n10", 10)] {
        let counts = hubs[name].as_primitive::<Int64Type>();
        let wanted: Vec<i64> =
            (0..12).map(|item| number(lists.iter().filter(|list| list[..k].contains(&item)).count())).collect();
        assert_eq!(counts.values()[36..], wanted, "{name}");
    }
    let metrics = world.output("metrics");
    let interval = |measure: &str| {
        let row = (0..metrics.num_rows())
            .find(|&row| tables::texts(&metrics, "measure").expect("a column").value(row) == measure);
        let row = row.expect("the measure");
        let end = |name: &str| metrics[name].as_primitive::<arrow::datatypes::Float64Type>().value(row);
        (end("ci95_low"), end("value"), end("ci95_high"))
    };
    let (low, rsum, high) = interval("rsum");
    assert!(low < rsum && rsum < high, "{low} {rsum} {high}");
    let (low, _, high) = interval("hs_sum");
    assert!(low < high);
}

#[test]
fn settings_that_cannot_work_are_named() {
    let none = Evaluate { bank: None, ..evaluate(vec![]) };
    let named = |methods: Vec<Method>| -> Vec<String> {
        let problems = Evaluate { methods, ..none.clone() }.check();
        problems.into_iter().map(|problem| problem.setting).collect()
    };
    assert_eq!(named(vec![]), ["methods"]);
    assert_eq!(named(vec![Method::Csls { k: 0, bank: false }]), ["methods.0.csls.k"]);
    assert_eq!(
        named(vec![Method::InvertedSoftmax { beta: f64::INFINITY, bank: false }]),
        ["methods.0.inverted_softmax.beta"]
    );
    assert_eq!(named(vec![Method::QbNorm { beta: 20.0, k: 1 }]), ["methods.0.qb_norm"]);
    let mutual = Method::MutualProximity { distribution: Distribution::Normal, bank: false };
    let greedy = |lambda, over| Method::RelaxedGreedy { lambda, strict: false, over: Box::new(over) };
    assert_eq!(named(vec![greedy(0.9, Method::Nns {})]), ["methods.0.relaxed_greedy.lambda"]);
    assert_eq!(named(vec![greedy(2.0, mutual)]), ["methods.0.relaxed_greedy.over"]);
    assert_eq!(named(vec![Method::Nns {}, Method::Nns {}]), ["methods.1"]);
    assert_eq!(named(vec![Method::BestOf { methods: vec![] }]), ["methods.0.best_of", "methods.0.best_of.methods"]);
    let same = Evaluate { validation: Some("test".to_owned()), ..evaluate(vec![Method::Nns {}]) };
    assert_eq!(same.check()[0].setting, "validation");
}

#[test]
fn order_similarities_refuse_what_cannot_correct_them() {
    let data = Data::new();
    let similarity = crate::model::similarity::Similarity::Order { form: crate::model::similarity::Form::default() };
    let methods = vec![
        Method::DisSimLocal { k: 3 },
        Method::DbNorm { beta_queries: 8.0, beta_items: 3.0, k: 1, dynamic: false },
        Method::DualSoftmax { beta: 20.0 },
    ];
    assert!(evaluate(methods.clone()).check().is_empty());
    let problems = Evaluate { similarity, ..evaluate(methods) }.check();
    let at: Vec<&str> = problems.iter().map(|problem| problem.setting.as_str()).collect();
    assert_eq!(at, ["methods.0.dis_sim_local", "methods.1.db_norm", "methods.2.dual_softmax"]);
    assert!(problems[0].message.contains("compare images with captions only"), "{}", problems[0].message);
    for method in [Method::Csls { k: 3, bank: true }, Method::Sinkhorn { tau: 0.1, iterations: 3, bank: false }] {
        data.world().run(&Evaluate { similarity, ..evaluate(vec![method]) }).expect("scores are enough");
    }
}
