//! All methods against `tests/golden/hubness.json`, which numpy, scipy, POT and scikit-hubness made (`hubness.py` beside it).
//! Sums of f64 in another order may differ in their last digits: 1e-12 of the size of what is summed.

use serde_json::Value;
use test_data::hubness::{self as cases, assert_digest, golden, numbers, size, vectors};

use super::csls::csls;
use super::db_norm::{DbNorm, db_norm};
use super::dis_sim_local::dis_sim_local;
use super::distance::Distance;
use super::distribution_normalisation::distribution_normalisation;
use super::dual_bank_sinkhorn::dual_bank_sinkhorn;
use super::dual_softmax::dual_softmax;
use super::empirical_proximity::{empirical_proximity, joint};
use super::greedy::{Capacity, RelaxedGreedy, relaxed_greedy};
use super::inverted_softmax::{Normaliser, inverted_softmax};
use super::local_scaling::{LocalScaling, local_scaling};
use super::matrix::Matrix;
use super::mutual_proximity::mutual_proximity;
use super::nicdm::{Nicdm, nicdm};
use super::nnn::{Nnn, nnn};
use super::qb_norm::{QbNorm, qb_norm};
use super::sinkhorn::{Sinkhorn, sinkhorn};
use crate::normal::ln_phi;

/// The scores of a case as a matrix.
pub(crate) fn scores(case: &Value, seed: u32, queries: usize, items: usize) -> Matrix {
    Matrix::from_fn(queries, items, cases::scores(case, seed, queries, items))
}

#[test]
fn methods_are_those_of_numpy_and_the_libraries() {
    for (number, case) in (1u32..).zip(golden()["cases"].as_array().expect("a list")) {
        let (n, m, b) = (size(case, "queries"), size(case, "items"), size(case, "bank"));
        let seed = 1000 * number;
        let (s, bank) = (scores(case, seed, n, m), scores(case, seed + 1, b, m));
        let (item_bank, of_queries) = (scores(case, seed + 2, b + 3, m), scores(case, seed + 3, n, b));
        let bank_of_banks = scores(case, seed + 4, b, 8);
        let (q, i) = (vectors(seed + 5, n, 5), vectors(seed + 6, m, 5));
        let less = |matrix: &Matrix| Matrix::from_fn(matrix.queries, matrix.items, |q, i| matrix.at(q, i) - 1.0);
        let (negative, negative_bank) = (less(&s), less(&bank));

        let mut got: Vec<(&str, Vec<f64>)> = Vec::new();
        for beta in [30.0, 300.0] {
            if n > 1 {
                got.push(("inverted_softmax", inverted_softmax(&s, None, beta, Normaliser::Others).values));
            }
            got.push(("inverted_softmax", inverted_softmax(&s, None, beta, Normaliser::All).values));
            got.push(("inverted_softmax", inverted_softmax(&s, Some(&bank), beta, Normaliser::Others).values));
        }
        for (over, negative_over) in [(None, None), (Some(&bank), Some(&negative_bank))] {
            for k in [1, 3, 50] {
                got.push(("csls", csls(&s, over, k).values));
                for (distance, of, over) in [(Distance::Cosine, &s, over), (Distance::Order, &negative, negative_over)]
                {
                    got.push(("local_scaling", local_scaling(of, over, &LocalScaling { k, distance }).values));
                    got.push(("nicdm", nicdm(of, over, &Nicdm { k, distance }).values));
                }
            }
            if over.is_some() || n > 1 {
                got.push(("mutual_proximity", mutual_proximity(&s, over).values));
            }
        }
        got.push(("nnn", nnn(&s, &bank, &Nnn { alpha: 0.75, k: 4 }).values));
        got.push(("nnn", nnn(&s, &bank, &Nnn { alpha: 0.5, k: 128 }).values));
        for part in [0.5, 1.0] {
            got.push(("distribution_normalisation", distribution_normalisation(&q, &i, 5, part).values));
        }
        for beta in [20.0, 100.0] {
            got.push(("dual_softmax", dual_softmax(&s, beta).values));
        }
        for (beta, k) in [(20.0, 1), (5.0, 2)] {
            got.push(("qb_norm", qb_norm(&s, &bank, &QbNorm { beta, k }).values));
        }
        for ([beta_queries, beta_items], k, dynamic) in
            [([1.0 / 1.99, 3.0], 1, false), ([1.0 / 1.99, 3.0], 1, true), ([7.0, 2.0], 2, true)]
        {
            let settings = DbNorm { beta_queries, beta_items, k };
            got.push(("db_norm", db_norm(&s, [&bank, &item_bank], &settings, dynamic).values));
        }
        got.push(("empirical_proximity", empirical_proximity(&s, &bank, &of_queries).values));
        got.push(("empirical_proximity", empirical_proximity(&s, &s, &s).values));
        for k in [1, 3] {
            got.push(("dis_sim_local", dis_sim_local(&q, &i, 5, k).values));
        }
        if n == m {
            let to_itself = |a: usize, b: usize| f64::from(u8::from(a == b));
            let symmetric = Matrix::from_fn(n, n, |a, b| f64::midpoint(s.at(a, b), s.at(b, a)) + to_itself(a, b));
            let rows: Vec<Vec<f64>> = (0..n).map(|a| symmetric.row(a).collect()).collect();
            got.push(("joint", Matrix::from_fn(n, n, |a, b| joint(symmetric.at(a, b), &rows[a], &rows[b])).values));
        }
        for (tau, iterations) in [(0.05, 1), (0.05, 10), (0.2, 4)] {
            let (h, g) = sinkhorn(&s, &Sinkhorn { tau, iterations });
            got.push(("sinkhorn", [h, g].concat()));
        }
        let settings = Sinkhorn { tau: 0.05, iterations: 10 };
        got.push(("dual_bank_sinkhorn", dual_bank_sinkhorn(&bank, &bank_of_banks, &settings)));

        let name = case["name"].as_str().expect("a name");
        for (method, wanted) in case["methods"].as_object().expect("methods") {
            let of_method: Vec<_> = got.iter().filter(|(this, _)| this == method).collect();
            if of_method.is_empty() {
                // A method that is one file has its definition and this comparison there.
                let file = test_data::root().join(format!("src/retrieval/methods/{method}.rs"));
                let text = std::fs::read_to_string(&file).unwrap_or_default();
                assert!(text.contains("assert_digest("), "{name}: nothing is compared with `{method}`");
                continue;
            }
            let wanted = wanted.as_array().expect("a list");
            assert_eq!(of_method.len(), wanted.len(), "{name}: {method}");
            for (place, ((_, values), wanted)) in of_method.into_iter().zip(wanted).enumerate() {
                assert_digest(values, wanted, &format!("{name}: {method} {place}"));
            }
        }
    }
}

