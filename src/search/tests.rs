//! Comparison of searches with brute force on whole matrices, for all sources of scores, numbers of threads and block
//! sizes.

use super::scan::ScanOverrides;
use super::testing::{
    FailingScores, FailurePoint, SCORE_FUNCTIONS, SquareCorrection, VectorDistribution, all_scores, brute_force,
    libtorch_scores, random_vectors,
};
use super::{
    Positives, ScoreFunction, ScorePrecision, ScoreTable, Scores, Search, SearchRequest, SearchResults, VectorMatrix,
    VectorScores,
};
use crate::error::Error;
use crate::kernels::dot::dot;
use crate::kernels::hubness::statistic::Statistic;
use crate::kernels::product::{ElementType, has_avx512};
use crate::kernels::random::Rng;
use crate::model::libtorch_scores::LibtorchScores;

/// Source of scores under test.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ScoreBackend {
    /// Vectors on the CPU.
    Tiles(ScorePrecision),
    /// Vectors by libtorch, as on a GPU, but on the CPU.
    Libtorch,
    /// Table of exact scores.
    Table,
}

/// Combinations of source of scores, number of threads and rows of a block.
const BACKENDS: [(ScoreBackend, usize, Option<usize>); 12] = [
    (ScoreBackend::Tiles(ScorePrecision::Fine), 1, None),
    (ScoreBackend::Tiles(ScorePrecision::Fine), 2, Some(1)),
    (ScoreBackend::Tiles(ScorePrecision::Fine), 5, Some(12)),
    (ScoreBackend::Tiles(ScorePrecision::Coarse), 1, Some(7)),
    (ScoreBackend::Tiles(ScorePrecision::Coarse), 2, None),
    (ScoreBackend::Tiles(ScorePrecision::Coarse), 3, Some(24)),
    (ScoreBackend::Tiles(ScorePrecision::Coarse), 2, Some(1000)),
    (ScoreBackend::Libtorch, 1, None),
    (ScoreBackend::Libtorch, 2, Some(7)),
    (ScoreBackend::Libtorch, 3, None),
    (ScoreBackend::Table, 2, None),
    (ScoreBackend::Table, 3, Some(5)),
];

