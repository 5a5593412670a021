//! Helpers for the tests of searches: random vectors, brute-force search, sources of scores and corrections.

use std::ops::Range;

use super::{
    ConsumePanel, MatrixSide, PanelRow, ScoreBound, ScoreFunction, ScorePrecision, Scores, SearchRequest,
    SearchResults, VectorMatrix, VectorScores,
};
use crate::error::{Error, Result};
use crate::kernels::hubness::method::Correction;
use crate::kernels::identity::IdentityWriter;
use crate::kernels::measure::rank::BestMatchRank;
use crate::kernels::order_similarity::OrderPenalty;
use crate::kernels::random::Rng;
use crate::kernels::top_k::ScoredItem;
use crate::model::libtorch_scores::LibtorchScores;

/// Distribution of test vectors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum VectorDistribution {
    /// Far from each other.
    Spread,
    /// Close to each other, as the embeddings of an untrained model are, and every fourth one twice.
    Close,
    /// All equal.
    Equal,
    /// Vectors of different norms, from 10⁻⁴ to 10⁴.
    Wild,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "test values are small")]
pub(super) fn random_vectors(kind: VectorDistribution, seed: u64, count: usize, width: usize) -> Vec<f32> {
    let mut rng = Rng::new(seed, &[]);
    let mut values: Vec<f32> = Vec::with_capacity(count * width);
    for index in 0..count {
        if kind == VectorDistribution::Close && index % 4 == 3 {
            values.extend_from_within(index / 2 * width..(index / 2 + 1) * width);
            continue;
        }
        let drawn: Vec<f64> = (0..width)
            .map(|k| match kind {
                VectorDistribution::Spread | VectorDistribution::Wild => rng.uniform() - 0.5,
                VectorDistribution::Close => 1.0 + 1e-3 * rng.uniform(),
                VectorDistribution::Equal => 1.0 + (k % 7) as f64,
            })
            .collect();
        let norm = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
        let scale = if kind == VectorDistribution::Wild { 10f64.powf(8.0 * rng.uniform() - 4.0) } else { 1.0 };
        values.extend(drawn.iter().map(|x| (scale * x / norm) as f32));
    }
    values
}

/// Brute-force search by the definition: sorts the scores of each query.
#[expect(clippy::cast_possible_truncation, reason = "a score is given as the nearest f32")]
pub(super) fn brute_force(scores: &[Vec<f32>], request: &SearchRequest<'_>) -> SearchResults {
    let mut results =
        SearchResults { statistics: vec![Vec::new(); request.statistics.len()], ..SearchResults::default() };
    for (query, scores) in scores.iter().enumerate() {
        let ranked = |item: usize| {
            f64::from(scores[item]) - if request.item_shifts.is_empty() { 0.0 } else { request.item_shifts[item] }
        };
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| ranked(b).partial_cmp(&ranked(a)).expect("numbers").then(a.cmp(&b)));
        let top = order.iter().take(request.k).map(|&item| ScoredItem { item, score: ranked(item) as f32 });
        results.top.push(top.collect());
        for (values, statistic) in results.statistics.iter_mut().zip(request.statistics) {
            values.push(statistic.compute(scores.iter().copied()));
        }
        let matches = request.positives.of_query(query);
        let first = order.iter().position(|item| matches.contains(item));
        let rank = first.map(|rank| {
            let best = ranked(order[rank]);
            let above = order.iter().filter(|&&item| ranked(item) > best).count();
            let ties = order.iter().filter(|item| ranked(**item) == best && !matches.contains(item)).count();
            BestMatchRank { rank, optimistic: above, pessimistic: above + ties }
        });
        results.ranks.push(rank);
    }
    if request.positives.n_queries().is_none() {
        results.ranks.clear();
    }
    results
}

/// Scores by row, and by column.
pub(super) fn all_scores(
    rows: &VectorMatrix<'_>,
    columns: &VectorMatrix<'_>,
    scoring: ScoreFunction,
) -> [Vec<Vec<f32>>; 2] {
    let score = |i: usize, j: usize| scoring.score(rows.row(i), columns.row(j));
    [
        (0..rows.len()).map(|i| (0..columns.len()).map(|j| score(i, j)).collect()).collect(),
        (0..columns.len()).map(|j| (0..rows.len()).map(|i| score(i, j)).collect()).collect(),
    ]
}

pub(super) const SCORE_FUNCTIONS: [ScoreFunction; 4] = [
    ScoreFunction::Product,
    ScoreFunction::Order { form: OrderPenalty::Norm, captions: MatrixSide::Columns },
    ScoreFunction::Order { form: OrderPenalty::Norm, captions: MatrixSide::Rows },
    ScoreFunction::Order { form: OrderPenalty::Squared, captions: MatrixSide::Columns },
];

/// Scores of libtorch on the CPU.
pub(super) fn libtorch_scores<'v>(
    rows: &'v VectorMatrix<'v>,
    columns: &'v VectorMatrix<'v>,
    scoring: ScoreFunction,
) -> Box<dyn Scores + 'v> {
    let vectors = VectorScores::new(rows, columns, scoring, 1).expect("of one width");
    Box::new(LibtorchScores::new(tch::Device::Cpu, vectors))
}

/// Correction that squares scores, which is no item shift.
#[derive(Debug)]
pub(super) struct SquareCorrection;

impl Correction for SquareCorrection {
    fn corrected_score(&self, _query: usize, _item: usize, score: f32) -> f64 {
        f64::from(score * score)
    }

    fn correct_row(&self, _query: usize, scores: &mut [f32]) {
        for score in scores {
            *score *= *score;
        }
    }

    fn row_shifts(&self, _query: usize) -> Option<&[f64]> {
        None
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("square");
    }
}

/// Operation at which a source fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum FailurePoint {
    Block,
    Exact,
}

/// Source that fails at one row.
#[derive(Debug)]
pub(super) struct FailingScores<'v>(pub VectorScores<'v>, pub usize, pub FailurePoint);

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
