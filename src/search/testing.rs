//! Helpers for the tests of searches: random vectors, brute-force search, and cases that tests repeat with each source of
//! scores, here and in modules that have other sources.

use super::checkpoint::checkpoint_name;
use super::scan::ScanOverrides;
use super::scores::subset;
use super::{
    MatrixSide, Positives, Potentials, ScoreFunction, ScorePrecision, ScoreTable, Scores, Search, SearchRequest,
    SearchResults, VectorMatrix, VectorScores,
};
use pairloom_kernels::hubness::method::{Correction, Statistic};
use pairloom_kernels::identity::IdentityWriter;
use pairloom_kernels::measure::recall::BestMatchRank;
use pairloom_kernels::order_similarity::OrderPenalty;
use pairloom_kernels::random::Rng;
use pairloom_kernels::top_k::ScoredItem;

/// Distribution of test vectors.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum VectorDistribution {
    /// Far from each other.
    Spread,
    /// Close to each other, as the embeddings of an untrained model are, and every fourth one twice.
    Close,
    /// All equal.
    Equal,
    /// Vectors of different norms, from 10⁻⁴ to 10⁴.
    Wild,
}

/// Random vectors, one after another.
#[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "test values are small")]
pub fn random_vectors(kind: VectorDistribution, seed: u64, count: usize, width: usize) -> Vec<f32> {
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

/// Score functions of the cases.
pub const SCORE_FUNCTIONS: [ScoreFunction; 4] = [
    ScoreFunction::Product,
    ScoreFunction::Order { form: OrderPenalty::Norm, captions: MatrixSide::Columns },
    ScoreFunction::Order { form: OrderPenalty::Norm, captions: MatrixSide::Rows },
    ScoreFunction::Order { form: OrderPenalty::Squared, captions: MatrixSide::Columns },
];

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

/// Vectors, a score function and requests, with the results of brute force.
#[derive(Debug)]
pub struct SearchCase<'c> {
    /// Name in messages.
    pub name: String,
    /// Vectors of the rows.
    pub rows: &'c VectorMatrix<'c>,
    /// Vectors of the columns.
    pub columns: &'c VectorMatrix<'c>,
    /// Score function of a row and a column.
    pub scoring: ScoreFunction,
    /// Requests of the rows and of the columns.
    pub requests: [&'c SearchRequest<'c>; 2],
    /// Exact scores, row by row.
    pub scores: Vec<f32>,
    expected: [SearchResults; 2],
}

impl<'c> SearchCase<'c> {
    fn new(
        name: impl Into<String>,
        rows: &'c VectorMatrix<'c>,
        columns: &'c VectorMatrix<'c>,
        scoring: ScoreFunction,
        requests: [&'c SearchRequest<'c>; 2],
    ) -> Self {
        let scores = all_scores(rows, columns, scoring);
        let expected = [brute_force(&scores[0], requests[0]), brute_force(&scores[1], requests[1])];
        Self { name: name.into(), rows, columns, scoring, requests, scores: scores[0].concat(), expected }
    }

    /// Asserts that a search over `scores` finds what brute force finds. `precision` is that of the approximate scores,
    /// if the source has several, `block_rows` the number of rows of a block.
    pub fn check(
        &self,
        source: &str,
        scores: Box<dyn Scores + '_>,
        threads: usize,
        precision: Option<ScorePrecision>,
        block_rows: Option<usize>,
    ) {
        let mut search = Search::from_boxed(scores, threads);
        search.overrides = ScanOverrides { precision, block_rows };
        let found = search.find(self.requests[0], self.requests[1], &mut |_, _| Ok(())).expect("possible");
        for (side, (got, expected)) in found.iter().zip(&self.expected).enumerate() {
            let case = format!(
                "{} {:?} side {side} {source} {precision:?} threads {threads} block {block_rows:?}",
                self.name, self.scoring
            );
            assert_eq!(got.ranks, expected.ranks, "{case}");
            assert_eq!(got.top, expected.top, "{case}");
            let statistics = self.requests[side].statistics.iter();
            for (statistic, (got, expected)) in statistics.zip(got.statistics.iter().zip(&expected.statistics)) {
                assert_eq!(got.len(), expected.len(), "{case}");
                for (got, expected) in got.iter().zip(expected) {
                    let same = match statistic {
                        Statistic::MeanOfLargest { .. } | Statistic::KthLargest { .. } => {
                            got == expected || got.is_nan() && expected.is_nan()
                        }
                        _ => (got - expected).abs() < 2e-5 || got == expected || got.is_nan() && expected.is_nan(),
                    };
                    assert!(same, "{case} {statistic:?}: {got}, expected {expected}");
                }
            }
        }
    }
}

