//! Corrections against the definitions, on random scores with many ties, and their identities.

use std::sync::Arc;

use super::csls::Csls;
use super::db_norm::{db_norm, dual_dynamic_inverted_softmax, dual_inverted_softmax};
use super::dis_sim_local::{dis_sim_local, dis_sim_local_correction, squared_distance_to_centroid};
use super::distance::{Distance, DistanceForm, DistanceScaling};
use super::distribution_normalisation::{DistributionNormalisation, distribution_normalisation};
use super::dual_softmax::DualSoftmax;
use super::inverted_softmax::{InvertedSoftmax, NormalisationSet, inverted_softmax};
use super::local_scaling::LocalScaling;
use super::method::{
    Correction, DenseScores, PerQueryCorrection, ScoreStatistics, ShiftCorrection, Statistic, StatisticalMethod,
    activation_set,
};
use super::mutual_proximity::{EmpiricalMutualProximity, GaussianMutualProximity, SortedScores, empirical_proximity};
use super::nicdm::Nicdm;
use super::nnn::Nnn;
use super::qb_norm::{qb_norm, qb_norm_correction};
use super::relaxed_greedy::{CapacityRule, GreedyRelaxation};
use super::sinkhorn::{dual_bank_correction, dual_bank_sinkhorn, sinkhorn};
use super::testing::{corrected_scores, item_statistics, random_scores, statistical_correction, to_f32};
use crate::identity::IdentityWriter;
use crate::random::Rng;

/// Asserts that `values` decrease along the rankings by `by`, up to rounding.
fn assert_decreasing(by: &DenseScores, values: &DenseScores, tolerance: f64, method: &str) {
    for (query, items) in by.rankings().into_iter().enumerate() {
        for pair in items.windows(2) {
            let (first, second) = (values.at(query, pair[0]), values.at(query, pair[1]));
            let slack = tolerance * first.abs().max(second.abs()).max(1.0);
            assert!(first >= second - slack, "{method}: query {query}, items {pair:?}: {first} {second}");
        }
    }
}

/// Asserts that a correction and the definition (higher is closer) give the same rankings, in f64 and in f32, and that
/// row shifts are the difference of corrected and original scores.
fn assert_same_rankings(correction: &dyn Correction, scores: &DenseScores, definition: &DenseScores, method: &str) {
    let pairs = corrected_scores(correction, scores);
    assert_decreasing(&pairs, definition, 1e-12, method);
    assert_decreasing(definition, &pairs, 1e-12, method);
    let mut rows = Vec::new();
    for query in 0..scores.queries {
        let mut row = to_f32(scores.row(query));
        correction.correct_row(query, &mut row);
        rows.extend(row.into_iter().map(f64::from));
        let Some(shift) = correction.row_shifts(query) else { continue };
        let off = |item: usize| scores.at(query, item) - pairs.at(query, item) - shift.get(item).unwrap_or(&0.0);
        assert!((0..scores.items).all(|item| (off(item) - off(0)).abs() < 1e-12), "{method}");
    }
    assert_decreasing(&DenseScores { values: rows, ..*scores }, &pairs, 2e-6, method);
}

fn map_values(matrix: &DenseScores, function: impl Fn(f64) -> f64) -> DenseScores {
    DenseScores::from_fn(matrix.queries, matrix.items, |q, i| function(matrix.at(q, i)))
}

/// Asserts that comparable scores equal the definition.
#[expect(clippy::cast_possible_truncation, reason = "the scores are f32")]
fn assert_comparable_scores(correction: &dyn Correction, scores: &DenseScores, expected: &DenseScores) {
    let across = |q: usize, i: usize| correction.comparable_score(q, i, scores.at(q, i) as f32);
    for (got, expected) in
        DenseScores::from_fn(scores.queries, scores.items, across).values.iter().zip(&expected.values)
    {
        assert!((got - expected).abs() < 1e-11 * expected.abs().max(1.0), "{got} and {expected}");
    }
}

