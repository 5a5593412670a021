//! What streams against the definitions, on random scores full of ties.

use std::sync::Arc;

use super::csls::Csls;
use super::db_norm::{db_norm, dual_dis, dual_is};
use super::dis_sim_local::{self, dis_sim_local, to_centre};
use super::distance::Distance;
use super::distribution_normalisation::{DistributionNormalisation, distribution_normalisation};
use super::dual_bank_sinkhorn::{correction as dual_bank_correction, dual_bank_sinkhorn};
use super::dual_softmax::DualSoftmax;
use super::dynamic::activation_set;
use super::empirical_proximity::{EmpiricalProximity, Lists, empirical_proximity};
use super::greedy::{Capacity, RelaxedGreedy};
use super::inverted_softmax::{InvertedSoftmax, Normaliser, inverted_softmax};
use super::local_scaling::LocalScaling;
use super::matrix::Matrix;
use super::method::{Correction, StatisticalMethod, Statistics};
use super::mutual_proximity::MutualProximity;
use super::nicdm::Nicdm;
use super::nnn::Nnn;
use super::qb_norm::{self, qb_norm};
use super::shift::Shift;
use super::sinkhorn::sinkhorn;
use super::statistic::Statistic;
use crate::sample::Sample;

/// Scores that are multiples of 1/`grid` in [−1, 1], each an f32.
pub(super) fn random(sample: &mut Sample, queries: usize, items: usize, grid: u32) -> Matrix {
    let span = 2 * grid as usize + 1;
    let value = |place: usize| f64::from(u32::try_from(place).expect("a small grid")) / f64::from(grid) - 1.0;
    let values = (0..queries * items).map(|_| value(sample.below(span))).collect();
    Matrix { queries, items, values }
}

#[expect(clippy::cast_possible_truncation, reason = "the scores are f32")]
pub(super) fn single(values: impl Iterator<Item = f64>) -> Vec<f32> {
    values.map(|value| value as f32).collect()
}

fn of_items(scores: &Matrix, statistics: &[Statistic]) -> Vec<Vec<f64>> {
    let column = |item: usize| single(scores.column(item)).into_iter();
    statistics.iter().map(|of| (0..scores.items).map(|item| of.of(column(item))).collect()).collect()
}

fn of_queries(scores: &Matrix, statistics: &[Statistic]) -> Vec<Vec<f64>> {
    let row = |query: usize| single(scores.row(query)).into_iter();
    statistics.iter().map(|of| (0..scores.queries).map(|query| of.of(row(query))).collect()).collect()
}

/// The correction of a method, with the statistics that it asks for.
pub(super) fn stream(
    method: &dyn StatisticalMethod,
    scores: &Matrix,
    others: &Matrix,
    distance: Distance,
) -> Box<dyn Correction> {
    assert!(method.problems().is_empty());
    let needs = method.needs();
    let items = of_items(others, &needs.of_items);
    let mut statistics = Statistics { items, queries: of_queries(scores, &needs.of_queries), distance };
    let all = method.correction(&statistics);
    if !needs.queries_change_rankings {
        // Without the statistics of queries rankings are the same.
        statistics.queries = Vec::new();
        let less = method.correction(&statistics);
        assert_eq!(corrected(&*less, scores).rankings(), corrected(&*all, scores).rankings());
    }
    all
}

#[expect(clippy::cast_possible_truncation, reason = "the scores are f32")]
fn corrected(correction: &dyn Correction, scores: &Matrix) -> Matrix {
    Matrix::from_fn(scores.queries, scores.items, |q, i| correction.pair(q, i, scores.at(q, i) as f32))
}

/// Items in the order of `by` fall in `values`, but for rounding.
fn assert_ranked(by: &Matrix, values: &Matrix, tolerance: f64, what: &str) {
    for (query, items) in by.rankings().into_iter().enumerate() {
        for pair in items.windows(2) {
            let (first, second) = (values.at(query, pair[0]), values.at(query, pair[1]));
            let slack = tolerance * first.abs().max(second.abs()).max(1.0);
            assert!(first >= second - slack, "{what}: query {query}, items {pair:?}: {first} {second}");
        }
    }
}

