//! Comparison of interrupted and resumed searches with uninterrupted ones.

use std::collections::BTreeMap;

use super::testing::{SCORE_FUNCTIONS, SquareCorrection, VectorDistribution, random_vectors};
use super::{
    CheckpointStore, MatrixSide, Positives, ScoreFunction, ScorePrecision, ScoreTable, Search, SearchProgress,
    SearchRequest, VectorMatrix, VectorScores,
};
use pairloom_base::error::{Error, ErrorCategory, Result};
use pairloom_kernels::hubness::method::Statistic;

/// Checkpoint store in memory, with a checkpoint after every stripe. It can interrupt a search at a save.
#[derive(Debug, Clone, Default)]
struct MemoryCheckpointStore {
    saved: BTreeMap<String, Vec<i32>>,
    saves: usize,
    end_after: Option<usize>,
}

impl SearchProgress for MemoryCheckpointStore {
    fn report(&mut self, done: u64, total: u64) -> Result<()> {
        assert!(done <= total);
        Ok(())
    }

    fn checkpoint_store(&mut self) -> Option<&mut dyn CheckpointStore> {
        Some(self)
    }
}

impl CheckpointStore for MemoryCheckpointStore {
    fn load(&mut self, name: &str) -> Result<Option<Vec<i32>>> {
        Ok(self.saved.get(name).cloned())
    }

    fn save(&mut self, name: &str, content: Vec<i32>) -> Result<()> {
        if self.end_after == Some(self.saves) {
            return Err(Error::interrupted());
        }
        self.saves += 1;
        self.saved.insert(name.to_owned(), content);
        Ok(())
    }

    fn minimum_cost(&self) -> u64 {
        1
    }
}

/// Interrupts the search after each of its saves and resumes it with other numbers of threads; then damages each
/// checkpoint. Returns the number of saves.
fn check_resume<T: PartialEq>(case: &str, search: &dyn Fn(usize, &mut dyn SearchProgress) -> Result<T>) -> usize {
    let expected = search(2, &mut |_: u64, _: u64| Ok(())).expect("possible");
    let mut whole = MemoryCheckpointStore::default();
    assert!(search(1, &mut whole).expect("possible") == expected, "{case}, in sections");
    for cut in 0..whole.saves {
        let mut memory = MemoryCheckpointStore { end_after: Some(cut), ..MemoryCheckpointStore::default() };
        let error = search(1 + cut % 3, &mut memory).err().expect("ended");
        assert_eq!((error.category(), memory.saves), (ErrorCategory::Interrupted, cut), "{case}");
        memory.end_after = None;
        assert!(search(1 + (cut + 1) % 3, &mut memory).expect("possible") == expected, "{case}, cut {cut}");
        // A section is saved in two parts, so at most one part is saved again.
        assert!(memory.saves <= whole.saves + 1, "{case}, cut {cut}: {} of {}", memory.saves, whole.saves);
        assert!(memory.saved == whole.saved, "{case}, cut {cut}");
    }
    let again = &mut MemoryCheckpointStore { saves: 0, ..whole.clone() };
    assert!(search(3, again).expect("possible") == expected, "{case}, all saved");
    assert_eq!(again.saves, 0, "{case}");

    for (number, name) in whole.saved.keys().enumerate() {
        let content = &whole.saved[name];
        let short = content[..content.len() - 1].to_vec();
        let long = [content.as_slice(), &[0]].concat();
        let foreign = vec![-1; content.len()];
        let damaged = [vec![], short, long, foreign][number % 4].clone();
        // Later checkpoints are absent, so that the damaged one is used.
        let mut memory = MemoryCheckpointStore::default();
        memory.saved.extend(whole.saved.range(..name.clone()).map(|(name, content)| (name.clone(), content.clone())));
        memory.saved.insert(name.clone(), damaged);
        assert!(search(2, &mut memory).expect("possible") == expected, "{case}, {name} damaged");
        assert!(memory.saved == whole.saved, "{case}, {name} damaged");
    }
    whole.saves
}

const STATISTICS: [Statistic; 5] = [
    Statistic::LogSumExp { beta: 30.0 },
    Statistic::MeanOfLargest { k: 10 },
    Statistic::Mean,
    Statistic::LogSumExp { beta: 2.0 },
    Statistic::StandardDeviation,
];