/// Asserts that all combinations find what brute force finds.
fn check_all_backends(
    name: &str,
    rows: &VectorMatrix<'_>,
    columns: &VectorMatrix<'_>,
    scoring: ScoreFunction,
    requests: [&SearchRequest<'_>; 2],
) {
    let scores = all_scores(rows, columns, scoring);
    let wanted = [brute_force(&scores[0], requests[0]), brute_force(&scores[1], requests[1])];
    let table = scores[0].concat();
    for (by, threads, block) in BACKENDS {
        let scores: Box<dyn Scores> = match by {
            ScoreBackend::Tiles(precision) => {
                let vectors = VectorScores::new(rows, columns, scoring, threads).expect("of one width");
                Box::new(vectors.with_coarse(precision == ScorePrecision::Coarse))
            }
            ScoreBackend::Libtorch => libtorch_scores(rows, columns, scoring),
            ScoreBackend::Table => {
                Box::new(ScoreTable::new("table", &table, [rows.len(), columns.len()]).expect("good"))
            }
        };
        let precision = if let ScoreBackend::Tiles(precision) = by { Some(precision) } else { None };
        let mut search = Search::from_boxed(scores, threads);
        search.overrides = ScanOverrides { precision, block_rows: block };
        let got = search.find(requests[0], requests[1], &mut |_, _| Ok(())).expect("possible");
        for side in 0..2 {
            let case = format!("{name} {scoring:?} side {side} {by:?} threads {threads} block {block:?}");
            assert_eq!(got[side].ranks, wanted[side].ranks, "{case}");
            assert_eq!(got[side].top, wanted[side].top, "{case}");
            for (statistic, (got, wanted)) in
                requests[side].statistics.iter().zip(got[side].statistics.iter().zip(&wanted[side].statistics))
            {
                assert_eq!(got.len(), wanted.len(), "{case}");
                for (got, wanted) in got.iter().zip(wanted) {
                    let same = match statistic {
                        Statistic::MeanOfLargest { .. } | Statistic::KthLargest { .. } => {
                            got == wanted || got.is_nan() && wanted.is_nan()
                        }
                        _ => (got - wanted).abs() < 2e-5 || got == wanted || got.is_nan() && wanted.is_nan(),
                    };
                    assert!(same, "{case} {statistic:?}: {got}, wanted {wanted}");
                }
            }
        }
    }
}

/// Two matches for every query, but none for every fifth.
fn matches(queries: usize, items: usize) -> Vec<Vec<usize>> {
    let of = |query: usize| match query % 5 {
        _ if items == 0 => Vec::new(),
        4 => Vec::new(),
        _ => vec![query * 4 % items, (query * 4 + 3) % items],
    };
    (0..queries).map(of).collect()
}

#[test]
fn ranks_and_lists_are_those_of_the_definition() {
    for kind in
        [VectorDistribution::Spread, VectorDistribution::Close, VectorDistribution::Equal, VectorDistribution::Wild]
    {
        for (n, m, width, k) in
            [(53, 210, 67, 10), (410, 33, 8, 3), (1, 1, 1, 1), (30, 64, 1, 100), (70, 45, 256, 4), (13, 97, 1024, 5)]
        {
            let (a, b) = (random_vectors(kind, 1, n, width), random_vectors(kind, 2, m, width));
            let rows = VectorMatrix::new("rows", &a, width).expect("good");
            let columns = VectorMatrix::new("columns", &b, width).expect("good");
            let of_rows = matches(n, m);
            let of_columns: Vec<_> = (0..m).map(|j| j % n..(j % n + j % 3).min(n)).collect();
            let requests = [
                SearchRequest { k, positives: Positives::Lists(&of_rows), ..SearchRequest::default() },
                SearchRequest { k: k + 1, positives: Positives::Ranges(&of_columns), ..SearchRequest::default() },
            ];
            for scoring in SCORE_FUNCTIONS {
                check_all_backends(
                    &format!("{kind:?} {n}x{m}x{width}"),
                    &rows,
                    &columns,
                    scoring,
                    [&requests[0], &requests[1]],
                );
            }
        }
    }
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "test values are small")]
fn ranks_with_item_shifts_are_those_of_the_definition() {
    let mut rng = Rng::new(3, &[]);
    for (kind, size) in [
        (VectorDistribution::Spread, 0.2),
        (VectorDistribution::Close, 1e-6),
        (VectorDistribution::Equal, 0.5),
        (VectorDistribution::Wild, 1e3),
        (VectorDistribution::Spread, 1e9),
    ] {
        let (n, m, width) = (101, 70, 40);
        let (a, b) = (random_vectors(kind, 1, n, width), random_vectors(kind, 2, m, width));
        let rows = VectorMatrix::new("rows", &a, width).expect("good");
        let columns = VectorMatrix::new("columns", &b, width).expect("good");
        // Some shifts are equal, so that there are ties.
        let mut item_shifts =
            |count: usize| -> Vec<f64> { (0..count).map(|_| size * rng.uniform_below(9) as f64 / 8.0).collect() };
        let (h, g) = (item_shifts(m), item_shifts(n));
        let (of_rows, of_columns) = (matches(n, m), matches(m, n));
        let requests = [
            SearchRequest { k: 10, positives: Positives::Lists(&of_rows), item_shifts: &h, ..SearchRequest::default() },
            SearchRequest {
                k: 10,
                positives: Positives::Lists(&of_columns),
                item_shifts: &g,
                ..SearchRequest::default()
            },
        ];
        for scoring in SCORE_FUNCTIONS {
            check_all_backends(
                &format!("{kind:?} less {size}"),
                &rows,
                &columns,
                scoring,
                [&requests[0], &requests[1]],
            );
        }
        // Requests of one side only.
        check_all_backends(
            "one side",
            &rows,
            &columns,
            ScoreFunction::Product,
            [&requests[0], &SearchRequest { k: 1, ..SearchRequest::default() }],
        );
        check_all_backends(
            "one side",
            &rows,
            &columns,
            ScoreFunction::Product,
            [&SearchRequest::default(), &requests[1]],
        );
    }
}

