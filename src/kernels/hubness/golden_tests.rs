//! All methods against `tests/golden/hubness.json`, which `hubness.py` beside it computes with numpy, scipy, POT and
//! scikit-hubness. Tolerance: 1e-12, relative to the size of the summands, because f64 sums are added in a different
//! order.

use serde_json::Value;
use test_data::hubness::{assert_digest, golden, numbers, size, vectors};

use super::csls::Csls;
use super::db_norm::db_norm;
use super::dis_sim_local::dis_sim_local;
use super::distance::Distance;
use super::distribution_normalisation::distribution_normalisation;
use super::dual_softmax::DualSoftmax;
use super::inverted_softmax::{NormalisationSet, inverted_softmax};
use super::local_scaling::LocalScaling;
use super::method::{DenseScores, StatisticalMethod};
use super::mutual_proximity::{GaussianMutualProximity, empirical_proximity, joint_proximity};
use super::nicdm::Nicdm;
use super::nnn::Nnn;
use super::qb_norm::qb_norm;
use super::relaxed_greedy::{CapacityRule, GreedyRelaxation, relaxed_greedy};
use super::sinkhorn::{dual_bank_sinkhorn, sinkhorn};
use super::testing::golden_scores;
use crate::normal::log_ndtr;

#[test]
fn methods_equal_those_of_numpy_and_other_libraries() {
    for (number, case) in (1u32..).zip(golden()["cases"].as_array().expect("a list")) {
        let (n, m, b) = (size(case, "queries"), size(case, "items"), size(case, "bank"));
        let seed = 1000 * number;
        let (s, bank) = (golden_scores(case, seed, n, m), golden_scores(case, seed + 1, b, m));
        let (item_bank, bank_queries) = (golden_scores(case, seed + 2, b + 3, m), golden_scores(case, seed + 3, n, b));
        let bank_of_banks = golden_scores(case, seed + 4, b, 8);
        let (q, i) = (vectors(seed + 5, n, 5), vectors(seed + 6, m, 5));
        let less =
            |matrix: &DenseScores| DenseScores::from_fn(matrix.queries, matrix.items, |q, i| matrix.at(q, i) - 1.0);
        let (negative, negative_bank) = (less(&s), less(&bank));
        let defined = |method: &dyn StatisticalMethod| {
            method.definition(&s, if method.is_inductive() { &bank } else { &s }, Distance::Cosine).values
        };
        let order_correction = |method: &dyn StatisticalMethod| {
            let others = if method.is_inductive() { &negative_bank } else { &negative };
            method.definition(&negative, others, Distance::Order).values
        };
        let distances = |values: Vec<f64>| values.into_iter().map(|value| -value).collect::<Vec<_>>();

        let mut got: Vec<(&str, Vec<f64>)> = Vec::new();
        for beta in [30.0, 300.0] {
            if n > 1 {
                got.push(("inverted_softmax", inverted_softmax(&s, None, beta, NormalisationSet::OtherQueries).values));
            }
            got.push(("inverted_softmax", inverted_softmax(&s, None, beta, NormalisationSet::AllQueries).values));
            got.push((
                "inverted_softmax",
                inverted_softmax(&s, Some(&bank), beta, NormalisationSet::OtherQueries).values,
            ));
        }
        for bank in [false, true] {
            for k in [1, 3, 50] {
                got.push(("csls", defined(&Csls { k, query_bank: bank, ..Csls::default() })));
                got.push(("local_scaling", defined(&LocalScaling { k, query_bank: bank })));
                got.push(("local_scaling", order_correction(&LocalScaling { k, query_bank: bank })));
                got.push(("nicdm", distances(defined(&Nicdm { k, query_bank: bank }))));
                got.push(("nicdm", distances(order_correction(&Nicdm { k, query_bank: bank }))));
            }
            if bank || n > 1 {
                got.push(("mutual_proximity", defined(&GaussianMutualProximity { query_bank: bank })));
            }
        }
        got.push(("nnn", defined(&Nnn { alpha: 0.75, k: 4 })));
        got.push(("nnn", defined(&Nnn { alpha: 0.5, k: 128 })));
        for part in [0.5, 1.0] {
            got.push(("distribution_normalisation", distribution_normalisation(&q, &i, 5, part).values));
        }
        for beta in [20.0, 100.0] {
            got.push(("dual_softmax", defined(&DualSoftmax { beta })));
        }
        for (beta, k) in [(20.0, 1), (5.0, 2)] {
            got.push(("qb_norm", qb_norm(&s, &bank, beta, k).values));
        }
        for (betas, k) in [([1.0 / 1.99, 3.0], None), ([1.0 / 1.99, 3.0], Some(1)), ([7.0, 2.0], Some(2))] {
            got.push(("db_norm", db_norm(&s, [&bank, &item_bank], betas, k).values));
        }
        got.push(("empirical_proximity", empirical_proximity(&s, &bank, &bank_queries).values));
        got.push(("empirical_proximity", empirical_proximity(&s, &s, &s).values));
        for k in [1, 3] {
            got.push(("dis_sim_local", dis_sim_local(&q, &i, 5, k).values));
        }
        if n == m {
            let to_itself = |a: usize, b: usize| f64::from(u8::from(a == b));
            let symmetric = DenseScores::from_fn(n, n, |a, b| f64::midpoint(s.at(a, b), s.at(b, a)) + to_itself(a, b));
            let rows: Vec<Vec<f64>> = (0..n).map(|a| symmetric.row(a).collect()).collect();
            got.push((
                "joint",
                DenseScores::from_fn(n, n, |a, b| joint_proximity(symmetric.at(a, b), &rows[a], &rows[b])).values,
            ));
        }
        for (tau, iterations) in [(0.05, 1), (0.05, 10), (0.2, 4)] {
            let (h, g) = sinkhorn(&s, tau, iterations);
            got.push(("sinkhorn", [h, g].concat()));
        }
        got.push(("dual_bank_sinkhorn", dual_bank_sinkhorn(&bank, &bank_of_banks, 0.05, 10)));

        let name = case["name"].as_str().expect("a name");
        for (method, expected) in case["methods"].as_object().expect("methods") {
            let method_cases: Vec<_> = got.iter().filter(|(this, _)| this == method).collect();
            if method_cases.is_empty() {
                // The file of this method has the comparison.
                let compares = |folder: &&str| {
                    let file = test_data::root().join(folder).join(format!("{method}.rs"));
                    std::fs::read_to_string(file).is_ok_and(|text| text.contains("assert_digest("))
                };
                let folders = ["src/kernels/hubness", "src/retrieval/methods"];
                assert!(folders.iter().any(compares), "{name}: nothing is compared with `{method}`");
                continue;
            }
            let expected = expected.as_array().expect("a list");
            assert_eq!(method_cases.len(), expected.len(), "{name}: {method}");
            for (place, ((_, values), expected)) in method_cases.into_iter().zip(expected).enumerate() {
                assert_digest(values, expected, &format!("{name}: {method} {place}"));
            }
        }
    }
}

