//! Comparison of searches with brute force on whole matrices, for all sources of scores, numbers of threads and block
//! sizes.

use std::ops::Range;

use super::testing::{
    SearchCase, SquareCorrection, VectorDistribution, all_scores, brute_force, empty_cases, matches, random_vectors,
    rank_cases, shift_cases, square_case, statistic_cases,
};
use super::{
    ConsumePanel, MatrixSide, PanelRow, Positives, ScoreBound, ScoreFunction, ScorePrecision, ScoreTable, Scores,
    Search, SearchRequest, SearchResults, VectorMatrix, VectorScores,
};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::distance::dot;
use pairloom_kernels::hubness::method::Statistic;
use pairloom_kernels::identity::IdentityWriter;
use pairloom_kernels::product::{ElementType, has_avx512};

/// Source of scores under test.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ScoreBackend {
    /// Vectors on the CPU.
    Tiles(ScorePrecision),
    /// Table of exact scores.
    Table,
}

/// Combinations of source of scores, number of threads and rows of a block.
const BACKENDS: [(ScoreBackend, usize, Option<usize>); 9] = [
    (ScoreBackend::Tiles(ScorePrecision::Fine), 1, None),
    (ScoreBackend::Tiles(ScorePrecision::Fine), 2, Some(1)),
    (ScoreBackend::Tiles(ScorePrecision::Fine), 5, Some(12)),
    (ScoreBackend::Tiles(ScorePrecision::Coarse), 1, Some(7)),
    (ScoreBackend::Tiles(ScorePrecision::Coarse), 2, None),
    (ScoreBackend::Tiles(ScorePrecision::Coarse), 3, Some(24)),
    (ScoreBackend::Tiles(ScorePrecision::Coarse), 2, Some(1000)),
    (ScoreBackend::Table, 2, None),
    (ScoreBackend::Table, 3, Some(5)),
];

/// Asserts that all combinations find what brute force finds.
fn check_all_backends(case: &SearchCase<'_>) {
    for (by, threads, block) in BACKENDS {
        let (scores, precision): (Box<dyn Scores>, _) = match by {
            ScoreBackend::Tiles(precision) => {
                let vectors = VectorScores::new(case.rows, case.columns, case.scoring, threads).expect("of one width");
                (Box::new(vectors.with_coarse(precision == ScorePrecision::Coarse)), Some(precision))
            }
            ScoreBackend::Table => {
                let shape = [case.rows.len(), case.columns.len()];
                (Box::new(ScoreTable::new("table", &case.scores, shape).expect("good")), None)
            }
        };
        case.check(&format!("{by:?}"), scores, threads, precision, block);
    }
}

#[test]
fn ranks_and_lists_are_those_of_the_definition() {
    rank_cases(&mut check_all_backends);
}

#[test]
fn ranks_with_item_shifts_are_those_of_the_definition() {
    shift_cases(&mut check_all_backends);
}

#[test]
fn statistics_are_those_of_the_definition_and_have_the_same_bits_however_they_are_computed() {
    statistic_cases(&mut |case| {
        check_all_backends(case);
        if case.scoring != ScoreFunction::Product {
            return;
        }
        let results: Vec<[SearchResults; 2]> = [(1, None), (2, Some(1)), (7, Some(24))]
            .map(|(threads, block)| {
                let mut search =
                    Search::from_vectors(case.rows, case.columns, case.scoring, threads).expect("of one width");
                search.overrides.block_rows = block;
                search.find(case.requests[0], case.requests[1], &mut |_, _| Ok(())).expect("possible")
            })
            .into();
        assert!(results.iter().all(|result| *result == results[0]), "{}", case.name);
    });
}

#[test]
fn empty_sides_work_and_invalid_requests_are_errors() {
    empty_cases(&mut check_all_backends);

    let some = [1.0, 0.0, 0.6, 0.8];
    let some = VectorMatrix::new("some", &some, 2).expect("good");
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
    assert!(fails(&positives(&short)).contains("1 lists of positives, expected 2"));
    assert!(
        fails(&SearchRequest { item_shifts: &[1.0], ..SearchRequest::default() }).contains("1 item shifts, expected 2")
    );
    assert!(
        fails(&SearchRequest { item_shifts: &[1.0, f64::NAN], ..SearchRequest::default() })
            .contains("item 1 has shift NaN")
    );
    let negative = [Statistic::LogSumExp { beta: -1.0 }];
    assert!(fails(&SearchRequest { statistics: &negative, ..SearchRequest::default() }).contains("β = -1"));
    let overflow = [Statistic::LogSumExp { beta: 1e300 }];
    assert!(
        fails(&SearchRequest { statistics: &overflow, ..SearchRequest::default() }).contains("expected a finite f32")
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
    square_case(&mut |case| {
        let mut first: Option<SearchResults> = None;
        for (threads, block) in [(1, None), (3, Some(12)), (2, Some(1))] {
            let search = Search::from_vectors(case.rows, case.columns, ScoreFunction::Product, threads);
            let got = case.check(search.expect("of one width"), block);
            assert_eq!(*first.get_or_insert(got.clone()), got);
        }
        let none = VectorMatrix::new("none", &[], case.rows.width()).expect("none");
        let search = Search::from_vectors(case.rows, &none, ScoreFunction::Product, 2).expect("of one width");
        let got = search.rank_corrected(5, Positives::None, &SquareCorrection, &mut |_, _| Ok(())).expect("possible");
        assert_eq!(got, SearchResults { top: vec![vec![]; case.rows.len()], ..SearchResults::default() });
    });
}

/// Operation at which a source fails.
#[derive(Debug, Clone, Copy, PartialEq)]
enum FailurePoint {
    Block,
    Exact,
}

/// Source that fails at one row.
#[derive(Debug)]
struct FailingScores<'v>(pub VectorScores<'v>, pub usize, pub FailurePoint);

impl FailingScores<'_> {
    fn fail(&self, is_there: bool, fault: FailurePoint) -> Result<()> {
        if is_there && self.2 == fault { Err(Error::stage(format!("row {} is too much", self.1))) } else { Ok(()) }
    }
}

impl Scores for FailingScores<'_> {
    fn shape(&self) -> [usize; 2] {
        self.0.shape()
    }

    fn cost(&self) -> u64 {
        1
    }

    fn bounds(&self, precision: ScorePrecision) -> [Vec<ScoreBound>; 2] {
        self.0.bounds(precision)
    }

    fn block_rows(&self, _: ScorePrecision) -> usize {
        100
    }

    fn compute_block(
        &self,
        precision: ScorePrecision,
        rows: Range<usize>,
        to: &mut Vec<PanelRow>,
        consume: ConsumePanel<'_>,
    ) -> Result<()> {
        self.fail(rows.contains(&self.1), FailurePoint::Block)?;
        self.0.compute_block(precision, rows, to, consume)
    }

    fn exact_scores(&self, side: MatrixSide, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        self.fail(side == MatrixSide::Rows && query == self.1, FailurePoint::Exact)?;
        self.0.exact_scores(side, query, items, scores)
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        self.0.identity(fields);
    }
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
    }
}

#[test]
fn scores_of_unit_vectors_are_cosines() {
    let (a, b) =
        (random_vectors(VectorDistribution::Spread, 1, 1, 30), random_vectors(VectorDistribution::Spread, 2, 1, 30));
    assert_eq!(ScoreFunction::Product.score(&a, &b), dot(&a, &b));
}