#[test]
fn statistics_are_those_of_the_definition_and_have_the_same_bits_however_they_are_computed() {
    let statistics = [
        Statistic::LogSumExp { beta: 30.0 },
        Statistic::Mean,
        Statistic::MeanOfLargest { k: 10 },
        Statistic::LogSumExp { beta: 0.0 },
        Statistic::KthLargest { k: 7 },
        Statistic::StandardDeviation,
        Statistic::MeanOfLargest { k: 1000 },
    ];
    for (kind, n, m) in [
        (VectorDistribution::Spread, 500, 70),
        (VectorDistribution::Close, 41, 390),
        (VectorDistribution::Equal, 200, 33),
        (VectorDistribution::Spread, 1, 1),
    ] {
        let width = 40;
        let (a, b) = (random_vectors(kind, 1, n, width), random_vectors(kind, 2, m, width));
        let rows = VectorMatrix::new("rows", &a, width).expect("good");
        let columns = VectorMatrix::new("columns", &b, width).expect("good");
        let requests = [
            SearchRequest { k: 3, statistics: &statistics, ..SearchRequest::default() },
            SearchRequest { statistics: &statistics[1..], ..SearchRequest::default() },
        ];
        for scoring in SCORE_FUNCTIONS {
            check_all_backends(&format!("{kind:?} {n}x{m}"), &rows, &columns, scoring, [&requests[0], &requests[1]]);
        }
        let results: Vec<[SearchResults; 2]> = [(1, None), (2, Some(1)), (7, Some(24))]
            .map(|(threads, block)| {
                let mut search =
                    Search::from_vectors(&rows, &columns, ScoreFunction::Product, threads).expect("of one width");
                search.overrides.block_rows = block;
                search.find(&requests[0], &requests[1], &mut |_, _| Ok(())).expect("possible")
            })
            .into();
        assert!(results.iter().all(|result| *result == results[0]), "{kind:?}");
    }
}

#[test]
fn empty_sides_work_and_invalid_requests_are_errors() {
    let some = [1.0, 0.0, 0.6, 0.8];
    let (some, none) =
        (VectorMatrix::new("some", &some, 2).expect("good"), VectorMatrix::new("none", &[], 2).expect("none"));
    let statistics = [Statistic::LogSumExp { beta: 1.0 }, Statistic::MeanOfLargest { k: 3 }, Statistic::Mean];
    let request = SearchRequest { k: 3, statistics: &statistics, ..SearchRequest::default() };
    let (nothing, two_nothings) = (vec![], vec![vec![], vec![]]);
    for (rows, columns, positives) in [
        (&some, &none, [&two_nothings, &nothing]),
        (&none, &some, [&nothing, &two_nothings]),
        (&none, &none, [&nothing, &nothing]),
    ] {
        let requests = positives.map(|lists| SearchRequest { positives: Positives::Lists(lists), ..request });
        check_all_backends("empty", rows, columns, ScoreFunction::Product, [&requests[0], &requests[1]]);
    }

    let wide = VectorMatrix::new("wide", &[1.0; 3], 3).expect("good");
    let message = Search::from_vectors(&some, &wide, ScoreFunction::Product, 1).expect_err("other widths").to_string();
    assert!(message.contains("width 2") && message.contains("width 3"), "{message}");
    let search = Search::from_vectors(&some, &some, ScoreFunction::Product, 2).expect("of one width");
    let fails = |request: &SearchRequest<'_>| {
        let error = search.find(&SearchRequest::default(), request, &mut |_, _| Ok(())).expect_err("impossible");
        error.to_string()
    };
    let (beyond, short) = (vec![vec![0], vec![2]], vec![vec![0]]);
    let positives = |lists| SearchRequest { positives: Positives::Lists(lists), ..SearchRequest::default() };
    assert!(fails(&positives(&beyond)).contains("item 2 matches query 1"));
    assert!(fails(&positives(&short)).contains("1 lists of positives, wanted 2"));
    assert!(
        fails(&SearchRequest { item_shifts: &[1.0], ..SearchRequest::default() }).contains("1 item shifts, wanted 2")
    );
    assert!(
        fails(&SearchRequest { item_shifts: &[1.0, f64::NAN], ..SearchRequest::default() })
            .contains("item 1 has shift NaN")
    );
    let negative = [Statistic::LogSumExp { beta: -1.0 }];
    assert!(fails(&SearchRequest { statistics: &negative, ..SearchRequest::default() }).contains("β = -1"));
    let overflow = [Statistic::LogSumExp { beta: 1e300 }];
    assert!(
        fails(&SearchRequest { statistics: &overflow, ..SearchRequest::default() }).contains("wanted a finite f32")
    );
}