#[test]
fn methods_of_statistics_rank_as_their_definitions() {
    let mut rng = Rng::new(1, &[]);
    for round in 0..60 {
        let (queries, items) = (2 + rng.uniform_below(12), 1 + rng.uniform_below(15));
        let grid = [4, 64, 4096][round % 3];
        let s = random_scores(&mut rng, queries, items, grid);
        let other = random_scores(&mut rng, 3 + round % 5, items, grid);
        assert_same_rankings(&ShiftCorrection::new(Vec::new(), Vec::new()), &s, &s, "nearest neighbour");
        for bank in [false, true] {
            let k = 1 + rng.uniform_below(6);
            let others = if bank { &other } else { &s };
            // These methods ignore the distance, so it may differ.
            let corrected = |method: &dyn StatisticalMethod| {
                let definition = method.definition(&s, others, Distance::Order);
                (statistical_correction(method, &s, others, Distance::Cosine), definition)
            };
            let (softmax_correction, without_own) = corrected(&InvertedSoftmax { beta: 5.0, query_bank: bank });
            let with_own = inverted_softmax(&s, bank.then_some(others), 5.0, NormalisationSet::AllQueries);
            assert_same_rankings(&*softmax_correction, &s, &with_own, "inverted softmax");
            assert_same_rankings(&*softmax_correction, &s, &without_own, "its own query excluded");
            assert_comparable_scores(&*softmax_correction, &s, &map_values(&with_own, |log| log / 5.0));

            let (csls_correction, expected) = corrected(&Csls { k, query_bank: bank, ..Csls::default() });
            assert_same_rankings(&*csls_correction, &s, &expected, "csls");
            assert_comparable_scores(&*csls_correction, &s, &map_values(&expected, |value| value / 2.0));

            let (nnn_correction, expected) = corrected(&Nnn { alpha: 0.75, k });
            assert_same_rankings(&*nnn_correction, &s, &expected, "nnn");
            assert_comparable_scores(&*nnn_correction, &s, &expected);

            let (means_correction, expected) = corrected(&DistributionNormalisation { lambda: 0.5 });
            assert_same_rankings(&*means_correction, &s, &expected, "distribution normalisation");

            let (gaussian_correction, expected) = corrected(&GaussianMutualProximity { query_bank: bank });
            if expected.values.iter().all(|value| value.is_finite()) {
                assert_same_rankings(&*gaussian_correction, &s, &expected, "mutual proximity");
                assert_comparable_scores(&*gaussian_correction, &s, &expected);
            }
            methods_of_distances_rank_as_their_definitions(&s, others, k, bank);
        }
        let method = DualSoftmax { beta: 20.0 };
        // The logarithm distinguishes tiny products.
        let logs = map_values(&method.definition(&s, &s, Distance::Cosine), |value| {
            if value == 0.0 { 0.0 } else { value.signum() / (100.0 - value.abs().ln()) }
        });
        assert_same_rankings(&*statistical_correction(&method, &s, &s, Distance::Cosine), &s, &logs, "dual softmax");
    }
}

fn methods_of_distances_rank_as_their_definitions(s: &DenseScores, others: &DenseScores, k: usize, bank: bool) {
    let below = |matrix: &DenseScores| map_values(matrix, |value| value - 1.0);
    for (distance, s, others) in [
        (Distance::Cosine, s, others),
        (Distance::Order, &below(s), &below(others)),
        (Distance::OneMinusScore, s, others),
    ] {
        let corrected = |method: &dyn StatisticalMethod| {
            assert!(method.required_statistics().needs_distances);
            (statistical_correction(method, s, others, distance), method.definition(s, others, distance))
        };
        let (scaling_correction, expected) = corrected(&LocalScaling { k, query_bank: bank });
        // Values up to e⁻⁷⁴⁵ underflow to 0 in the definition, so it does not rank them.
        if expected.values.iter().all(|&value| value > 0.0) {
            assert_same_rankings(&*scaling_correction, s, &map_values(&expected, f64::ln), "local scaling");
            assert_comparable_scores(&*scaling_correction, s, &map_values(&expected, f64::ln));
        }
        let (nicdm_correction, expected) = corrected(&Nicdm { k, query_bank: bank });
        assert_same_rankings(&*nicdm_correction, s, &expected, "nicdm");
        assert_comparable_scores(&*nicdm_correction, s, &expected);
    }
}

/// With differences of β·s of 2,000, exponentials are 0 or ∞, but corrections still distinguish scores.
#[test]
fn large_temperatures_neither_overflow_nor_tie() {
    let s = DenseScores { queries: 2, items: 3, values: vec![1.0, -1.0, 0.5, 0.25, 0.5, -0.5] };
    let softmax = InvertedSoftmax { beta: 1000.0, query_bank: false };
    for method in [&DualSoftmax { beta: 1000.0 } as &dyn StatisticalMethod, &softmax] {
        let corrected = corrected_scores(&*statistical_correction(method, &s, &s, Distance::Cosine), &s);
        assert!(corrected.values.iter().all(|value| value.is_finite()));
        assert_eq!(corrected.rankings(), [[0, 2, 1], [1, 0, 2]]);
    }
    // With a single query the softmax is 1, so corrected scores equal the scores.
    let corrected =
        |beta, s| corrected_scores(&*statistical_correction(&DualSoftmax { beta }, s, s, Distance::Cosine), s);
    let s = DenseScores { queries: 1, items: 4, values: vec![-3.0, -2.5, -0.5, -1.5] };
    assert_eq!(corrected(7.0, &s).rankings(), [[2, 3, 1, 0]]);
    // Negative products are ranked by ascending absolute value: −1·e⁻¹⁵⁰⁰, then −0.5·e⁻¹⁰⁰⁰, then −0.5.
    let s = DenseScores { queries: 2, items: 3, values: vec![-0.5, -1.0, -0.5, 0.5, 0.5, -0.75] };
    assert_eq!(corrected(1000.0, &s).rankings()[0], [1, 0, 2]);
}

