//! Searches against plain definitions on whole matrices, whatever computes the scores and however they are cut.

use super::scan::Forced;
use super::testing::{Failing, Fault, Kind, SCORINGS, Square, all, by_libtorch, plain, values};
use super::{Answer, Ask, Positives, Precision, ScoreTable, Scores, Scoring, Search, VectorScores, Vectors};
use crate::error::Error;
use crate::kernels::dot::dot;
use crate::kernels::hubness::statistic::Statistic;
use crate::kernels::product::{Lanes, vectors};
use crate::kernels::sample::Sample;
use crate::model::products::Libtorch;

/// Sources of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
enum By {
    /// Vectors on the processor.
    Tiles(Precision),
    /// Vectors by libtorch as on a GPU, on the processor.
    Libtorch,
    /// A table of the exact scores.
    Table,
}

/// Different ways to find the same: scores, threads, rows of a block.
const WAYS: [(By, usize, Option<usize>); 12] = [
    (By::Tiles(Precision::Fine), 1, None),
    (By::Tiles(Precision::Fine), 2, Some(1)),
    (By::Tiles(Precision::Fine), 5, Some(12)),
    (By::Tiles(Precision::Coarse), 1, Some(7)),
    (By::Tiles(Precision::Coarse), 2, None),
    (By::Tiles(Precision::Coarse), 3, Some(24)),
    (By::Tiles(Precision::Coarse), 2, Some(1000)),
    (By::Libtorch, 1, None),
    (By::Libtorch, 2, Some(7)),
    (By::Libtorch, 3, None),
    (By::Table, 2, None),
    (By::Table, 3, Some(5)),
];