#[test]
fn a_search_reports_progress_and_can_be_stopped() {
    let values = random_vectors(VectorDistribution::Spread, 1, 2000, 4);
    let vectors = VectorMatrix::new("vectors", &values, 4).expect("good");
    for threads in [1, 4] {
        let search = Search::from_vectors(&vectors, &vectors, ScoreFunction::Product, threads).expect("of one width");
        let mut reported = Vec::new();
        let request = SearchRequest { k: 1, ..SearchRequest::default() };
        let found = search.find(&request, &request, &mut |done, total| {
            reported.push(done);
            assert_eq!(total, 2000);
            Ok(())
        });
        assert_eq!(found.expect("possible")[1].top[77][0].item, 77);
        // With other threads at work, this thread may get no second block.
        assert!(
            reported.is_sorted() && reported.len() > 3 - threads.min(2) && reported.last() == Some(&2000),
            "{reported:?}"
        );
        let stopped = search.find(&request, &request, &mut |done, _| {
            if done > 300 { Err(Error::interrupted()) } else { Ok(()) }
        });
        assert_eq!(stopped.expect_err("stopped").to_string(), "interrupted");
    }
}

/// If bf16 leaves all pairs uncertain, a search switches to f32. Tests with a fixed precision do not cover that.
#[test]
fn scores_too_close_for_bf16_are_found_as_well() {
    let (n, m, width) = (700, 900, 64);
    let (a, b) = (
        random_vectors(VectorDistribution::Close, 1, n, width),
        random_vectors(VectorDistribution::Close, 2, m, width),
    );
    let rows = VectorMatrix::new("rows", &a, width).expect("good");
    let columns = VectorMatrix::new("columns", &b, width).expect("good");
    let scores = all_scores(&rows, &columns, ScoreFunction::Product);
    let lists = [matches(n, m), matches(m, n)];
    let requests = lists.each_ref().map(|lists| SearchRequest {
        k: 10,
        positives: Positives::Lists(lists),
        ..SearchRequest::default()
    });
    let scores_of_both = VectorScores::new(&rows, &columns, ScoreFunction::Product, 2).expect("of one width");
    let found = Search::new(&scores_of_both, 2).find(&requests[0], &requests[1], &mut |_, _| Ok(()));
    assert_eq!(
        found.expect("possible"),
        [brute_force(&scores[0], &requests[0]), brute_force(&scores[1], &requests[1])]
    );
    assert_eq!(scores_of_both.is_packed(), [true, has_avx512(ElementType::Bf16)]);
}

