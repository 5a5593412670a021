//! Searches of scores that are no function of two vectors: a table, and a model that computes them in batches.

use std::ops::Range;

use super::testing::{Square, plain};
use super::{
    Answer, Ask, Bound, Consume, Greedy, Lane, Positives, Precision, ScoreTable, Scores, Search, Side, consume_rows,
};
use crate::error::Result;
use crate::kernels::hubness::greedy::{Capacity, RelaxedGreedy, relaxed_greedy};
use crate::kernels::hubness::matching::Candidate;
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::shift::Shift;
use crate::kernels::hubness::statistic::Statistic;
use crate::kernels::identity::Fields;
use crate::kernels::sample::Sample;

/// Parts of an image and words of a caption.
const PARTS: usize = 5;
/// How far a score of a batch may be from that of the pair alone.
const ERROR: f64 = 0.01;

/// Score of an image and a caption: the best of their parts that meet, as cross-attention has it. What a batch gives differs
/// from that by rounding, here much of it, which depends on the batch.
#[derive(Debug)]
struct Attention {
    images: Vec<f32>,
    captions: Vec<f32>,
}

impl Attention {
    /// Numbers of few levels, so that scores tie.
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    fn new(images: usize, captions: usize) -> Self {
        let mut sample = Sample::new(21, &[]);
        let mut draw = |count: usize| (0..count * PARTS).map(|_| sample.below(40) as f32 / 40.0).collect();
        Self { images: draw(images), captions: draw(captions) }
    }

    fn score(&self, image: usize, caption: usize) -> f32 {
        let (image, caption) = (&self.images[image * PARTS..][..PARTS], &self.captions[caption * PARTS..][..PARTS]);
        image.iter().zip(caption).map(|(a, b)| a.min(*b)).fold(0.0, f32::max)
    }

    /// Scores of every image, and of every caption.
    fn all(&self) -> [Vec<Vec<f32>>; 2] {
        let [n, m] = self.sizes();
        [
            (0..n).map(|i| (0..m).map(|j| self.score(i, j)).collect()).collect(),
            (0..m).map(|j| (0..n).map(|i| self.score(i, j)).collect()).collect(),
        ]
    }
}

impl Scores for Attention {
    fn sizes(&self) -> [usize; 2] {
        [self.images.len() / PARTS, self.captions.len() / PARTS]
    }

    fn cost(&self) -> u64 {
        1000
    }

    fn bounds(&self, _: Precision) -> [Vec<Bound>; 2] {
        self.sizes().map(|size| vec![Bound { error: ERROR, largest: 1.0 }; size])
    }

    /// A batch.
    fn block_rows(&self, _: Precision) -> usize {
        17
    }

    #[expect(clippy::cast_possible_truncation, reason = "scores are f32")]
    fn block(&self, _: Precision, rows: Range<usize>, buffer: &mut Vec<Lane>, consume: Consume<'_>) -> Result<()> {
        let columns = self.sizes()[1];
        let mut sample = Sample::new(rows.start as u64, &[rows.len() as u64]);
        let mut rounded = |score: f32| (f64::from(score) + 0.999 * ERROR * (2.0 * sample.unit() - 1.0)) as f32;
        let pairs = rows.flat_map(|image| (0..columns).map(move |caption| (image, caption)));
        let scores: Vec<f32> = pairs.map(|(image, caption)| rounded(self.score(image, caption))).collect();
        consume_rows(&scores, columns, buffer, consume)
    }

    fn exact(&self, side: Side, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        scores.clear();
        scores.extend(items.iter().map(|&item| match side {
            Side::Rows => self.score(query, item),
            Side::Columns => self.score(item, query),
        }));
        Ok(())
    }

    fn identity(&self, fields: &mut Fields<'_>) {
        fields.text("attention of a test");
        fields.singles(&self.images);
        fields.singles(&self.captions);
    }
}

const SIZES: [usize; 2] = [230, 75];