#[test]
fn the_normal_cdf_equals_that_of_scipy() {
    let normal = &golden()["normal"];
    for (z, expected) in numbers(&normal["z"]).into_iter().zip(numbers(&normal["log_ndtr"])) {
        let got = log_ndtr(z);
        assert!((got - expected).abs() <= 1e-12 * expected.abs() + 1e-17, "{z}: {got} and {expected}");
    }
}

#[test]
fn matchings_equal_those_of_the_published_algorithm() {
    for (number, case) in (1u32..).zip(golden()["cases"].as_array().expect("a list")) {
        let s = golden_scores(case, 1000 * number, size(case, "queries"), size(case, "items"));
        let relaxations = [(1, 1.0), (2, 1.0), (5, 1.0), (1, 1.5), (2, 1.25), (5, 1.3), (3, 2.0), (2, 1e9)];
        let mut expected = case["relaxed_greedy"].as_array().expect("a list").iter();
        for (k, lambda) in relaxations {
            for capacity in [CapacityRule::Scaled, CapacityRule::Strict] {
                let limits = GreedyRelaxation { lambda, capacity }.limits(k, s.queries, s.items);
                let rows = relaxed_greedy(&s, limits);
                let text: String =
                    rows.iter().map(|row| row.iter().map(|i| format!("{i} ")).collect::<String>() + ".").collect();
                assert_eq!(Some(text.as_str()), expected.next().and_then(Value::as_str), "{k} {lambda} {capacity:?}");
            }
        }
        assert!(expected.next().is_none());
    }
}