/// What streams and the definition (higher is closer) rank alike, in f64 as in f32, and what is taken off is what it says.
fn assert_same(correction: &dyn Correction, scores: &Matrix, definition: &Matrix, what: &str) {
    let pairs = corrected(correction, scores);
    assert_ranked(&pairs, definition, 1e-12, what);
    assert_ranked(definition, &pairs, 1e-12, what);
    let mut rows = Vec::new();
    for query in 0..scores.queries {
        let mut row = single(scores.row(query));
        correction.row(query, &mut row);
        rows.extend(row.into_iter().map(f64::from));
        let Some(shift) = correction.shift(query) else { continue };
        let off = |item: usize| scores.at(query, item) - pairs.at(query, item) - shift.get(item).unwrap_or(&0.0);
        assert!((0..scores.items).all(|item| (off(item) - off(0)).abs() < 1e-12), "{what}");
    }
    assert_ranked(&Matrix { values: rows, ..*scores }, &pairs, 2e-6, what);
}

fn map(matrix: &Matrix, of: impl Fn(f64) -> f64) -> Matrix {
    Matrix::from_fn(matrix.queries, matrix.items, |q, i| of(matrix.at(q, i)))
}

/// Scores that compare across queries are those of the definition.
#[expect(clippy::cast_possible_truncation, reason = "the scores are f32")]
fn assert_equal(correction: &dyn Correction, scores: &Matrix, wanted: &Matrix) {
    let across = |q: usize, i: usize| correction.across(q, i, scores.at(q, i) as f32);
    for (got, wanted) in Matrix::from_fn(scores.queries, scores.items, across).values.iter().zip(&wanted.values) {
        assert!((got - wanted).abs() < 1e-11 * wanted.abs().max(1.0), "{got} and {wanted}");
    }
}

#[test]
fn methods_of_statistics_rank_as_their_definitions() {
    let mut sample = Sample::new(1, &[]);
    for round in 0..60 {
        let (queries, items) = (2 + sample.below(12), 1 + sample.below(15));
        let grid = [4, 64, 4096][round % 3];
        let s = random(&mut sample, queries, items, grid);
        let other = random(&mut sample, 3 + round % 5, items, grid);
        assert_same(&Shift::new(Vec::new(), Vec::new()), &s, &s, "nearest neighbour");
        for bank in [false, true] {
            let k = 1 + sample.below(6);
            let others = if bank { &other } else { &s };
            // Without a distance of its own: any will do.
            let of = |method: &dyn StatisticalMethod| {
                let definition = method.definition(&s, others, Distance::Order);
                (stream(method, &s, others, Distance::Cosine), definition)
            };
            let (of_softmax, without_own) = of(&InvertedSoftmax { beta: 5.0, bank });
            let with_own = inverted_softmax(&s, bank.then_some(others), 5.0, Normaliser::All);
            assert_same(&*of_softmax, &s, &with_own, "inverted softmax");
            assert_same(&*of_softmax, &s, &without_own, "its own query excluded");
            assert_equal(&*of_softmax, &s, &map(&with_own, |log| log / 5.0));

            let (of_csls, wanted) = of(&Csls { k, bank });
            assert_same(&*of_csls, &s, &wanted, "csls");
            assert_equal(&*of_csls, &s, &map(&wanted, |value| value / 2.0));

            let (of_nnn, wanted) = of(&Nnn { alpha: 0.75, k });
            assert_same(&*of_nnn, &s, &wanted, "nnn");
            assert_equal(&*of_nnn, &s, &wanted);

            let (of_means, wanted) = of(&DistributionNormalisation { lambda: 0.5 });
            assert_same(&*of_means, &s, &wanted, "distribution normalisation");

            let (of_gaussians, wanted) = of(&MutualProximity { bank });
            if wanted.values.iter().all(|value| value.is_finite()) {
                assert_same(&*of_gaussians, &s, &wanted, "mutual proximity");
                assert_equal(&*of_gaussians, &s, &wanted);
            }
            methods_of_distances_rank_as_their_definitions(&s, others, k, bank);
        }
        let method = DualSoftmax { beta: 20.0 };
        // Tiny products are told apart by their logarithms.
        let logs = map(&method.definition(&s, &s, Distance::Cosine), |value| {
            if value == 0.0 { 0.0 } else { value.signum() / (100.0 - value.abs().ln()) }
        });
        assert_same(&*stream(&method, &s, &s, Distance::Cosine), &s, &logs, "dual softmax");
    }
}