#[test]
fn the_normal_distribution_is_scipys() {
    let normal = &golden()["normal"];
    for (z, wanted) in numbers(&normal["z"]).into_iter().zip(numbers(&normal["log_ndtr"])) {
        let got = ln_phi(z);
        assert!((got - wanted).abs() <= 1e-12 * wanted.abs() + 1e-17, "{z}: {got} and {wanted}");
    }
}

#[test]
fn matchings_are_those_of_the_printed_algorithm() {
    for (number, case) in (1u32..).zip(golden()["cases"].as_array().expect("a list")) {
        let s = scores(case, 1000 * number, size(case, "queries"), size(case, "items"));
        let relaxations = [(1, 1.0), (2, 1.0), (5, 1.0), (1, 1.5), (2, 1.25), (5, 1.3), (3, 2.0), (2, 1e9)];
        let mut wanted = case["relaxed_greedy"].as_array().expect("a list").iter();
        for (k, lambda) in relaxations {
            for capacity in [Capacity::Scaled, Capacity::Strict] {
                let limits = RelaxedGreedy { lambda, capacity }.limits(k, s.queries, s.items);
                let rows = relaxed_greedy(&s, limits);
                let text: String =
                    rows.iter().map(|row| row.iter().map(|i| format!("{i} ")).collect::<String>() + ".").collect();
                assert_eq!(Some(text.as_str()), wanted.next().and_then(Value::as_str), "{k} {lambda} {capacity:?}");
            }
        }
        assert!(wanted.next().is_none());
    }
}