/// Two matches for every query, but none for every fifth.
pub(super) fn matches(queries: usize, items: usize) -> Vec<Vec<usize>> {
    let positives = |query: usize| match query % 5 {
        _ if items == 0 => Vec::new(),
        4 => Vec::new(),
        _ => vec![query * 4 % items, (query * 4 + 3) % items],
    };
    (0..queries).map(positives).collect()
}

/// Cases of ranks and of lists of the best items.
pub fn rank_cases(check: &mut dyn FnMut(&SearchCase<'_>)) {
    for kind in
        [VectorDistribution::Spread, VectorDistribution::Close, VectorDistribution::Equal, VectorDistribution::Wild]
    {
        for (n, m, width, k) in
            [(53, 210, 67, 10), (410, 33, 8, 3), (1, 1, 1, 1), (30, 64, 1, 100), (70, 45, 256, 4), (13, 97, 1024, 5)]
        {
            let (a, b) = (random_vectors(kind, 1, n, width), random_vectors(kind, 2, m, width));
            let rows = VectorMatrix::new("rows", &a, width).expect("good");
            let columns = VectorMatrix::new("columns", &b, width).expect("good");
            let row_positives = matches(n, m);
            let column_positives: Vec<_> = (0..m).map(|j| j % n..(j % n + j % 3).min(n)).collect();
            let requests = [
                SearchRequest { k, positives: Positives::Lists(&row_positives), ..SearchRequest::default() },
                SearchRequest { k: k + 1, positives: Positives::Ranges(&column_positives), ..SearchRequest::default() },
            ];
            for scoring in SCORE_FUNCTIONS {
                let name = format!("{kind:?} {n}x{m}x{width}");
                check(&SearchCase::new(name, &rows, &columns, scoring, [&requests[0], &requests[1]]));
            }
        }
    }
}

/// Cases of ranks with item shifts, some of them with requests of one side only.
#[expect(clippy::cast_precision_loss, reason = "test values are small")]
pub fn shift_cases(check: &mut dyn FnMut(&SearchCase<'_>)) {
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
        let (row_positives, column_positives) = (matches(n, m), matches(m, n));
        let requests = [
            SearchRequest {
                k: 10,
                positives: Positives::Lists(&row_positives),
                item_shifts: &h,
                ..SearchRequest::default()
            },
            SearchRequest {
                k: 10,
                positives: Positives::Lists(&column_positives),
                item_shifts: &g,
                ..SearchRequest::default()
            },
        ];
        for scoring in SCORE_FUNCTIONS {
            let name = format!("{kind:?} less {size}");
            check(&SearchCase::new(name, &rows, &columns, scoring, [&requests[0], &requests[1]]));
        }
        let (none, best) = (SearchRequest::default(), SearchRequest { k: 1, ..SearchRequest::default() });
        for requests in [[&requests[0], &best], [&none, &requests[1]]] {
            check(&SearchCase::new("one side", &rows, &columns, ScoreFunction::Product, requests));
        }
    }
}

/// Cases of statistics.
pub fn statistic_cases(check: &mut dyn FnMut(&SearchCase<'_>)) {
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
            let name = format!("{kind:?} {n}x{m}");
            check(&SearchCase::new(name, &rows, &columns, scoring, [&requests[0], &requests[1]]));
        }
    }
}

/// Cases of which a side, or both, have no vectors.
pub fn empty_cases(check: &mut dyn FnMut(&SearchCase<'_>)) {
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
        check(&SearchCase::new("empty", rows, columns, ScoreFunction::Product, [&requests[0], &requests[1]]));
    }
}

/// Vectors whose rows are ranked by squared scores, with the results of brute force.
#[derive(Debug)]
pub struct SquareCase<'c> {
    /// Vectors of the rows.
    pub rows: &'c VectorMatrix<'c>,
    /// Vectors of the columns.
    pub columns: &'c VectorMatrix<'c>,
    request: SearchRequest<'c>,
    expected: SearchResults,
}