#[test]
fn resumed_searches_have_the_results_of_uninterrupted_ones() {
    let (n, m, width) = (400, 50, 24);
    for kind in [VectorDistribution::Spread, VectorDistribution::Close, VectorDistribution::Equal] {
        let (a, b) = (random_vectors(kind, 1, n, width), random_vectors(kind, 2, m, width));
        let rows = VectorMatrix::new("rows", &a, width).expect("good");
        let columns = VectorMatrix::new("columns", &b, width).expect("good");
        let (row_positives, column_positives): (Vec<_>, Vec<_>) = (
            (0..n).map(|i| vec![i % m, i / 9 % m]).collect(),
            (0..m).map(|j| if j == 5 { vec![] } else { vec![7 * j] }).collect(),
        );
        let (h, g): (Vec<f64>, Vec<f64>) = (
            (0..m).map(|j| 0.01 * f64::from(u8::try_from(j % 5).expect("small"))).collect(),
            (0..n).map(|i| if i % 2 == 0 { 0.1 } else { 0.0 }).collect(),
        );
        let ranked = [
            SearchRequest {
                k: 7,
                positives: Positives::Lists(&row_positives),
                item_shifts: &h,
                ..SearchRequest::default()
            },
            SearchRequest {
                k: 3,
                positives: Positives::Lists(&column_positives),
                item_shifts: &g,
                ..SearchRequest::default()
            },
        ];
        let summed = [
            SearchRequest { statistics: &STATISTICS, ..SearchRequest::default() },
            SearchRequest { k: 2, statistics: &STATISTICS[1..], ..SearchRequest::default() },
        ];
        let one = [SearchRequest { k: 1, ..SearchRequest::default() }, SearchRequest::default()];
        for (scoring, precision, requests) in [
            (ScoreFunction::Product, None, &ranked),
            (ScoreFunction::Product, Some(ScorePrecision::Coarse), &ranked),
            (ScoreFunction::Product, Some(ScorePrecision::Fine), &ranked),
            (SCORE_FUNCTIONS[1], None, &ranked),
            (ScoreFunction::Product, None, &summed),
            (SCORE_FUNCTIONS[2], None, &summed),
            (ScoreFunction::Product, None, &one),
        ] {
            let find = |threads: usize, progress: &mut dyn SearchProgress| {
                let mut scores = VectorScores::new(&rows, &columns, scoring, threads)?;
                if let Some(precision) = precision {
                    scores = scores.with_coarse(precision == ScorePrecision::Coarse);
                }
                let mut search = Search::new(&scores, threads);
                search.overrides.precision = precision;
                search.find(&requests[0], &requests[1], progress)
            };
            // Three sections of one stripe, each saved in two parts.
            assert_eq!(check_resume(&format!("{kind:?} {scoring:?} {precision:?}"), &find), 6);
        }
    }
}

#[test]
fn corrected_rankings_and_sinkhorn_resume_too() {
    let (n, m, width) = (400, 50, 24);
    let (a, b) = (
        random_vectors(VectorDistribution::Spread, 1, n, width),
        random_vectors(VectorDistribution::Spread, 2, m, width),
    );
    let rows = VectorMatrix::new("rows", &a, width).expect("good");
    let columns = VectorMatrix::new("columns", &b, width).expect("good");
    let matches: Vec<_> = (0..n).map(|i| i % m..i % m + usize::from(i % 7 > 0)).collect();
    let corrected = |threads: usize, progress: &mut dyn SearchProgress| {
        let search = Search::from_vectors(&rows, &columns, ScoreFunction::Product, threads)?;
        search.rank_corrected(4, Positives::Ranges(&matches), &SquareCorrection, progress)
    };
    assert_eq!(check_resume("corrected", &corrected), 3);
    let sinkhorn = |threads: usize, progress: &mut dyn SearchProgress| {
        let search = Search::from_vectors(&rows, &columns, ScoreFunction::Product, threads)?;
        search.sinkhorn(0.05, 4, &[MatrixSide::Rows, MatrixSide::Columns], progress)
    };
    assert_eq!(check_resume("sinkhorn", &sinkhorn), 5);
    let table: Vec<f32> = (0..n * m).map(|pair| a[pair % a.len()]).collect();
    let table = ScoreTable::new("table", &table, [n, m]).expect("good");
    let table_search = |threads: usize, progress: &mut dyn SearchProgress| {
        let (rows, columns) = (
            SearchRequest { k: 3, statistics: &STATISTICS, ..SearchRequest::default() },
            SearchRequest { k: 2, ..SearchRequest::default() },
        );
        Search::new(&table, threads).find(&rows, &columns, progress)
    };
    assert_eq!(check_resume("table", &table_search), 6);
}

#[test]
fn only_searches_with_equal_requests_and_vectors_share_checkpoints() {
    let (n, m, width) = (500, 40, 8);
    let (a, b) = (
        random_vectors(VectorDistribution::Spread, 1, n, width),
        random_vectors(VectorDistribution::Spread, 2, m, width),
    );
    let mut other = b.clone();
    other[m * width - 1] += 1e-6;
    let rows = VectorMatrix::new("rows", &a, width).expect("good");
    let [columns, others] = [&b, &other].map(|values| VectorMatrix::new("columns", values, width).expect("good"));
    let mut memory = MemoryCheckpointStore::default();
    let mut saves = |columns: &VectorMatrix<'_>, scoring: ScoreFunction, request: &SearchRequest<'_>| {
        let before = memory.saves;
        let search = Search::from_vectors(&rows, columns, scoring, 2).expect("of one width");
        search.find(request, &SearchRequest::default(), &mut memory).expect("possible");
        memory.saves - before
    };
    let request = SearchRequest { k: 3, ..SearchRequest::default() };
    assert_eq!(saves(&columns, ScoreFunction::Product, &request), 6);
    assert_eq!(saves(&columns, ScoreFunction::Product, &request), 0);
    assert_eq!(saves(&others, ScoreFunction::Product, &request), 6);
    assert_eq!(saves(&columns, SCORE_FUNCTIONS[1], &request), 6);
    assert_eq!(saves(&columns, SCORE_FUNCTIONS[3], &request), 6);
    assert_eq!(saves(&columns, ScoreFunction::Product, &SearchRequest { k: 4, ..request }), 6);
    let (mut item_shifts, positives) = (vec![0.25; m], vec![0..1; n]);
    assert_eq!(saves(&columns, ScoreFunction::Product, &SearchRequest { item_shifts: &item_shifts, ..request }), 6);
    item_shifts[3] = 0.25f64.next_up();
    assert_eq!(saves(&columns, ScoreFunction::Product, &SearchRequest { item_shifts: &item_shifts, ..request }), 6);
    assert_eq!(
        saves(&columns, ScoreFunction::Product, &SearchRequest { positives: Positives::Ranges(&positives), ..request }),
        6
    );
    assert_eq!(saves(&columns, ScoreFunction::Product, &SearchRequest { statistics: &STATISTICS[..1], ..request }), 6);
}
