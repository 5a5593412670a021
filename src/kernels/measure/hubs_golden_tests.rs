//! Hubness, resampling and set measures against `tests/golden/hubness.json`, computed with numpy, scipy,
//! scikit-hubness, `pytrec_eval` and ranx.

use serde_json::Value;
use test_data::hubness::{golden, numbers, size, stream};

use super::bootstrap::{QueryValues, bootstrap_interval, randomisation_test};
use super::hubs::{Hubness, k_occurrences};
use super::recall::reciprocal_rank;
use super::set_measures::{average_precision_at_r, r_precision, set_recall};
use crate::hubness::testing::golden_scores;

fn assert_close(got: &[f64], expected: &Value, measure: &str) {
    let expected = numbers(expected);
    assert_eq!(got.len(), expected.len(), "{measure}");
    for (got, expected) in got.iter().zip(expected) {
        assert!((got - expected).abs() <= 1e-12 * expected.abs().max(1.0), "{measure}: {got} and {expected}");
    }
}

#[test]
fn hubness_equals_that_of_scipy_and_scikit_hubness() {
    for (number, case) in (1u32..).zip(golden()["cases"].as_array().expect("a list")) {
        let s = golden_scores(case, 1000 * number, size(case, "queries"), size(case, "items"));
        let rankings = s.rankings();
        for (k, expected) in [1, 2, 5].into_iter().zip(case["hubs"].as_array().expect("a list")) {
            let counts = k_occurrences(rankings.iter().map(Vec::as_slice), s.items, k);
            let hubs = Hubness::of(&counts).expect("items are neighbours");
            let Hubness { skewness, robin_hood, gini, antihub_rate, hub_rate, hub_occurrence, largest } = hubs;
            let largest = f64::from(u32::try_from(largest).expect("few queries"));
            let got = [skewness, robin_hood, gini, antihub_rate, hub_rate, hub_occurrence, largest];
            assert_close(&got, expected, &format!("{} {k}", case["name"]));
        }
    }
}

#[test]
fn recalls_and_precisions_equal_those_of_trec_eval_and_ranx() {
    for (number, case) in (1u32..).zip(golden()["cases"].as_array().expect("a list")) {
        let (n, m) = (size(case, "queries"), size(case, "items"));
        let rankings = golden_scores(case, 1000 * number, n, m).rankings();
        let matches = |q: usize, i: usize| if n <= m { i * n / m == q } else { q * m / n == i };
        let hits: Vec<Vec<bool>> = (0..n).map(|q| rankings[q].iter().map(|&i| matches(q, i)).collect()).collect();
        let relevant = |hits: &[bool]| hits.iter().filter(|&&hit| hit).count();
        let values = |measure: &dyn Fn(&[bool], usize) -> Option<f64>| -> Vec<f64> {
            hits.iter().map(|hits| measure(hits, relevant(hits)).expect("every query has a match")).collect()
        };
        let success = |k: usize| values(&move |hits, _| Some(f64::from(u8::from(hits.iter().take(k).any(|&hit| hit)))));
        for (name, got) in [
            ("success_1", success(1)),
            ("success_5", success(5)),
            ("success_10", success(10)),
            ("recall_5", values(&|hits, relevant| set_recall(hits, relevant, 5))),
            ("Rprec", values(&r_precision)),
            ("map_at_r", values(&average_precision_at_r)),
            ("recip_rank", values(&|hits, _| hits.iter().position(|&hit| hit).map(reciprocal_rank))),
        ] {
            assert_close(&got, &case["retrieval"][name], name);
        }
    }
}

#[test]
fn intervals_and_p_values_equal_those_of_numpy() {
    let values = [7, 8, 9].map(|seed| -> Vec<f64> {
        stream(seed, 60).into_iter().map(|random| (random * 2.0).floor() * 100.0).collect()
    });
    let by_image: Vec<usize> = (0..60).map(|query| query / 5).collect();
    let spread: Vec<usize> = (0..60).map(|query| query % 12).collect();
    let groups = [&by_image, &by_image, &spread];
    let measures: Vec<QueryValues<'_>> =
        values.iter().zip(groups).map(|(values, groups)| QueryValues { values, groups }).collect();
    let expected = &golden()["resampling"];
    let interval = |(low, high): (f64, f64)| [low, high];
    let one = bootstrap_interval(&measures[..1], 12, 200, 0.95, 3).expect("there are queries");
    assert_close(&interval(one), &expected["one"], "one");
    let three = bootstrap_interval(&measures, 12, 300, 0.9, 4).expect("there are queries");
    assert_close(&interval(three), &expected["three"], "three");
    let p = [(0, 1, &by_image), (1, 2, &spread)].map(|(one, other, groups)| {
        randomisation_test(&values[one], &values[other], groups, 4096, 1).expect("there are queries")
    });
    assert_close(&p, &expected["randomisation"], "randomisation");
}
