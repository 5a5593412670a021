//! Searches that were ended and go on, against those that never were.

use std::collections::BTreeMap;

use super::testing::{Kind, SCORINGS, Square, values};
use super::{
    Ask, CheckpointStore, Positives, Precision, Progress, ScoreTable, Scoring, Search, Side, VectorScores, Vectors,
};
use crate::error::{Error, Kind as Fault, Result};
use crate::kernels::hubness::statistic::Statistic;

/// Saves in memory, after every stripe, and ends a search that has saved so often and saves more.
#[derive(Debug, Clone, Default)]
struct Memory {
    saved: BTreeMap<String, Vec<i32>>,
    saves: usize,
    end_after: Option<usize>,
}

impl Progress for Memory {
    fn report(&mut self, done: u64, total: u64) -> Result<()> {
        assert!(done <= total);
        Ok(())
    }

    fn checkpoints(&mut self) -> Option<&mut dyn CheckpointStore> {
        Some(self)
    }
}

impl CheckpointStore for Memory {
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

/// Ends the search after whatever it saves, and has it go on with other numbers of threads; damages whatever it saves. Gives how
/// often it saved.
fn check<T: PartialEq>(case: &str, search: &dyn Fn(usize, &mut dyn Progress) -> Result<T>) -> usize {
    let wanted = search(2, &mut |_: u64, _: u64| Ok(())).expect("possible");
    let mut whole = Memory::default();
    assert!(search(1, &mut whole).expect("possible") == wanted, "{case}, in sections");
    for cut in 0..whole.saves {
        let mut memory = Memory { end_after: Some(cut), ..Memory::default() };
        let error = search(1 + cut % 3, &mut memory).err().expect("ended");
        assert_eq!((error.kind(), memory.saves), (Fault::Interrupted, cut), "{case}");
        memory.end_after = None;
        assert!(search(1 + (cut + 1) % 3, &mut memory).expect("possible") == wanted, "{case}, cut {cut}");
        // At most what is saved in two parts is saved again.
        assert!(memory.saves <= whole.saves + 1, "{case}, cut {cut}: {} of {}", memory.saves, whole.saves);
        assert!(memory.saved == whole.saved, "{case}, cut {cut}");
    }
    let again = &mut Memory { saves: 0, ..whole.clone() };
    assert!(search(3, again).expect("possible") == wanted, "{case}, all saved");
    assert_eq!(again.saves, 0, "{case}");

    for (number, name) in whole.saved.keys().enumerate() {
        let content = &whole.saved[name];
        let short = content[..content.len() - 1].to_vec();
        let long = [content.as_slice(), &[0]].concat();
        let foreign = vec![-1; content.len()];
        let damaged = [vec![], short, long, foreign][number % 4].clone();
        // Nothing after it is there, so that it matters.
        let mut memory = Memory::default();
        memory.saved.extend(whole.saved.range(..name.clone()).map(|(name, content)| (name.clone(), content.clone())));
        memory.saved.insert(name.clone(), damaged);
        assert!(search(2, &mut memory).expect("possible") == wanted, "{case}, {name} damaged");
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
fn a_search_that_goes_on_finds_what_one_that_was_never_ended_finds() {
    let (n, m, width) = (400, 50, 24);
    for kind in [Kind::Spread, Kind::Close, Kind::Equal] {
        let (a, b) = (values(kind, 1, n, width), values(kind, 2, m, width));
        let rows = Vectors::new("rows", &a, width).expect("good");
        let columns = Vectors::new("columns", &b, width).expect("good");
        let (of_rows, of_columns): (Vec<_>, Vec<_>) = (
            (0..n).map(|i| vec![i % m, i / 9 % m]).collect(),
            (0..m).map(|j| if j == 5 { vec![] } else { vec![7 * j] }).collect(),
        );
        let (h, g): (Vec<f64>, Vec<f64>) = (
            (0..m).map(|j| 0.01 * f64::from(u8::try_from(j % 5).expect("small"))).collect(),
            (0..n).map(|i| if i % 2 == 0 { 0.1 } else { 0.0 }).collect(),
        );
        let ranked = [
            Ask { k: 7, positives: Positives::Lists(&of_rows), minus: &h, ..Ask::default() },
            Ask { k: 3, positives: Positives::Lists(&of_columns), minus: &g, ..Ask::default() },
        ];
        let summed = [
            Ask { statistics: &STATISTICS, ..Ask::default() },
            Ask { k: 2, statistics: &STATISTICS[1..], ..Ask::default() },
        ];
        let one = [Ask { k: 1, ..Ask::default() }, Ask::default()];
        for (scoring, precision, asks) in [
            (Scoring::Product, None, &ranked),
            (Scoring::Product, Some(Precision::Coarse), &ranked),
            (Scoring::Product, Some(Precision::Fine), &ranked),
            (SCORINGS[1], None, &ranked),
            (Scoring::Product, None, &summed),
            (SCORINGS[2], None, &summed),
            (Scoring::Product, None, &one),
        ] {
            let find = |threads: usize, progress: &mut dyn Progress| {
                let mut scores = VectorScores::new(&rows, &columns, scoring, threads)?;
                if let Some(precision) = precision {
                    scores = scores.with_coarse(precision == Precision::Coarse);
                }
                let mut search = Search::new(&scores, threads);
                search.forced.precision = precision;
                search.find(&asks[0], &asks[1], progress)
            };
            // Three sections of a stripe each, in two parts.
            assert_eq!(check(&format!("{kind:?} {scoring:?} {precision:?}"), &find), 6);
        }
    }
}

#[test]
fn rows_that_are_corrected_and_potentials_go_on_as_well() {
    let (n, m, width) = (400, 50, 24);
    let (a, b) = (values(Kind::Spread, 1, n, width), values(Kind::Spread, 2, m, width));
    let rows = Vectors::new("rows", &a, width).expect("good");
    let columns = Vectors::new("columns", &b, width).expect("good");
    let matches: Vec<_> = (0..n).map(|i| i % m..i % m + usize::from(i % 7 > 0)).collect();
    let corrected = |threads: usize, progress: &mut dyn Progress| {
        let search = Search::of_vectors(&rows, &columns, Scoring::Product, threads)?;
        search.rank_corrected(4, Positives::Ranges(&matches), &Square, progress)
    };
    assert_eq!(check("corrected", &corrected), 3);
    let sinkhorn = |threads: usize, progress: &mut dyn Progress| {
        let search = Search::of_vectors(&rows, &columns, Scoring::Product, threads)?;
        search.sinkhorn(0.05, 4, &[Side::Rows, Side::Columns], progress)
    };
    assert_eq!(check("sinkhorn", &sinkhorn), 5);
    let table: Vec<f32> = (0..n * m).map(|pair| a[pair % a.len()]).collect();
    let table = ScoreTable::new("table", &table, [n, m]).expect("good");
    let of_table = |threads: usize, progress: &mut dyn Progress| {
        let (rows, columns) = (Ask { k: 3, statistics: &STATISTICS, ..Ask::default() }, Ask { k: 2, ..Ask::default() });
        Search::new(&table, threads).find(&rows, &columns, progress)
    };
    assert_eq!(check("table", &of_table), 6);
}

#[test]
fn only_searches_that_ask_the_same_of_the_same_vectors_share() {
    let (n, m, width) = (500, 40, 8);
    let (a, b) = (values(Kind::Spread, 1, n, width), values(Kind::Spread, 2, m, width));
    let mut other = b.clone();
    other[m * width - 1] += 1e-6;
    let rows = Vectors::new("rows", &a, width).expect("good");
    let [columns, others] = [&b, &other].map(|values| Vectors::new("columns", values, width).expect("good"));
    let mut memory = Memory::default();
    let mut saves = |columns: &Vectors<'_>, scoring: Scoring, ask: &Ask<'_>| {
        let before = memory.saves;
        let search = Search::of_vectors(&rows, columns, scoring, 2).expect("of one width");
        search.find(ask, &Ask::default(), &mut memory).expect("possible");
        memory.saves - before
    };
    let ask = Ask { k: 3, ..Ask::default() };
    assert_eq!(saves(&columns, Scoring::Product, &ask), 6);
    assert_eq!(saves(&columns, Scoring::Product, &ask), 0);
    assert_eq!(saves(&others, Scoring::Product, &ask), 6);
    assert_eq!(saves(&columns, SCORINGS[1], &ask), 6);
    assert_eq!(saves(&columns, SCORINGS[3], &ask), 6);
    assert_eq!(saves(&columns, Scoring::Product, &Ask { k: 4, ..ask }), 6);
    let (mut minus, positives) = (vec![0.25; m], vec![0..1; n]);
    assert_eq!(saves(&columns, Scoring::Product, &Ask { minus: &minus, ..ask }), 6);
    minus[3] = 0.25f64.next_up();
    assert_eq!(saves(&columns, Scoring::Product, &Ask { minus: &minus, ..ask }), 6);
    assert_eq!(saves(&columns, Scoring::Product, &Ask { positives: Positives::Ranges(&positives), ..ask }), 6);
    assert_eq!(saves(&columns, Scoring::Product, &Ask { statistics: &STATISTICS[..1], ..ask }), 6);
}