fn methods_of_distances_rank_as_their_definitions(s: &Matrix, others: &Matrix, k: usize, bank: bool) {
    let below = |matrix: &Matrix| map(matrix, |value| value - 1.0);
    for (distance, s, others) in [(Distance::Cosine, s, others), (Distance::Order, &below(s), &below(others))] {
        let of = |method: &dyn StatisticalMethod| {
            assert!(method.needs().distances);
            (stream(method, s, others, distance), method.definition(s, others, distance))
        };
        let (of_scaling, wanted) = of(&LocalScaling { k, bank });
        // What is e⁻⁷⁴⁵ or less in the definition is 0, and so far from anything that its order is not asked for.
        if wanted.values.iter().all(|&value| value > 0.0) {
            assert_same(&*of_scaling, s, &map(&wanted, f64::ln), "local scaling");
            assert_equal(&*of_scaling, s, &map(&wanted, f64::ln));
        }
        let (of_nicdm, wanted) = of(&Nicdm { k, bank });
        assert_same(&*of_nicdm, s, &wanted, "nicdm");
        assert_equal(&*of_nicdm, s, &wanted);
    }
}

/// With β·s of 2,000 apart, exponentials are 0 or ∞, and what streams goes on telling scores apart.
#[test]
fn large_temperatures_neither_overflow_nor_tie() {
    let s = Matrix { queries: 2, items: 3, values: vec![1.0, -1.0, 0.5, 0.25, 0.5, -0.5] };
    let softmax = InvertedSoftmax { beta: 1000.0, bank: false };
    for method in [&DualSoftmax { beta: 1000.0 } as &dyn StatisticalMethod, &softmax] {
        let of = corrected(&*stream(method, &s, &s, Distance::Cosine), &s);
        assert!(of.values.iter().all(|value| value.is_finite()));
        assert_eq!(of.rankings(), [[0, 2, 1], [1, 0, 2]]);
    }
    // One query has all of every softmax, so its products are its scores, however large.
    let of = |beta, s| corrected(&*stream(&DualSoftmax { beta }, s, s, Distance::Cosine), s);
    let s = Matrix { queries: 1, items: 4, values: vec![-3.0, -2.5, -0.5, -1.5] };
    assert_eq!(of(7.0, &s).rankings(), [[2, 3, 1, 0]]);
    // A product below 0 with a larger size comes later: −0.5·e⁻¹⁰⁰⁰ after −1·e⁻¹⁵⁰⁰, and both before −0.5.
    let s = Matrix { queries: 2, items: 3, values: vec![-0.5, -1.0, -0.5, 0.5, 0.5, -0.75] };
    assert_eq!(of(1000.0, &s).rankings()[0], [1, 0, 2]);
}

/// Without the query itself CSLS is another method: query 0 has item 0 first, and item 1 if only the other query counts.
#[test]
fn csls_counts_the_own_query() {
    let s = Matrix { queries: 2, items: 2, values: vec![0.5, 0.46875, 0.25, 0.0] };
    let csls = Csls { k: 1, bank: false };
    assert_eq!(csls.definition(&s, &s, Distance::Cosine).rankings()[0], [0, 1]);
    let without = |item: usize| 2.0 * s.at(0, item) - s.at(1, item);
    assert!(without(1) > without(0));
}