/// The mean of CSLS includes the query itself. Here query 0 ranks item 0 first; without the query it would rank item 1
/// first.
#[test]
fn csls_includes_the_query_itself() {
    let s = DenseScores { queries: 2, items: 2, values: vec![0.5, 0.46875, 0.25, 0.0] };
    let csls = Csls { k: 1, ..Csls::default() };
    assert_eq!(csls.definition(&s, &s, Distance::Cosine).rankings()[0], [0, 1]);
    let without = |item: usize| 2.0 * s.at(0, item) - s.at(1, item);
    assert!(without(1) > without(0));
}

#[test]
fn methods_of_banks_rank_as_their_definitions() {
    let mut rng = Rng::new(2, &[]);
    for round in 0..60 {
        let (queries, items) = (1 + rng.uniform_below(12), 1 + rng.uniform_below(15));
        let s = random_scores(&mut rng, queries, items, [4, 64, 4096][round % 3]);
        let banks =
            [random_scores(&mut rng, 1 + round % 5, items, 64), random_scores(&mut rng, 1 + round % 4, items, 64)];
        let k = 1 + rng.uniform_below(3);
        let activated = |bank: &DenseScores| {
            let lists = bank.rankings();
            activation_set(lists.iter().map(|list| &list[..k.min(list.len())]), items)
        };
        let activated = [activated(&banks[0]), activated(&banks[1])];
        let nearest: Vec<usize> = s.rankings().iter().map(|items| items[0]).collect();

        let log_sums =
            |bank: &DenseScores, beta: f64| item_statistics(bank, &[Statistic::LogSumExp { beta }]).remove(0);
        let correction = qb_norm_correction(20.0, &log_sums(&banks[0], 20.0), &activated[0], &nearest);
        assert_same_rankings(&correction, &s, &qb_norm(&s, &banks[0], 20.0, k), "qb-norm");

        let betas = [1.0 / 1.99, 3.0];
        let (first, second) = (log_sums(&banks[0], betas[0]), log_sums(&banks[1], betas[1]));
        let both = [&banks[0], &banks[1]];
        assert_same_rankings(
            &dual_inverted_softmax(betas, [&first, &second]),
            &s,
            &db_norm(&s, both, betas, None),
            "DualIS",
        );
        let correction =
            dual_dynamic_inverted_softmax(betas, [&first, &second], [&activated[0], &activated[1]], &nearest);
        assert_same_rankings(&correction, &s, &db_norm(&s, both, betas, Some(k)), "DualDIS");

        let query_scores = random_scores(&mut rng, queries, 7, 64);
        let rising = |mut list: Vec<f32>| {
            list.sort_unstable_by(f32::total_cmp);
            list
        };
        let column_lists = (0..items).map(|item| rising(to_f32(banks[0].column(item)))).collect();
        let row_lists = (0..queries).map(|query| rising(to_f32(query_scores.row(query)))).collect();
        let correction = EmpiricalMutualProximity::new(
            Arc::new(SortedScores::new(column_lists)),
            Arc::new(SortedScores::new(row_lists)),
        );
        let expected = empirical_proximity(&s, &banks[0], &query_scores);
        assert_same_rankings(&correction, &s, &expected, "empirical proximity");
        assert_comparable_scores(&correction, &s, &expected);
    }
}