#[test]
fn rows_are_ranked_by_corrected_scores_of_any_form() {
    let (n, m, width) = (300, 70, 40);
    let (a, b) = (
        random_vectors(VectorDistribution::Spread, 1, n, width),
        random_vectors(VectorDistribution::Spread, 2, m, width),
    );
    let rows = VectorMatrix::new("rows", &a, width).expect("good");
    let columns = VectorMatrix::new("columns", &b, width).expect("good");
    let [mut scores, _] = all_scores(&rows, &columns, ScoreFunction::Product);
    scores.iter_mut().flatten().for_each(|score| *score *= *score);
    let lists = matches(n, m);
    let request = SearchRequest { k: 5, positives: Positives::Lists(&lists), ..SearchRequest::default() };
    let wanted = brute_force(&scores, &request);
    let mut first: Option<SearchResults> = None;
    for (threads, block, libtorch) in
        [(1, None, false), (3, Some(12), false), (2, Some(1), false), (2, None, true), (3, Some(50), true)]
    {
        let mut search = Search::from_vectors(&rows, &columns, ScoreFunction::Product, threads).expect("of one width");
        if libtorch {
            search = Search::from_boxed(libtorch_scores(&rows, &columns, ScoreFunction::Product), threads);
        }
        search.overrides.block_rows = block;
        let got = search.rank_corrected(5, request.positives, &SquareCorrection, &mut |_, _| Ok(())).expect("possible");
        // No two scores of these vectors are too close for f32.
        assert_eq!(got.ranks, wanted.ranks);
        let items =
            |answer: &SearchResults| -> Vec<usize> { answer.top.iter().flatten().map(|best| best.item).collect() };
        assert_eq!(items(&got), items(&wanted));
        if !libtorch {
            assert_eq!(*first.get_or_insert(got.clone()), got);
        }
        let numbers = search.map_rows(|row, scores| (row, scores.len()), &mut |_, _| Ok(())).expect("possible");
        assert_eq!(numbers, (0..n).map(|row| (row, m)).collect::<Vec<_>>());
    }
    let none = VectorMatrix::new("none", &[], width).expect("none");
    let search = Search::from_vectors(&rows, &none, ScoreFunction::Product, 2).expect("of one width");
    let got = search.rank_corrected(5, Positives::None, &SquareCorrection, &mut |_, _| Ok(())).expect("possible");
    assert_eq!(got, SearchResults { top: vec![vec![]; n], ..SearchResults::default() });
}

/// The failure may happen on any thread.
#[test]
fn a_failure_to_compute_scores_ends_the_search() {
    let values = random_vectors(VectorDistribution::Spread, 1, 2000, 4);
    let all = VectorMatrix::new("vectors", &values, 4).expect("good");
    let request = SearchRequest { k: 1, ..SearchRequest::default() };
    for (threads, row) in [(1, 0), (1, 1999), (3, 0), (3, 300), (3, 1999)] {
        let vectors = || VectorScores::new(&all, &all, ScoreFunction::Product, threads).expect("of one width");
        let message = format!("row {row} is too much");
        for fault in [FailurePoint::Block, FailurePoint::Exact] {
            let failing = FailingScores(vectors(), row, fault);
            let found = Search::new(&failing, threads).find(&request, &request, &mut |_, _| Ok(()));
            assert_eq!(found.expect_err("a failure").to_string(), message);
            // Whole rows need approximate scores only.
            let numbers = Search::new(&failing, threads).map_rows(|_, scores| scores.len(), &mut |_, _| Ok(()));
            assert_eq!(
                numbers.err().map(|error| error.to_string()),
                (fault == FailurePoint::Block).then(|| message.clone())
            );
        }
        // A missing device fails like one that is out of memory.
        let missing = LibtorchScores::new(tch::Device::Cuda(99), vectors());
        let error =
            Search::new(&missing, threads).find(&request, &request, &mut |_, _| Ok(())).expect_err("no such device");
        assert_eq!(error.category(), crate::error::ErrorCategory::Stage);
        assert!(error.to_string().starts_with("libtorch could not compute scores on Cuda(99): "), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn scores_of_unit_vectors_are_cosines() {
    let (a, b) =
        (random_vectors(VectorDistribution::Spread, 1, 1, 30), random_vectors(VectorDistribution::Spread, 2, 1, 30));
    assert_eq!(ScoreFunction::Product.score(&a, &b), dot(&a, &b));
}
