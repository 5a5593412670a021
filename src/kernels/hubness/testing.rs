//! Helpers for tests: random scores, scores of golden cases, corrections with statistics in f64.

use serde_json::Value;

use super::distance::Distance;
use super::method::{Correction, DenseScores, ScoreStatistics, Statistic, StatisticalMethod};
use crate::random::Rng;

/// Scores of a golden case as a matrix.
pub(crate) fn golden_scores(case: &Value, seed: u32, queries: usize, items: usize) -> DenseScores {
    DenseScores::from_fn(queries, items, test_data::hubness::scores(case, seed, queries, items))
}

/// Random scores: multiples of 1/`grid` in [−1, 1], exact in f32.
pub(super) fn random_scores(rng: &mut Rng, queries: usize, items: usize, grid: u32) -> DenseScores {
    let span = 2 * grid as usize + 1;
    let value = |place: usize| f64::from(u32::try_from(place).expect("a small grid")) / f64::from(grid) - 1.0;
    let values = (0..queries * items).map(|_| value(rng.uniform_below(span))).collect();
    DenseScores { queries, items, values }
}

/// Values as f32.
#[expect(clippy::cast_possible_truncation, reason = "the scores are f32")]
pub(super) fn to_f32(values: impl Iterator<Item = f64>) -> Vec<f32> {
    values.map(|value| value as f32).collect()
}

/// Statistics of every item.
pub(super) fn item_statistics(scores: &DenseScores, statistics: &[Statistic]) -> Vec<Vec<f64>> {
    let column = |item: usize| to_f32(scores.column(item)).into_iter();
    statistics.iter().map(|statistic| (0..scores.items).map(|item| statistic.compute(column(item))).collect()).collect()
}

/// Statistics of every query.
fn query_statistics(scores: &DenseScores, statistics: &[Statistic]) -> Vec<Vec<f64>> {
    let row = |query: usize| to_f32(scores.row(query)).into_iter();
    statistics
        .iter()
        .map(|statistic| (0..scores.queries).map(|query| statistic.compute(row(query))).collect())
        .collect()
}

/// Correction of a method, with statistics in f64 of the scores in f32. Checks that statistics of queries do not change
/// rankings unless the method says so.
pub(super) fn statistical_correction(
    method: &dyn StatisticalMethod,
    scores: &DenseScores,
    others: &DenseScores,
    distance: Distance,
) -> Box<dyn Correction> {
    assert!(method.problems().is_empty());
    let needs = method.required_statistics();
    let items = item_statistics(others, &needs.item_statistics);
    let mut statistics =
        ScoreStatistics { items, queries: query_statistics(scores, &needs.query_statistics), distance };
    let all = method.correction(&statistics);
    if !needs.queries_affect_ranking {
        // Rankings are the same without the statistics of queries.
        statistics.queries = Vec::new();
        let less = method.correction(&statistics);
        assert_eq!(corrected_scores(&*less, scores).rankings(), corrected_scores(&*all, scores).rankings());
    }
    all
}

/// Corrected scores of all pairs.
#[expect(clippy::cast_possible_truncation, reason = "the scores are f32")]
pub(super) fn corrected_scores(correction: &dyn Correction, scores: &DenseScores) -> DenseScores {
    DenseScores::from_fn(scores.queries, scores.items, |q, i| correction.corrected_score(q, i, scores.at(q, i) as f32))
}