#[test]
fn methods_on_vectors_rank_as_their_definitions() {
    let mut rng = Rng::new(3, &[]);
    for _ in 0..40 {
        let (queries, items, width) = (2 + rng.uniform_below(8), 4 + rng.uniform_below(9), 6);
        let mut unit = |rows: usize| -> Vec<f32> {
            let rows: Vec<Vec<f64>> = (0..rows).map(|_| (0..width).map(|_| rng.uniform() - 0.4).collect()).collect();
            let norm = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
            rows.iter().flat_map(|row| to_f32(row.iter().map(|x| x / norm(row)))).collect()
        };
        let (q, i) = (unit(queries), unit(items));
        let wide = |rows: &[f32]| rows.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
        let row = |rows: &'_ [f32], at: usize| rows[at * width..][..width].to_vec();
        let s = map_values(&DenseScores::from_fn(queries, items, |a, b| dot(&row(&q, a), &row(&i, b))), |x| {
            f64::from(to_f32([x].into_iter())[0])
        });

        let correction = statistical_correction(&DistributionNormalisation { lambda: 0.5 }, &s, &s, Distance::Cosine);
        let expected = distribution_normalisation(&wide(&q), &wide(&i), width, 0.5);
        // Scores are rounded to f32, those of the definition are not.
        assert_decreasing(&corrected_scores(&*correction, &s), &expected, 5e-7, "distribution normalisation");
        let k = 3;
        let near = |rows: &[f32], at: usize, but: Option<usize>| -> f64 {
            let vector = row(rows, at);
            let mut others: Vec<usize> = (0..items).filter(|&other| Some(other) != but).collect();
            others.sort_by(|&a, &b| dot(&vector, &row(&i, b)).total_cmp(&dot(&vector, &row(&i, a))));
            let others: Vec<Vec<f32>> = others[..k].iter().map(|&other| row(&i, other)).collect();
            squared_distance_to_centroid(&vector, others.iter().map(Vec::as_slice))
        };
        let items_off: Vec<f64> = (0..items).map(|item| near(&i, item, Some(item))).collect();
        let queries_off: Vec<f64> = (0..queries).map(|query| near(&q, query, None)).collect();
        let correction = dis_sim_local_correction(&items_off, &queries_off);
        let expected = map_values(&dis_sim_local(&wide(&q), &wide(&i), width, k), |d| -d);
        assert_decreasing(&corrected_scores(&correction, &s), &expected, 1e-6, "DisSimLocal");
        // d' = 2 − 2·(s − h − g).
        for (query, item) in (0..queries).flat_map(|query| (0..items).map(move |item| (query, item))) {
            let got = 2.0 * correction.comparable_score(query, item, to_f32([s.at(query, item)].into_iter())[0]) - 2.0;
            assert!((got - expected.at(query, item)).abs() < 1e-6, "{got} and {}", expected.at(query, item));
        }
    }
    assert_eq!(squared_distance_to_centroid(&[1.0, 2.0], []), 0.0);
}

#[test]
fn sinkhorn_columns_have_equal_sums() {
    let mut rng = Rng::new(4, &[]);
    for round in 0..20 {
        let (queries, items) = (1 + rng.uniform_below(20), 1 + rng.uniform_below(30));
        let s = random_scores(&mut rng, queries, items, 512);
        let (tau, iterations) = ([0.01, 0.1][round % 2], 1 + round % 5);
        let (h, g) = sinkhorn(&s, tau, iterations);
        let correction = ShiftCorrection::new(h.clone(), g.clone());
        assert_same_rankings(
            &correction,
            &s,
            &DenseScores::from_fn(queries, items, |q, i| s.at(q, i) - h[i]),
            "sinkhorn",
        );
        // Columns were scaled last, so their sums are exact.
        for (item, h) in h.iter().enumerate() {
            let sum: f64 = (0..queries).map(|q| ((s.at(q, item) - h - g[q]) / tau).exp()).sum();
            let share = 1.0 / f64::from(u32::try_from(items).expect("few items"));
            assert!((sum - share).abs() < 1e-9, "{sum} and {share}");
        }
        let bank = random_scores(&mut rng, queries, 4, 512);
        let bank_shifts = dual_bank_sinkhorn(&s, &bank, tau, iterations);
        assert_eq!(bank_shifts.len(), items);
        let shift = dual_bank_correction(&[bank_shifts.as_slice(), &[9.0; 4]].concat(), items);
        assert_eq!(shift, ShiftCorrection::new(bank_shifts, Vec::new()));
    }
}

#[test]
fn parameters_are_checked() {
    let names =
        |problems: super::method::ParameterProblems| problems.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(InvertedSoftmax { beta: f64::INFINITY, query_bank: true }.problems()), ["beta"]);
    assert_eq!(names(DualSoftmax { beta: 0.0 }.problems()), ["beta"]);
    assert_eq!(names(Csls { k: 0, ..Csls::default() }.problems()), ["k"]);
    assert_eq!(names(Nnn { alpha: f64::NAN, k: 0 }.problems()), ["alpha", "k"]);
    assert_eq!(names(DistributionNormalisation { lambda: -0.5 }.problems()), ["lambda"]);
    assert_eq!(names(LocalScaling { k: 0, query_bank: true }.problems()), ["k"]);
    assert_eq!(names(Nicdm { k: 0, query_bank: false }.problems()), ["k"]);
    for (lambda, wrong) in [(0.99, true), (f64::NAN, true), (1.0, false), (f64::INFINITY, false)] {
        assert_eq!(GreedyRelaxation { lambda, capacity: CapacityRule::Scaled }.problems().is_empty(), !wrong);
    }
}