impl SquareCase<'_> {
    /// Asserts that a search over the products of the vectors ranks like brute force and maps every row. Returns the
    /// results.
    pub fn check(&self, mut search: Search<'_>, block_rows: Option<usize>) -> SearchResults {
        search.overrides.block_rows = block_rows;
        let SearchRequest { k, positives, .. } = self.request;
        let got = search.rank_corrected(k, positives, &SquareCorrection, &mut |_, _| Ok(())).expect("possible");
        // No two scores of these vectors are too close for f32.
        assert_eq!(got.ranks, self.expected.ranks);
        let items =
            |answer: &SearchResults| -> Vec<usize> { answer.top.iter().flatten().map(|best| best.item).collect() };
        assert_eq!(items(&got), items(&self.expected));
        let numbers = search.map_rows(|row, scores| (row, scores.len()), &mut |_, _| Ok(())).expect("possible");
        assert_eq!(numbers, (0..self.rows.len()).map(|row| (row, self.columns.len())).collect::<Vec<_>>());
        got
    }
}

/// Case of a correction that is no item shift.
pub fn square_case(check: &mut dyn FnMut(&SquareCase<'_>)) {
    let (n, m, width) = (300, 70, 40);
    let (a, b) = (
        random_vectors(VectorDistribution::Spread, 1, n, width),
        random_vectors(VectorDistribution::Spread, 2, m, width),
    );
    let rows = &VectorMatrix::new("rows", &a, width).expect("good");
    let columns = &VectorMatrix::new("columns", &b, width).expect("good");
    let [mut scores, _] = all_scores(rows, columns, ScoreFunction::Product);
    scores.iter_mut().flatten().for_each(|score| *score *= *score);
    let lists = matches(n, m);
    let request = SearchRequest { k: 5, positives: Positives::Lists(&lists), ..SearchRequest::default() };
    check(&SquareCase { rows, columns, request, expected: brute_force(&scores, &request) });
}

/// Vectors, a temperature and a number of iterations, with the potentials by the definition in f64.
#[derive(Debug)]
pub struct SinkhornCase<'c> {
    /// Vectors of the rows.
    pub rows: &'c VectorMatrix<'c>,
    /// Vectors of the columns.
    pub columns: &'c VectorMatrix<'c>,
    /// Temperature.
    pub tau: f64,
    /// Number of iterations.
    pub iterations: usize,
    name: String,
    /// g and h for rows and for columns as queries.
    expected: [[Vec<f64>; 2]; 2],
}

impl SinkhornCase<'_> {
    /// Sides of which each is the queries once.
    pub const SIDES: [MatrixSide; 2] = [MatrixSide::Rows, MatrixSide::Columns];

    /// Computes the potentials of both sides by a search over the products of the vectors, and asserts that they are
    /// those of the definition.
    pub fn check(&self, mut search: Search<'_>, block_rows: Option<usize>) -> Vec<Potentials> {
        search.overrides.block_rows = block_rows;
        let found = search.sinkhorn(self.tau, self.iterations, &Self::SIDES, &mut |_, _| Ok(())).expect("possible");
        assert_eq!(found.len(), self.expected.len());
        for (got, [g, h]) in found.iter().zip(&self.expected) {
            assert_eq!([got.queries.len(), got.items.len()], [g.len(), h.len()]);
            for (got, expected) in got.queries.iter().chain(&got.items).zip(g.iter().chain(h)) {
                let is_close = (got - expected).abs() < 4e-7 + 1e-5 * self.tau;
                assert!(is_close, "{} τ {}: {got}, expected {expected}", self.name, self.tau);
            }
        }
        found
    }
}

