//! Tests of searches over scores that are no function of two vectors: a table, and a model that computes them in
//! batches.

use std::ops::Range;

use super::testing::{SquareCorrection, brute_force};
use super::{
    ConsumePanel, GreedyRequest, MatrixSide, PanelRow, Positives, ScoreBound, ScorePrecision, ScoreTable, Scores,
    Search, SearchRequest, SearchResults, consume_row_major,
};
use pairloom_base::error::Result;
use pairloom_kernels::hubness::method::{DenseScores, ShiftCorrection, Statistic};
use pairloom_kernels::hubness::relaxed_greedy::{CapacityRule, GreedyRelaxation, MatchCandidate, relaxed_greedy};
use pairloom_kernels::identity::IdentityWriter;
use pairloom_kernels::random::Rng;

/// Parts of an image and words of a caption.
const PARTS: usize = 5;
/// Maximum difference of a score of a batch and the score of the pair alone.
const MAX_ERROR: f64 = 0.01;

/// Model whose score is the best match of the parts of an image and the words of a caption, similar to cross-attention.
/// Scores of a batch have a large rounding error that depends on the batch.
#[derive(Debug)]
struct AttentionScores {
    images: Vec<f32>,
    captions: Vec<f32>,
}

impl AttentionScores {
    /// Draws values of few levels, so that scores tie.
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    fn new(images: usize, captions: usize) -> Self {
        let mut rng = Rng::new(21, &[]);
        let mut draw = |count: usize| (0..count * PARTS).map(|_| rng.uniform_below(40) as f32 / 40.0).collect();
        Self { images: draw(images), captions: draw(captions) }
    }

    fn score(&self, image: usize, caption: usize) -> f32 {
        let (image, caption) = (&self.images[image * PARTS..][..PARTS], &self.captions[caption * PARTS..][..PARTS]);
        image.iter().zip(caption).map(|(a, b)| a.min(*b)).fold(0.0, f32::max)
    }

    /// Scores of every image, and of every caption.
    fn all_scores(&self) -> [Vec<Vec<f32>>; 2] {
        let [n, m] = self.shape();
        [
            (0..n).map(|i| (0..m).map(|j| self.score(i, j)).collect()).collect(),
            (0..m).map(|j| (0..n).map(|i| self.score(i, j)).collect()).collect(),
        ]
    }
}

impl Scores for AttentionScores {
    fn shape(&self) -> [usize; 2] {
        [self.images.len() / PARTS, self.captions.len() / PARTS]
    }

    fn cost(&self) -> u64 {
        1000
    }

    fn bounds(&self, _: ScorePrecision) -> [Vec<ScoreBound>; 2] {
        self.shape().map(|size| vec![ScoreBound { error: MAX_ERROR, largest: 1.0 }; size])
    }

    /// Batch size.
    fn block_rows(&self, _: ScorePrecision) -> usize {
        17
    }

    #[expect(clippy::cast_possible_truncation, reason = "scores are f32")]
    fn compute_block(
        &self,
        _: ScorePrecision,
        rows: Range<usize>,
        buffer: &mut Vec<PanelRow>,
        consume: ConsumePanel<'_>,
    ) -> Result<()> {
        let columns = self.shape()[1];
        let mut rng = Rng::new(rows.start as u64, &[rows.len() as u64]);
        let mut rounded = |score: f32| (f64::from(score) + 0.999 * MAX_ERROR * (2.0 * rng.uniform() - 1.0)) as f32;
        let pairs = rows.flat_map(|image| (0..columns).map(move |caption| (image, caption)));
        let scores: Vec<f32> = pairs.map(|(image, caption)| rounded(self.score(image, caption))).collect();
        consume_row_major(&scores, columns, buffer, consume)
    }

    fn exact_scores(&self, side: MatrixSide, query: usize, items: &[usize], scores: &mut Vec<f32>) -> Result<()> {
        scores.clear();
        scores.extend(items.iter().map(|&item| match side {
            MatrixSide::Rows => self.score(query, item),
            MatrixSide::Columns => self.score(item, query),
        }));
        Ok(())
    }

    fn identity(&self, fields: &mut IdentityWriter<'_>) {
        fields.write_text("attention of a test");
        fields.write_f32s(&self.images);
        fields.write_f32s(&self.captions);
    }
}

const SIZES: [usize; 2] = [230, 75];

