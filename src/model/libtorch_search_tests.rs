//! Searches over scores of libtorch on the CPU, as on a GPU, in the cases of `search::testing`.

use tch::Device;

use super::device_search::LibtorchScores;
use pairloom_base::error::ErrorCategory;
use pairloom_search::testing::{
    DistinctScores, SCORE_FUNCTIONS, SearchCase, VectorDistribution, empty_cases, random_vectors, rank_cases,
    shift_cases, sinkhorn_cases, square_case, statistic_cases,
};
use pairloom_search::{ScoreFunction, Scores, Search, SearchRequest, VectorMatrix, VectorScores};

fn libtorch_scores<'v>(
    rows: &'v VectorMatrix<'v>,
    columns: &'v VectorMatrix<'v>,
    scoring: ScoreFunction,
) -> Box<dyn Scores + 'v> {
    let vectors = VectorScores::new(rows, columns, scoring, 1).expect("of one width");
    Box::new(LibtorchScores::new(Device::Cpu, vectors))
}

/// Asserts that searches find what brute force finds, for several numbers of threads and rows of a block.
fn check(case: &SearchCase<'_>) {
    for (threads, block) in [(1, None), (2, Some(7)), (3, None)] {
        let scores = libtorch_scores(case.rows, case.columns, case.scoring);
        case.check("libtorch", scores, threads, None, block);
    }
}

#[test]
fn ranks_and_lists_are_those_of_the_definition() {
    rank_cases(&mut check);
}

#[test]
fn ranks_with_item_shifts_are_those_of_the_definition() {
    shift_cases(&mut check);
}

#[test]
fn statistics_are_those_of_the_definition() {
    statistic_cases(&mut check);
}

#[test]
fn empty_sides_work() {
    empty_cases(&mut check);
}

#[test]
fn rows_are_ranked_by_corrected_scores_of_any_form() {
    square_case(&mut |case| {
        for (threads, block) in [(2, None), (3, Some(50))] {
            let scores = libtorch_scores(case.rows, case.columns, ScoreFunction::Product);
            case.check(Search::from_boxed(scores, threads), block);
        }
    });
}

#[test]
fn sinkhorn_potentials_are_those_of_the_definition() {
    sinkhorn_cases(&mut |case| {
        let scores = libtorch_scores(case.rows, case.columns, ScoreFunction::Product);
        case.check(Search::from_boxed(scores, 2), None);
    });
}

#[test]
fn identities_differ_from_those_of_all_other_scores() {
    let mut distinct = DistinctScores::new();
    for scoring in SCORE_FUNCTIONS {
        distinct.all.push(libtorch_scores(distinct.rows, distinct.columns, scoring));
    }
    distinct.check();
}

/// A missing device fails like one that is out of memory.
#[test]
fn a_missing_device_is_an_error_of_the_stage() {
    let values = random_vectors(VectorDistribution::Spread, 1, 2000, 4);
    let all = VectorMatrix::new("vectors", &values, 4).expect("good");
    let request = SearchRequest { k: 1, ..SearchRequest::default() };
    for threads in [1, 3] {
        let vectors = VectorScores::new(&all, &all, ScoreFunction::Product, threads).expect("of one width");
        let missing = LibtorchScores::new(Device::Cuda(99), vectors);
        let error =
            Search::new(&missing, threads).find(&request, &request, &mut |_, _| Ok(())).expect_err("no such device");
        assert_eq!(error.category(), ErrorCategory::Stage);
        assert!(error.to_string().starts_with("libtorch could not compute scores on Cuda(99): "), "{error}");
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}