/// Cases of Sinkhorn potentials.
pub fn sinkhorn_cases(check: &mut dyn FnMut(&SinkhornCase<'_>)) {
    let (n, m, width) = (430, 75, 24);
    for kind in [VectorDistribution::Spread, VectorDistribution::Close, VectorDistribution::Equal] {
        let (a, b) = (random_vectors(kind, 1, n, width), random_vectors(kind, 2, m, width));
        let rows = &VectorMatrix::new("rows", &a, width).expect("good");
        let columns = &VectorMatrix::new("columns", &b, width).expect("good");
        let product_scores = all_scores(rows, columns, ScoreFunction::Product);
        for (tau, iterations) in [(0.01, 10), (0.001, 3), (1.0, 1)] {
            let expected = product_scores.each_ref().map(|scores| sinkhorn_by_definition(scores, tau, iterations));
            check(&SinkhornCase { rows, columns, tau, iterations, name: format!("{kind:?}"), expected });
        }
    }
}

/// The definition in f64: g and h.
#[expect(clippy::cast_precision_loss, reason = "test values are small")]
fn sinkhorn_by_definition(scores: &[Vec<f32>], tau: f64, iterations: usize) -> [Vec<f64>; 2] {
    let (n, m) = (scores.len(), scores[0].len());
    let score = |q: usize, i: usize| f64::from(scores[q][i]);
    let ln_count = |count: usize| (count as f64).ln();
    let log_sum = |terms: Vec<f64>| {
        let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        largest + terms.iter().map(|term| (term - largest).exp()).sum::<f64>().ln()
    };
    let (mut g, mut h) = (vec![0.0; n], vec![tau * ln_count(m); m]);
    for _ in 0..iterations {
        for (q, potential) in g.iter_mut().enumerate() {
            *potential = tau * (ln_count(n) + log_sum((0..m).map(|i| (score(q, i) - h[i]) / tau).collect()));
        }
        for (i, potential) in h.iter_mut().enumerate() {
            *potential = tau * (ln_count(m) + log_sum((0..n).map(|q| (score(q, i) - g[q]) / tau).collect()));
        }
    }
    [g, h]
}

/// Sources of scores of which no two have the same identity. The first are those of `rows` and `columns` by
/// [`SCORE_FUNCTIONS`].
#[derive(Debug)]
pub struct DistinctScores {
    /// Vectors of the rows.
    pub rows: &'static VectorMatrix<'static>,
    /// Vectors of the columns.
    pub columns: &'static VectorMatrix<'static>,
    /// The sources.
    pub all: Vec<Box<dyn Scores>>,
}

impl DistinctScores {
    /// Makes the sources. Their values are never freed.
    #[expect(clippy::new_without_default, reason = "a helper of tests")]
    pub fn new() -> Self {
        let (a, b) =
            (random_vectors(VectorDistribution::Spread, 1, 6, 4), random_vectors(VectorDistribution::Spread, 2, 6, 4));
        let mut zeros = b.clone();
        zeros[5] = 0.0;
        let mut minus = zeros.clone();
        minus[5] = -0.0;
        let vectors = |values: &'static [f32], width: usize| -> &'static VectorMatrix<'static> {
            Box::leak(Box::new(VectorMatrix::new("vectors", values, width).expect("good")))
        };
        let [a, b, zeros, minus] = [a, b, zeros, minus].map(|values| &*values.leak());
        let [rows, columns, zero_vectors, negated_vectors] = [a, b, zeros, minus].map(|values| vectors(values, 4));
        let [narrow_rows, narrow_columns] = [a, b].map(|values| vectors(values, 2));
        let few_rows = vectors(&a[..20], 4);
        let table: &'static ScoreTable<'static> =
            Box::leak(Box::new(ScoreTable::new("table", a, [4, 6]).expect("good")));
        let scores_of = |rows, columns, scoring| -> Box<dyn Scores> {
            Box::new(VectorScores::new(rows, columns, scoring, 2).expect("of one width"))
        };
        let mut all: Vec<Box<dyn Scores>> = SCORE_FUNCTIONS.map(|scoring| scores_of(rows, columns, scoring)).into();
        for (rows, columns) in [
            (columns, rows),
            (narrow_rows, narrow_columns),
            (rows, zero_vectors),
            (rows, negated_vectors),
            (few_rows, columns),
        ] {
            all.push(scores_of(rows, columns, ScoreFunction::Product));
        }
        for (values, sizes) in [(a, [4, 6]), (a, [6, 4]), (a, [3, 8]), (zeros, [4, 6]), (minus, [4, 6])] {
            all.push(Box::new(ScoreTable::new("table", values, sizes).expect("good")));
        }
        for (side, queries, items) in [
            (MatrixSide::Rows, vec![0, 1], vec![2]),
            (MatrixSide::Rows, vec![0], vec![1, 2]),
            (MatrixSide::Columns, vec![0], vec![1, 2]),
        ] {
            all.push(subset(table, side, &queries, &items).expect("a table"));
        }
        Self { rows, columns, all }
    }

    /// Asserts that no two sources have the same identity. Returns the names of checkpoints that differ by the source
    /// alone.
    pub fn check(&self) -> Vec<String> {
        let name = |scores: &dyn Scores| checkpoint_name(|fields| scores.identity(fields));
        let names: Vec<String> = self.all.iter().map(|scores| name(&**scores)).collect();
        for (number, one) in names.iter().enumerate() {
            assert!(!names[..number].contains(one), "{:?}", self.all[number]);
        }
        names
    }
}