/// Finds in all ways what the definition finds.
fn check(name: &str, rows: &Vectors<'_>, columns: &Vectors<'_>, scoring: Scoring, asks: [&Ask<'_>; 2]) {
    let scores = all(rows, columns, scoring);
    let wanted = [plain(&scores[0], asks[0]), plain(&scores[1], asks[1])];
    let table = scores[0].concat();
    for (by, threads, block) in WAYS {
        let scores: Box<dyn Scores> = match by {
            By::Tiles(precision) => {
                let vectors = VectorScores::new(rows, columns, scoring, threads).expect("of one width");
                Box::new(vectors.with_coarse(precision == Precision::Coarse))
            }
            By::Libtorch => by_libtorch(rows, columns, scoring),
            By::Table => Box::new(ScoreTable::new("table", &table, [rows.len(), columns.len()]).expect("good")),
        };
        let precision = if let By::Tiles(precision) = by { Some(precision) } else { None };
        let mut search = Search::owning(scores, threads);
        search.forced = Forced { precision, block };
        let got = search.find(asks[0], asks[1], &mut |_, _| Ok(())).expect("possible");
        for side in 0..2 {
            let case = format!("{name} {scoring:?} side {side} {by:?} threads {threads} block {block:?}");
            assert_eq!(got[side].ranks, wanted[side].ranks, "{case}");
            assert_eq!(got[side].top, wanted[side].top, "{case}");
            for (statistic, (got, wanted)) in
                asks[side].statistics.iter().zip(got[side].statistics.iter().zip(&wanted[side].statistics))
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

/// Matches of every query: its number modulo the items, and another one; of some none.
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
    for kind in [Kind::Spread, Kind::Close, Kind::Equal, Kind::Wild] {
        for (n, m, width, k) in
            [(53, 210, 67, 10), (410, 33, 8, 3), (1, 1, 1, 1), (30, 64, 1, 100), (70, 45, 256, 4), (13, 97, 1024, 5)]
        {
            let (a, b) = (values(kind, 1, n, width), values(kind, 2, m, width));
            let rows = Vectors::new("rows", &a, width).expect("good");
            let columns = Vectors::new("columns", &b, width).expect("good");
            let of_rows = matches(n, m);
            let of_columns: Vec<_> = (0..m).map(|j| j % n..(j % n + j % 3).min(n)).collect();
            let asks = [
                Ask { k, positives: Positives::Lists(&of_rows), ..Ask::default() },
                Ask { k: k + 1, positives: Positives::Ranges(&of_columns), ..Ask::default() },
            ];
            for scoring in SCORINGS {
                check(&format!("{kind:?} {n}x{m}x{width}"), &rows, &columns, scoring, [&asks[0], &asks[1]]);
            }
        }
    }
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "test values are small")]
fn corrected_scores_rank_as_the_definition_says() {
    let mut sample = Sample::new(3, &[]);
    for (kind, size) in
        [(Kind::Spread, 0.2), (Kind::Close, 1e-6), (Kind::Equal, 0.5), (Kind::Wild, 1e3), (Kind::Spread, 1e9)]
    {
        let (n, m, width) = (101, 70, 40);
        let (a, b) = (values(kind, 1, n, width), values(kind, 2, m, width));
        let rows = Vectors::new("rows", &a, width).expect("good");
        let columns = Vectors::new("columns", &b, width).expect("good");
        // Some are equal, so that there are ties.
        let mut minus =
            |count: usize| -> Vec<f64> { (0..count).map(|_| size * sample.below(9) as f64 / 8.0).collect() };
        let (h, g) = (minus(m), minus(n));
        let (of_rows, of_columns) = (matches(n, m), matches(m, n));
        let asks = [
            Ask { k: 10, positives: Positives::Lists(&of_rows), minus: &h, ..Ask::default() },
            Ask { k: 10, positives: Positives::Lists(&of_columns), minus: &g, ..Ask::default() },
        ];
        for scoring in SCORINGS {
            check(&format!("{kind:?} less {size}"), &rows, &columns, scoring, [&asks[0], &asks[1]]);
        }
        // One side only.
        check("one side", &rows, &columns, Scoring::Product, [&asks[0], &Ask { k: 1, ..Ask::default() }]);
        check("one side", &rows, &columns, Scoring::Product, [&Ask::default(), &asks[1]]);
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
    for (kind, n, m) in [(Kind::Spread, 500, 70), (Kind::Close, 41, 390), (Kind::Equal, 200, 33), (Kind::Spread, 1, 1)]
    {
        let width = 40;
        let (a, b) = (values(kind, 1, n, width), values(kind, 2, m, width));
        let rows = Vectors::new("rows", &a, width).expect("good");
        let columns = Vectors::new("columns", &b, width).expect("good");
        let asks = [
            Ask { k: 3, statistics: &statistics, ..Ask::default() },
            Ask { statistics: &statistics[1..], ..Ask::default() },
        ];
        for scoring in SCORINGS {
            check(&format!("{kind:?} {n}x{m}"), &rows, &columns, scoring, [&asks[0], &asks[1]]);
        }
        let results: Vec<[Answer; 2]> = [(1, None), (2, Some(1)), (7, Some(24))]
            .map(|(threads, block)| {
                let mut search = Search::of_vectors(&rows, &columns, Scoring::Product, threads).expect("of one width");
                search.forced.block = block;
                search.find(&asks[0], &asks[1], &mut |_, _| Ok(())).expect("possible")
            })
            .into();
        assert!(results.iter().all(|result| *result == results[0]), "{kind:?}");
    }
}

#[test]
fn empty_sides_and_impossible_questions() {
    let some = [1.0, 0.0, 0.6, 0.8];
    let (some, none) = (Vectors::new("some", &some, 2).expect("good"), Vectors::new("none", &[], 2).expect("none"));
    let statistics = [Statistic::LogSumExp { beta: 1.0 }, Statistic::MeanOfLargest { k: 3 }, Statistic::Mean];
    let ask = Ask { k: 3, statistics: &statistics, ..Ask::default() };
    let (nothing, two_nothings) = (vec![], vec![vec![], vec![]]);
    for (rows, columns, positives) in [
        (&some, &none, [&two_nothings, &nothing]),
        (&none, &some, [&nothing, &two_nothings]),
        (&none, &none, [&nothing, &nothing]),
    ] {
        let asks = positives.map(|lists| Ask { positives: Positives::Lists(lists), ..ask });
        check("empty", rows, columns, Scoring::Product, [&asks[0], &asks[1]]);
    }

    let wide = Vectors::new("wide", &[1.0; 3], 3).expect("good");
    let message = Search::of_vectors(&some, &wide, Scoring::Product, 1).expect_err("other widths").to_string();
    assert!(message.contains("width 2") && message.contains("width 3"), "{message}");
    let search = Search::of_vectors(&some, &some, Scoring::Product, 2).expect("of one width");
    let fails = |ask: &Ask<'_>| {
        let error = search.find(&Ask::default(), ask, &mut |_, _| Ok(())).expect_err("impossible");
        error.to_string()
    };
    let (beyond, short) = (vec![vec![0], vec![2]], vec![vec![0]]);
    let positives = |lists| Ask { positives: Positives::Lists(lists), ..Ask::default() };
    assert!(fails(&positives(&beyond)).contains("item 2 matches query 1"));
    assert!(fails(&positives(&short)).contains("positives of 1, wanted 2"));
    assert!(fails(&Ask { minus: &[1.0], ..Ask::default() }).contains("corrections of 1, wanted 2"));
    assert!(fails(&Ask { minus: &[1.0, f64::NAN], ..Ask::default() }).contains("item 1 has correction NaN"));
    let negative = [Statistic::LogSumExp { beta: -1.0 }];
    assert!(fails(&Ask { statistics: &negative, ..Ask::default() }).contains("β = -1"));
    let overflow = [Statistic::LogSumExp { beta: 1e300 }];
    assert!(fails(&Ask { statistics: &overflow, ..Ask::default() }).contains("wanted a number from 0"));
}

#[test]
fn a_search_can_be_stopped_and_tells_how_far_it_is() {
    let values = values(Kind::Spread, 1, 2000, 4);
    let vectors = Vectors::new("vectors", &values, 4).expect("good");
    for threads in [1, 4] {
        let search = Search::of_vectors(&vectors, &vectors, Scoring::Product, threads).expect("of one width");
        let mut told = Vec::new();
        let ask = Ask { k: 1, ..Ask::default() };
        let found = search.find(&ask, &ask, &mut |done, total| {
            told.push(done);
            assert_eq!(total, 2000);
            Ok(())
        });
        assert_eq!(found.expect("possible")[1].top[77][0].item, 77);
        // With others at work this thread may get no second block.
        assert!(told.is_sorted() && told.len() > 3 - threads.min(2) && told.last() == Some(&2000), "{told:?}");
        let stopped = search.find(&ask, &ask, &mut |done, _| {
            if done > 300 { Err(Error::interrupted()) } else { Ok(()) }
        });
        assert_eq!(stopped.expect_err("stopped").to_string(), "interrupted");
    }
}

/// Where bf16 leaves everything in doubt a search turns to f32; no test of a certain way to compute sees that.
#[test]
fn scores_too_close_for_bf16_are_found_as_well() {
    let (n, m, width) = (700, 900, 64);
    let (a, b) = (values(Kind::Close, 1, n, width), values(Kind::Close, 2, m, width));
    let rows = Vectors::new("rows", &a, width).expect("good");
    let columns = Vectors::new("columns", &b, width).expect("good");
    let scores = all(&rows, &columns, Scoring::Product);
    let lists = [matches(n, m), matches(m, n)];
    let asks = lists.each_ref().map(|lists| Ask { k: 10, positives: Positives::Lists(lists), ..Ask::default() });
    let scores_of_both = VectorScores::new(&rows, &columns, Scoring::Product, 2).expect("of one width");
    let found = Search::new(&scores_of_both, 2).find(&asks[0], &asks[1], &mut |_, _| Ok(()));
    assert_eq!(found.expect("possible"), [plain(&scores[0], &asks[0]), plain(&scores[1], &asks[1])]);
    assert_eq!(scores_of_both.is_packed(), [true, vectors(Lanes::Bf16)]);
}

#[test]
fn rows_can_be_corrected_in_any_way() {
    let (n, m, width) = (300, 70, 40);
    let (a, b) = (values(Kind::Spread, 1, n, width), values(Kind::Spread, 2, m, width));
    let rows = Vectors::new("rows", &a, width).expect("good");
    let columns = Vectors::new("columns", &b, width).expect("good");
    let [mut scores, _] = all(&rows, &columns, Scoring::Product);
    scores.iter_mut().flatten().for_each(|score| *score *= *score);
    let lists = matches(n, m);
    let ask = Ask { k: 5, positives: Positives::Lists(&lists), ..Ask::default() };
    let wanted = plain(&scores, &ask);
    let mut first: Option<Answer> = None;
    for (threads, block, libtorch) in
        [(1, None, false), (3, Some(12), false), (2, Some(1), false), (2, None, true), (3, Some(50), true)]
    {
        let mut search = Search::of_vectors(&rows, &columns, Scoring::Product, threads).expect("of one width");
        if libtorch {
            search = Search::owning(by_libtorch(&rows, &columns, Scoring::Product), threads);
        }
        search.forced.block = block;
        let got = search.rank_corrected(5, ask.positives, &Square, &mut |_, _| Ok(())).expect("possible");
        // These vectors have no scores so close to each other that f32 could not tell.
        assert_eq!(got.ranks, wanted.ranks);
        let items = |answer: &Answer| -> Vec<usize> { answer.top.iter().flatten().map(|best| best.item).collect() };
        assert_eq!(items(&got), items(&wanted));
        if !libtorch {
            assert_eq!(*first.get_or_insert(got.clone()), got);
        }
        let numbers = search.map_rows(|row, scores| (row, scores.len()), &mut |_, _| Ok(())).expect("possible");
        assert_eq!(numbers, (0..n).map(|row| (row, m)).collect::<Vec<_>>());
    }
    let none = Vectors::new("none", &[], width).expect("none");
    let search = Search::of_vectors(&rows, &none, Scoring::Product, 2).expect("of one width");
    let got = search.rank_corrected(5, Positives::None, &Square, &mut |_, _| Ok(())).expect("possible");
    assert_eq!(got, Answer { top: vec![vec![]; n], ..Answer::default() });
}

/// Whichever thread it happens on.
#[test]
fn a_failure_to_compute_scores_ends_the_search() {
    let values = values(Kind::Spread, 1, 2000, 4);
    let all = Vectors::new("vectors", &values, 4).expect("good");
    let ask = Ask { k: 1, ..Ask::default() };
    for (threads, row) in [(1, 0), (1, 1999), (3, 0), (3, 300), (3, 1999)] {
        let vectors = || VectorScores::new(&all, &all, Scoring::Product, threads).expect("of one width");
        let message = format!("row {row} is too much");
        for fault in [Fault::Block, Fault::Exact] {
            let failing = Failing(vectors(), row, fault);
            let found = Search::new(&failing, threads).find(&ask, &ask, &mut |_, _| Ok(()));
            assert_eq!(found.expect_err("a failure").to_string(), message);
            // Whole rows are of approximate scores alone.
            let numbers = Search::new(&failing, threads).map_rows(|_, scores| scores.len(), &mut |_, _| Ok(()));
            assert_eq!(numbers.err().map(|error| error.to_string()), (fault == Fault::Block).then(|| message.clone()));
        }
        // A device that is not there, as one that has no memory left.
        let missing = Libtorch::new(tch::Device::Cuda(99), vectors());
        let error = Search::new(&missing, threads).find(&ask, &ask, &mut |_, _| Ok(())).expect_err("no such device");
        assert_eq!(error.kind(), crate::error::Kind::Stage);
        assert!(error.to_string().starts_with("libtorch could not compute scores on Cuda(99): "), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}

#[test]
fn scores_of_unit_vectors_are_cosines() {
    let (a, b) = (values(Kind::Spread, 1, 1, 30), values(Kind::Spread, 2, 1, 30));
    assert_eq!(Scoring::Product.score(&a, &b), dot(&a, &b));
}