#[test]
fn ranks_lists_and_largest_scores_are_those_of_the_definition() {
    let model = Attention::new(SIZES[0], SIZES[1]);
    let scores = model.all();
    let values = scores[0].concat();
    let table = ScoreTable::new("table", &values, SIZES).expect("good");
    let statistics = [Statistic::MeanOfLargest { k: 5 }, Statistic::KthLargest { k: 3 }];
    let lists: [Vec<Vec<usize>>; 2] = [0, 1].map(|side: usize| {
        let items = SIZES[1 - side];
        (0..SIZES[side])
            .map(|query| if query % 7 == 3 { vec![] } else { vec![query % items, query * 3 % items] })
            .collect()
    });
    let minus = [0, 1].map(|side: usize| {
        (0..SIZES[1 - side]).map(|item| 0.05 * f64::from(u8::try_from(item % 4).expect("small"))).collect::<Vec<f64>>()
    });
    let of_lists = |side: usize| Ask { k: 6, positives: Positives::Lists(&lists[side]), ..Ask::default() };
    for asks in [
        [0, 1].map(of_lists),
        [0, 1].map(|side| Ask { minus: &minus[side], ..of_lists(side) }),
        [0, 1].map(|side| Ask { statistics: &statistics, ..of_lists(side) }),
    ] {
        let wanted = [plain(&scores[0], &asks[0]), plain(&scores[1], &asks[1])];
        for threads in [1, 3] {
            for source in [&model as &dyn Scores, &table] {
                let found = Search::new(source, threads).find(&asks[0], &asks[1], &mut |_, _| Ok(()));
                assert_eq!(found.expect("possible"), wanted, "{threads} threads");
            }
        }
    }
}

/// Queries that run out ask a source for some of its pairs.
#[test]
fn matchings_are_those_of_all_pairs() {
    let model = Attention::new(SIZES[0], SIZES[1]);
    let scores = model.all();
    let values = scores[0].concat();
    let table = ScoreTable::new("table", &values, SIZES).expect("good");
    let matrices = [0, 1].map(|side: usize| {
        Matrix::from_fn(SIZES[side], SIZES[1 - side], |query, item| f64::from(scores[side][query][item]))
    });
    let shift = Shift::new(vec![], vec![]);
    for (lambda, capacity) in [(1.0, Capacity::Strict), (1.3, Capacity::Scaled)] {
        let limits = [0, 1].map(|side: usize| {
            [1, 4].map(|k| RelaxedGreedy { lambda, capacity }.limits(k, SIZES[side], SIZES[1 - side]))
        });
        let ask = |side: usize| Greedy { limits: &limits[side], shift: &shift };
        for source in [&model as &dyn Scores, &table] {
            let got = Search::new(source, 2).match_greedily(&ask(0), &ask(1), &mut |_, _| Ok(())).expect("possible");
            for side in 0..2 {
                for (matched, &limits) in got[side].iter().zip(&limits[side]) {
                    let items = |list: &Vec<Candidate>| list.iter().map(|got| got.item).collect();
                    let got: Vec<Vec<usize>> = matched.iter().map(items).collect();
                    assert_eq!(got, relaxed_greedy(&matrices[side], limits), "λ = {lambda}, side {side}");
                }
            }
        }
    }
}

/// The scores of a table are the exact ones, and so are rows and sums of them.
#[test]
fn rows_and_sums_of_a_table_are_of_its_own_scores() {
    let values = Attention::new(SIZES[0], SIZES[1]).all()[0].concat();
    let table = ScoreTable::new("table", &values, SIZES).expect("good");
    let search = Search::new(&table, 2);
    let rows = search.map_rows(|_, scores| scores.to_vec(), &mut |_, _| Ok(())).expect("possible");
    assert_eq!(rows.concat(), values);
    let squares: Vec<Vec<f32>> = rows.iter().map(|row| row.iter().map(|score| score * score).collect()).collect();
    let ask = Ask { k: 4, ..Ask::default() };
    let got = search.rank_corrected(4, Positives::None, &Square, &mut |_, _| Ok(())).expect("possible");
    assert_eq!(got, plain(&squares, &ask));
    let statistics = [Statistic::Mean, Statistic::LogSumExp { beta: 5.0 }];
    let ask = Ask { statistics: &statistics, ..Ask::default() };
    let [Answer { statistics: got, .. }, _] = search.find(&ask, &Ask::default(), &mut |_, _| Ok(())).expect("possible");
    for (got, statistic) in got.iter().zip(statistics) {
        for (got, row) in got.iter().zip(&rows) {
            assert!((got - statistic.of(row.iter().copied())).abs() < 1e-5, "{statistic:?}");
        }
    }
    // P of Sinkhorn's potentials has equal sums of rows, up to its last step, which scales columns.
    let tau = 0.5;
    let found = &search.sinkhorn(tau, 50, &[Side::Rows], &mut |_, _| Ok(())).expect("possible")[0];
    for (row, g) in rows.iter().zip(&found.queries) {
        let sum: f64 = row.iter().zip(&found.items).map(|(s, h)| ((f64::from(*s) - g - h) / tau).exp()).sum();
        assert!((sum * 230.0 - 1.0).abs() < 1e-4, "{sum}");
    }
}