#[test]
fn methods_of_banks_rank_as_their_definitions() {
    let mut sample = Sample::new(2, &[]);
    for round in 0..60 {
        let (queries, items) = (1 + sample.below(12), 1 + sample.below(15));
        let s = random(&mut sample, queries, items, [4, 64, 4096][round % 3]);
        let banks = [random(&mut sample, 1 + round % 5, items, 64), random(&mut sample, 1 + round % 4, items, 64)];
        let k = 1 + sample.below(3);
        let activated = |bank: &Matrix| {
            let lists = bank.rankings();
            activation_set(lists.iter().map(|list| &list[..k.min(list.len())]), items)
        };
        let activated = [activated(&banks[0]), activated(&banks[1])];
        let nearest: Vec<usize> = s.rankings().iter().map(|items| items[0]).collect();

        let log_sums = |bank: &Matrix, beta: f64| of_items(bank, &[Statistic::LogSumExp { beta }]).remove(0);
        let of = qb_norm::correction(20.0, &log_sums(&banks[0], 20.0), &activated[0], &nearest);
        assert_same(&of, &s, &qb_norm(&s, &banks[0], 20.0, k), "qb-norm");

        let betas = [1.0 / 1.99, 3.0];
        let (first, second) = (log_sums(&banks[0], betas[0]), log_sums(&banks[1], betas[1]));
        let both = [&banks[0], &banks[1]];
        assert_same(&dual_is(betas, [&first, &second]), &s, &db_norm(&s, both, betas, None), "DualIS");
        let of = dual_dis(betas, [&first, &second], [&activated[0], &activated[1]], &nearest);
        assert_same(&of, &s, &db_norm(&s, both, betas, Some(k)), "DualDIS");

        let of_query = random(&mut sample, queries, 7, 64);
        let rising = |mut list: Vec<f32>| {
            list.sort_unstable_by(f32::total_cmp);
            list
        };
        let of_columns = (0..items).map(|item| rising(single(banks[0].column(item)))).collect();
        let of_rows = (0..queries).map(|query| rising(single(of_query.row(query)))).collect();
        let of = EmpiricalProximity::new(Arc::new(Lists::new(of_columns)), Arc::new(Lists::new(of_rows)));
        let wanted = empirical_proximity(&s, &banks[0], &of_query);
        assert_same(&of, &s, &wanted, "empirical proximity");
        assert_equal(&of, &s, &wanted);
    }
}

#[test]
fn methods_on_vectors_rank_as_their_definitions() {
    let mut sample = Sample::new(3, &[]);
    for _ in 0..40 {
        let (queries, items, width) = (2 + sample.below(8), 4 + sample.below(9), 6);
        let mut unit = |rows: usize| -> Vec<f32> {
            let rows: Vec<Vec<f64>> = (0..rows).map(|_| (0..width).map(|_| sample.unit() - 0.4).collect()).collect();
            let norm = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
            rows.iter().flat_map(|row| single(row.iter().map(|x| x / norm(row)))).collect()
        };
        let (q, i) = (unit(queries), unit(items));
        let wide = |rows: &[f32]| rows.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum::<f64>();
        let row = |rows: &'_ [f32], at: usize| rows[at * width..][..width].to_vec();
        let s = map(&Matrix::from_fn(queries, items, |a, b| dot(&row(&q, a), &row(&i, b))), |x| {
            f64::from(single([x].into_iter())[0])
        });

        let of = stream(&DistributionNormalisation { lambda: 0.5 }, &s, &s, Distance::Cosine);
        let wanted = distribution_normalisation(&wide(&q), &wide(&i), width, 0.5);
        // Scores are rounded to f32, the definition's are not.
        assert_ranked(&corrected(&*of, &s), &wanted, 5e-7, "distribution normalisation");
        let k = 3;
        let near = |rows: &[f32], at: usize, but: Option<usize>| -> f64 {
            let vector = row(rows, at);
            let mut others: Vec<usize> = (0..items).filter(|&other| Some(other) != but).collect();
            others.sort_by(|&a, &b| dot(&vector, &row(&i, b)).total_cmp(&dot(&vector, &row(&i, a))));
            let others: Vec<Vec<f32>> = others[..k].iter().map(|&other| row(&i, other)).collect();
            to_centre(&vector, others.iter().map(Vec::as_slice))
        };
        let items_off: Vec<f64> = (0..items).map(|item| near(&i, item, Some(item))).collect();
        let queries_off: Vec<f64> = (0..queries).map(|query| near(&q, query, None)).collect();
        let of = dis_sim_local::correction(&items_off, &queries_off);
        let wanted = map(&dis_sim_local(&wide(&q), &wide(&i), width, k), |d| -d);
        assert_ranked(&corrected(&of, &s), &wanted, 1e-6, "DisSimLocal");
        // d' = 2 − 2·(s − h − g).
        for (query, item) in (0..queries).flat_map(|query| (0..items).map(move |item| (query, item))) {
            let got = 2.0 * of.across(query, item, single([s.at(query, item)].into_iter())[0]) - 2.0;
            assert!((got - wanted.at(query, item)).abs() < 1e-6, "{got} and {}", wanted.at(query, item));
        }
    }
    assert_eq!(to_centre(&[1.0, 2.0], []), 0.0);
}

