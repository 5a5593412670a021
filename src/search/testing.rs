//! Helpers of the tests of searches: vectors, definitions on whole matrices, sources and corrections.

use std::ops::Range;

use super::{Answer, Ask, Bound, Consume, Lane, Precision, Scores, Scoring, Side, VectorScores, Vectors};
use crate::error::{Error, Result};
use crate::kernels::hubness::method::Correction;
use crate::kernels::identity::Fields;
use crate::kernels::measure::rank::Rank;
use crate::kernels::order::Form;
use crate::kernels::sample::Sample;
use crate::kernels::top_k::Scored;
use crate::model::products::Libtorch;

/// How vectors of a test lie.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Far from each other.
    Spread,
    /// Close to each other, as the embeddings of an untrained model are, and every fourth one twice.
    Close,
    /// All the same.
    Equal,
    /// Vectors of different norms, from 10⁻⁴ to 10⁴.
    Wild,
}

#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "test values are small")]
pub(super) fn values(kind: Kind, seed: u64, count: usize, width: usize) -> Vec<f32> {
    let mut sample = Sample::new(seed, &[]);
    let mut values: Vec<f32> = Vec::with_capacity(count * width);
    for index in 0..count {
        if kind == Kind::Close && index % 4 == 3 {
            values.extend_from_within(index / 2 * width..(index / 2 + 1) * width);
            continue;
        }
        let drawn: Vec<f64> = (0..width)
            .map(|k| match kind {
                Kind::Spread | Kind::Wild => sample.unit() - 0.5,
                Kind::Close => 1.0 + 1e-3 * sample.unit(),
                Kind::Equal => 1.0 + (k % 7) as f64,
            })
            .collect();
        let norm = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
        let scale = if kind == Kind::Wild { 10f64.powf(8.0 * sample.unit() - 4.0) } else { 1.0 };
        values.extend(drawn.iter().map(|x| (scale * x / norm) as f32));
    }
    values
}

/// The definition: sorts the scores of each query.
#[expect(clippy::cast_possible_truncation, reason = "a score is given as the nearest f32")]
pub(super) fn plain(scores: &[Vec<f32>], ask: &Ask<'_>) -> Answer {
    let mut answer = Answer { statistics: vec![Vec::new(); ask.statistics.len()], ..Answer::default() };
    for (query, scores) in scores.iter().enumerate() {
        let ranked = |item: usize| f64::from(scores[item]) - if ask.minus.is_empty() { 0.0 } else { ask.minus[item] };
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| ranked(b).partial_cmp(&ranked(a)).expect("numbers").then(a.cmp(&b)));
        let top = order.iter().take(ask.k).map(|&item| Scored { item, score: ranked(item) as f32 });
        answer.top.push(top.collect());
        for (values, statistic) in answer.statistics.iter_mut().zip(ask.statistics) {
            values.push(statistic.of(scores.iter().copied()));
        }
        let matches = ask.positives.of(query);
        let first = order.iter().position(|item| matches.contains(item));
        let rank = first.map(|rank| {
            let best = ranked(order[rank]);
            let above = order.iter().filter(|&&item| ranked(item) > best).count();
            let ties = order.iter().filter(|item| ranked(**item) == best && !matches.contains(item)).count();
            Rank { rank, optimistic: above, pessimistic: above + ties }
        });
        answer.ranks.push(rank);
    }
    if ask.positives.queries().is_none() {
        answer.ranks.clear();
    }
    answer
}

/// Scores of every row, and of every column.
pub(super) fn all(rows: &Vectors<'_>, columns: &Vectors<'_>, scoring: Scoring) -> [Vec<Vec<f32>>; 2] {
    let score = |i: usize, j: usize| scoring.score(rows.row(i), columns.row(j));
    [
        (0..rows.len()).map(|i| (0..columns.len()).map(|j| score(i, j)).collect()).collect(),
        (0..columns.len()).map(|j| (0..rows.len()).map(|i| score(i, j)).collect()).collect(),
    ]
}

pub(super) const SCORINGS: [Scoring; 4] = [
    Scoring::Product,
    Scoring::Order { form: Form::Norm, captions: Side::Columns },
    Scoring::Order { form: Form::Norm, captions: Side::Rows },
    Scoring::Order { form: Form::Squared, captions: Side::Columns },
];

/// Scores of libtorch on the processor.
pub(super) fn by_libtorch<'v>(
    rows: &'v Vectors<'v>,
    columns: &'v Vectors<'v>,
    scoring: Scoring,
) -> Box<dyn Scores + 'v> {
    let vectors = VectorScores::new(rows, columns, scoring, 1).expect("of one width");
    Box::new(Libtorch::new(tch::Device::Cpu, vectors))
}

/// Scores are squared: not of the form s − h.
#[derive(Debug)]
pub(super) struct Square;

impl Correction for Square {
    fn pair(&self, _query: usize, _item: usize, score: f32) -> f64 {
        f64::from(score * score)
    }

    fn row(&self, _query: usize, scores: &mut [f32]) {
        for score in scores {
            *score *= *score;
        }
    }

    fn shift(&self, _query: usize) -> Option<&[f64]> {
        None
    }

    fn identity(&self, fields: &mut Fields<'_>) {
        fields.text("square");
    }
}

/// Where a source fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Fault {
    Block,
    Exact,
}

/// Fails at one row.
#[derive(Debug)]
pub(super) struct Failing<'v>(pub VectorScores<'v>, pub usize, pub Fault);

impl Failing<'_> {
    fn fail(&self, is_there: bool, fault: Fault) -> Result<()> {
        if is_there && self.2 == fault { Err(Error::stage(format!("row {} is too much", self.1))) } else { Ok(()) }
    }
}

impl Scores for Failing<'_> {
    fn sizes(&self) -> [usize; 2] {
        self.0.sizes()
    }

    fn cost(&self) -> u64 {
        1
    }

    fn bounds(&self, precision: Precision) -> [Vec<Bound>; 2] {
        self.0.bounds(precision)
    }

    fn block_rows(&self, _: Precision) -> usize {
        100
    }

    fn block(&self, precision: Precision, rows: Range<usize>, to: &mut Vec<Lane>, consume: Consume<'_>) -> Result<()> {
        self.fail(rows.contains(&self.1), Fault::Block)?;
        self.0.block(precision, rows, to, consume)
    }

    fn exact(&self, side: Side, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        self.fail(side == Side::Rows && query == self.1, Fault::Exact)?;
        self.0.exact(side, query, items, scores)
    }

    fn identity(&self, fields: &mut Fields<'_>) {
        self.0.identity(fields);
    }
}
