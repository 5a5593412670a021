//! Matchings and assignments through the stage, against their definitions on dense matrices of f64.

#![expect(clippy::cast_precision_loss, reason = "test values are small")]

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float64Type, Int64Type};

use super::Method;
use super::method_tests::{Data, Side, evaluate, found, number};
use super::tests::value;
use crate::kernels::hubness::greedy::{Capacity, RelaxedGreedy, relaxed_greedy};
use crate::kernels::hubness::inverted_softmax::Normaliser;
use crate::kernels::hubness::k_best_assignment::{Places, k_best_assignments};
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::sinkhorn::{Sinkhorn, sinkhorn};
use crate::tables;

#[test]
fn a_matching_is_that_of_the_definition() {
    let data = Data::new();
    let sides = Side::both(&data);
    let over = [
        Method::Nns {},
        Method::Csls { k: 3, bank: false },
        Method::InvertedSoftmax { beta: 30.0, bank: false },
        Method::Sinkhorn { tau: 0.1, iterations: 5, bank: false },
    ];
    for over in over {
        for (lambda, strict) in [(1.0, false), (2.0, false), (1.0, true), (1.6, true)] {
            let method = Method::RelaxedGreedy { lambda, strict, over: Box::new(over.clone()) };
            let mut world = data.world();
            world.run(&evaluate(vec![method.clone()])).expect("a method");
            let label = method.label(Some("train"), None);
            assert!(label.transductive);
            let capacity = if strict { Capacity::Strict } else { Capacity::Scaled };
            let greedy = RelaxedGreedy { lambda, capacity };
            let metrics = world.output("metrics");
            for (side, direction) in sides.iter().zip(["i2t", "t2i"]) {
                let scores = match &over {
                    // Only across queries does the query's potential count.
                    Method::Sinkhorn { tau, iterations, .. } => {
                        let (h, g) = sinkhorn(&side.test, &Sinkhorn { tau: *tau, iterations: *iterations });
                        Matrix::from_fn(side.test.queries, side.test.items, |q, i| side.test.at(q, i) - h[i] - g[q])
                    }
                    over => side.defined(over),
                };
                let sets = |k| relaxed_greedy(&scores, greedy.limits(k, scores.queries, scores.items));
                let got = found(&world.output("rankings"), "relaxed_greedy", label.parameters.as_deref(), direction);
                assert_eq!(got, sets(10), "{method:?} {direction}");
                for k in [1, 5, 10] {
                    let own = |query: usize, item: usize| {
                        if direction == "i2t" { item / 3 == query } else { query / 3 == item }
                    };
                    let sets = sets(k);
                    let is_hit = |(query, items): &(usize, &Vec<usize>)| items.iter().any(|&item| own(*query, item));
                    let hits = sets.iter().enumerate().filter(is_hit);
                    let recall = 100.0 * hits.count() as f64 / scores.queries as f64;
                    let told = value(&metrics, "made-12", direction, "recall", Some(number(k)));
                    assert!((told - recall).abs() < 1e-9, "{method:?} {direction} {k}: {told}, wanted {recall}");
                }
            }
            let summary = world.output("summary");
            assert!(summary["i2t_medr"].is_null(0) && summary["t2i_meanr"].is_null(0));
        }
    }
}