fn identity(correction: &dyn Correction) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sink = |piece: &[u8]| bytes.extend_from_slice(piece);
    correction.identity(&mut IdentityWriter::new(&mut sink));
    bytes
}

#[test]
fn corrections_that_differ_in_one_number_have_different_identities() {
    let shift = |items: &[f64], queries: &[f64]| ShiftCorrection::new(items.to_vec(), queries.to_vec());
    let shifted = |items: &[f64], queries: &[f64]| Box::new(shift(items, queries)) as Box<dyn Correction>;
    let dynamic = |query_scores: &[usize]| {
        let choices = vec![shift(&[1.0, 2.0], &[]), shift(&[], &[])];
        Box::new(PerQueryCorrection::new(choices, query_scores.to_vec())) as Box<dyn Correction>
    };
    let scaled = |distance, measured, items: &[f64], queries: &[f64]| {
        Box::new(DistanceScaling::new(distance, measured, [items.to_vec(), queries.to_vec()])) as Box<dyn Correction>
    };
    let lists = |lists: &[&[f32]]| Arc::new(SortedScores::new(lists.iter().map(|list| list.to_vec()).collect()));
    let proximity = |items: &[&[f32]], queries: &[&[f32]]| {
        Box::new(EmpiricalMutualProximity::new(lists(items), lists(queries))) as Box<dyn Correction>
    };
    let statistics = |items: &[Vec<f64>], queries: &[Vec<f64>]| ScoreStatistics {
        items: items.to_vec(),
        queries: queries.to_vec(),
        distance: Distance::Cosine,
    };
    let softmax = |beta: f64, sums: &[f64]| DualSoftmax { beta }.correction(&statistics(&[sums.to_vec()], &[]));
    let gaussians = |items: [f64; 2], queries: [f64; 2]| {
        let both = |numbers: [f64; 2]| numbers.map(|number| vec![number]);
        GaussianMutualProximity { query_bank: false }.correction(&statistics(&both(items), &both(queries)))
    };
    let all = [
        shifted(&[1.0, 2.0], &[]),
        shifted(&[], &[1.0, 2.0]),
        shifted(&[1.0], &[2.0]),
        shifted(&[1.0, 2.0], &[0.0]),
        shifted(&[1.0, 2.0], &[-0.0]),
        shifted(&[1.0, 2.0f64.next_up()], &[]),
        dynamic(&[0, 1]),
        dynamic(&[1, 0]),
        dynamic(&[]),
        scaled(Distance::Cosine, DistanceForm::Squared, &[1.0, 2.0], &[]),
        scaled(Distance::Cosine, DistanceForm::Affine, &[1.0, 2.0], &[]),
        scaled(Distance::Order, DistanceForm::Affine, &[1.0, 2.0], &[]),
        scaled(Distance::Order, DistanceForm::Squared, &[1.0, 2.0], &[]),
        scaled(Distance::Order, DistanceForm::Squared, &[1.0], &[2.0]),
        scaled(Distance::OneMinusScore, DistanceForm::Affine, &[1.0, 2.0], &[]),
        scaled(Distance::OneMinusScore, DistanceForm::Squared, &[1.0, 2.0], &[]),
        softmax(1.0, &[2.0]),
        softmax(2.0, &[1.0]),
        gaussians([1.0, 2.0], [3.0, 4.0]),
        gaussians([2.0, 1.0], [3.0, 4.0]),
        gaussians([3.0, 4.0], [1.0, 2.0]),
        proximity(&[&[1.0, 2.0]], &[&[3.0]]),
        proximity(&[&[1.0], &[2.0]], &[&[3.0]]),
        proximity(&[&[3.0]], &[&[1.0, 2.0]]),
        proximity(&[&[-0.0]], &[&[1.0, 2.0]]),
        proximity(&[&[0.0]], &[&[1.0, 2.0]]),
    ];
    let identities: Vec<Vec<u8>> = all.iter().map(|correction| identity(correction.as_ref())).collect();
    for (number, one) in identities.iter().enumerate() {
        assert!(!identities[..number].contains(one), "{:?}", all[number]);
    }
    assert_eq!(identity(&shift(&[1.0, 2.0], &[])), identities[0]);
}