#[test]
fn sinkhorn_shares_out_probabilities() {
    let mut sample = Sample::new(4, &[]);
    for round in 0..20 {
        let (queries, items) = (1 + sample.below(20), 1 + sample.below(30));
        let s = random(&mut sample, queries, items, 512);
        let (tau, iterations) = ([0.01, 0.1][round % 2], 1 + round % 5);
        let (h, g) = sinkhorn(&s, tau, iterations);
        let of = Shift::new(h.clone(), g.clone());
        assert_same(&of, &s, &Matrix::from_fn(queries, items, |q, i| s.at(q, i) - h[i]), "sinkhorn");
        // Columns were scaled last, so each has exactly its share.
        for (item, h) in h.iter().enumerate() {
            let sum: f64 = (0..queries).map(|q| ((s.at(q, item) - h - g[q]) / tau).exp()).sum();
            let share = 1.0 / f64::from(u32::try_from(items).expect("few items"));
            assert!((sum - share).abs() < 1e-9, "{sum} and {share}");
        }
        let bank = random(&mut sample, queries, 4, 512);
        let of_both = dual_bank_sinkhorn(&s, &bank, tau, iterations);
        assert_eq!(of_both.len(), items);
        let shift = dual_bank_correction(&[of_both.as_slice(), &[9.0; 4]].concat(), items);
        assert_eq!(shift, Shift::new(of_both, Vec::new()));
    }
}

#[test]
fn free_numbers_are_checked() {
    let of = |problems: super::problems::Problems| problems.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(of(InvertedSoftmax { beta: f64::INFINITY, bank: true }.problems()), ["beta"]);
    assert_eq!(of(DualSoftmax { beta: 0.0 }.problems()), ["beta"]);
    assert_eq!(of(Csls { k: 0, bank: false }.problems()), ["k"]);
    assert_eq!(of(Nnn { alpha: f64::NAN, k: 0 }.problems()), ["alpha", "k"]);
    assert_eq!(of(DistributionNormalisation { lambda: -0.5 }.problems()), ["lambda"]);
    assert_eq!(of(LocalScaling { k: 0, bank: true }.problems()), ["k"]);
    assert_eq!(of(Nicdm { k: 0, bank: false }.problems()), ["k"]);
    for (lambda, wrong) in [(0.99, true), (f64::NAN, true), (1.0, false), (f64::INFINITY, false)] {
        assert_eq!(RelaxedGreedy { lambda, capacity: Capacity::Scaled }.problems().is_empty(), !wrong);
    }
}