#[test]
fn ranks_lists_and_largest_scores_are_those_of_the_definition() {
    let model = AttentionScores::new(SIZES[0], SIZES[1]);
    let scores = model.all_scores();
    let values = scores[0].concat();
    let table = ScoreTable::new("table", &values, SIZES).expect("good");
    let statistics = [Statistic::MeanOfLargest { k: 5 }, Statistic::KthLargest { k: 3 }];
    let lists: [Vec<Vec<usize>>; 2] = [0, 1].map(|side: usize| {
        let items = SIZES[1 - side];
        (0..SIZES[side])
            .map(|query| if query % 7 == 3 { vec![] } else { vec![query % items, query * 3 % items] })
            .collect()
    });
    let item_shifts = [0, 1].map(|side: usize| {
        (0..SIZES[1 - side]).map(|item| 0.05 * f64::from(u8::try_from(item % 4).expect("small"))).collect::<Vec<f64>>()
    });
    let list_request =
        |side: usize| SearchRequest { k: 6, positives: Positives::Lists(&lists[side]), ..SearchRequest::default() };
    for requests in [
        [0, 1].map(list_request),
        [0, 1].map(|side| SearchRequest { item_shifts: &item_shifts[side], ..list_request(side) }),
        [0, 1].map(|side| SearchRequest { statistics: &statistics, ..list_request(side) }),
    ] {
        let expected = [brute_force(&scores[0], &requests[0]), brute_force(&scores[1], &requests[1])];
        for threads in [1, 3] {
            for source in [&model as &dyn Scores, &table] {
                let found = Search::new(source, threads).find(&requests[0], &requests[1], &mut |_, _| Ok(()));
                assert_eq!(found.expect("possible"), expected, "{threads} threads");
            }
        }
    }
}

/// Queries that run out of candidates need a subset of the source.
#[test]
fn matchings_are_those_of_all_pairs() {
    let model = AttentionScores::new(SIZES[0], SIZES[1]);
    let scores = model.all_scores();
    let values = scores[0].concat();
    let table = ScoreTable::new("table", &values, SIZES).expect("good");
    let matrices = [0, 1].map(|side: usize| {
        DenseScores::from_fn(SIZES[side], SIZES[1 - side], |query, item| f64::from(scores[side][query][item]))
    });
    let shift = ShiftCorrection::new(vec![], vec![]);
    for (lambda, capacity) in [(1.0, CapacityRule::Strict), (1.3, CapacityRule::Scaled)] {
        let limits = [0, 1].map(|side: usize| {
            [1, 4].map(|k| GreedyRelaxation { lambda, capacity }.limits(k, SIZES[side], SIZES[1 - side]))
        });
        let request = |side: usize| GreedyRequest { limits: &limits[side], slices: &[], shift: &shift };
        for source in [&model as &dyn Scores, &table] {
            let got =
                Search::new(source, 2).match_greedily(&request(0), &request(1), &mut |_, _| Ok(())).expect("possible");
            for side in 0..2 {
                for (matched, &limits) in got[side].iter().zip(&limits[side]) {
                    let items = |list: &Vec<MatchCandidate>| list.iter().map(|got| got.item).collect();
                    let got: Vec<Vec<usize>> = matched.iter().map(items).collect();
                    assert_eq!(got, relaxed_greedy(&matrices[side], limits), "λ = {lambda}, side {side}");
                }
            }
        }
    }
}

/// The scores of a table are exact, so rows and sums are exact too.
#[test]
fn rows_and_sums_of_a_table_are_of_its_own_scores() {
    let values = AttentionScores::new(SIZES[0], SIZES[1]).all_scores()[0].concat();
    let table = ScoreTable::new("table", &values, SIZES).expect("good");
    let search = Search::new(&table, 2);
    let rows = search.map_rows(|_, scores| scores.to_vec(), &mut |_, _| Ok(())).expect("possible");
    assert_eq!(rows.concat(), values);
    let squares: Vec<Vec<f32>> = rows.iter().map(|row| row.iter().map(|score| score * score).collect()).collect();
    let request = SearchRequest { k: 4, ..SearchRequest::default() };
    let got = search.rank_corrected(4, Positives::None, &SquareCorrection, &mut |_, _| Ok(())).expect("possible");
    assert_eq!(got, brute_force(&squares, &request));
    let statistics = [Statistic::Mean, Statistic::LogSumExp { beta: 5.0 }];
    let request = SearchRequest { statistics: &statistics, ..SearchRequest::default() };
    let [SearchResults { statistics: got, .. }, _] =
        search.find(&request, &SearchRequest::default(), &mut |_, _| Ok(())).expect("possible");
    for (got, statistic) in got.iter().zip(statistics) {
        for (got, row) in got.iter().zip(&rows) {
            assert!((got - statistic.compute(row.iter().copied())).abs() < 1e-5, "{statistic:?}");
        }
    }
    // Rows of P have equal sums, up to the last step, which scales columns.
    let tau = 0.5;
    let found = &search.sinkhorn(tau, 50, &[MatrixSide::Rows], &mut |_, _| Ok(())).expect("possible")[0];
    for (row, g) in rows.iter().zip(&found.queries) {
        let sum: f64 = row.iter().zip(&found.items).map(|(s, h)| ((f64::from(*s) - g - h) / tau).exp()).sum();
        assert!((sum * 230.0 - 1.0).abs() < 1e-4, "{sum}");
    }
}