/// Liu and Ye leave the query itself out of what its scores are normalised over, MUSE does not: the same rankings and matchings
/// of this stage, which has no setting for it.
#[test]
fn an_inverted_softmax_with_the_own_query_and_without_it_is_the_same() {
    let data = Data::new();
    for beta in [1.0, 10.0, 30.0] {
        let method = Method::InvertedSoftmax { beta, bank: false };
        let matching = Method::RelaxedGreedy { lambda: 1.0, strict: false, over: Box::new(method.clone()) };
        let mut world = data.world();
        world.run(&evaluate(vec![method.clone(), matching.clone()])).expect("two methods");
        let (rankings, metrics) = (world.output("rankings"), world.output("metrics"));
        for (side, direction) in Side::both(&data).iter().zip(["i2t", "t2i"]) {
            let definitions = [Normaliser::Others, Normaliser::All].map(|over| side.defined_over(&method, over));
            assert_ne!(definitions[0].values, definitions[1].values);
            for scores in definitions {
                let list = |method: &Method| {
                    let parameters = method.label(None, None).parameters;
                    found(&rankings, method.name(), parameters.as_deref(), direction)
                };
                let best = |items: Vec<usize>| items[..10].to_vec();
                assert_eq!(list(&method), scores.rankings().into_iter().map(best).collect::<Vec<_>>());
                let greedy = RelaxedGreedy { lambda: 1.0, capacity: Capacity::Scaled };
                let sets = [1, 5, 10].map(|k| relaxed_greedy(&scores, greedy.limits(k, scores.queries, scores.items)));
                assert_eq!(list(&matching), sets[2]);
                for (k, sets) in [1, 5, 10].into_iter().zip(&sets) {
                    let own = |query: usize, item: usize| {
                        if direction == "i2t" { item / 3 == query } else { query / 3 == item }
                    };
                    let is_hit = |(query, items): &(usize, &Vec<usize>)| items.iter().any(|&item| own(*query, item));
                    let recall = 100.0 * sets.iter().enumerate().filter(is_hit).count() as f64 / sets.len() as f64;
                    let row = (0..metrics.num_rows()).find(|&row| {
                        let is = |name: &str, wanted: &str| {
                            tables::texts(&metrics, name).expect("a column").value(row) == wanted
                        };
                        is("method", "relaxed_greedy")
                            && is("direction", direction)
                            && is("measure", "recall")
                            && metrics["k"].as_primitive::<Int64Type>().value(row) == number(k)
                    });
                    let told = metrics["value"].as_primitive::<Float64Type>();
                    assert!((told.value(row.expect("a recall")) - recall).abs() < 1e-9);
                }
            }
        }
    }
}

/// The items of the k best assignments, in the order in which they come.
#[test]
fn the_k_best_assignments_are_those_of_the_definition() {
    let data = Data::new();
    let mut world = data.world();
    let method = Method::KBestAssignment { k: 6 };
    world.run(&evaluate(vec![method.clone()])).expect("a method");
    let rankings = world.output("rankings");
    for (side, direction) in Side::both(&data).iter().zip(["i2t", "t2i"]) {
        let (queries, items) = (side.test.queries, side.test.items);
        let score = |query: usize, item: usize| side.test.at(query, item);
        let best =
            k_best_assignments(&Places { queries, items, each: queries.div_ceil(items), score: &score }, 6, || true);
        assert_eq!(best.len(), 6);
        let got = found(&rankings, method.name(), Some("k = 6"), direction);
        for (query, got) in got.into_iter().enumerate() {
            let mut wanted: Vec<usize> = best.iter().map(|assignment| assignment[query]).collect();
            let all = wanted.clone();
            let mut place = 0;
            wanted.retain(|item| {
                place += 1;
                !all[..place - 1].contains(item)
            });
            assert_eq!(got, wanted, "{direction} {query}");
        }
    }
}

#[test]
fn an_assignment_gives_nobody_twice() {
    let data = Data::new();
    let mut world = data.world();
    world.run(&evaluate(vec![Method::Assignment {}])).expect("a method");
    let got = found(&world.output("rankings"), "assignment", None, "i2t");
    let mut first: Vec<usize> = got.iter().map(|items| items[0]).collect();
    first.sort_unstable();
    first.dedup();
    assert_eq!(first.len(), 12, "twelve images, twelve captions");
    let hubs = world.output("hubs");
    let n1 = hubs["n1"].as_primitive::<Int64Type>().values();
    // Every image is the first of three captions: its share.
    assert_eq!(n1[36..], [3; 12]);
}
