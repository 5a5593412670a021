//! Names of checkpoints: two different questions never share one.

use std::collections::BTreeMap;
use std::ops::Range;

use super::checkpoint::name;
use super::testing::{Kind, SCORINGS, by_libtorch, values};
use super::{Ask, Positives, ScoreTable, Scores, Scoring, Side, VectorScores, Vectors};
use crate::kernels::hubness::statistic::Statistic;
use crate::kernels::sample::Sample;

/// A question, with what it borrows.
#[derive(Debug, Clone, Default)]
struct Question {
    k: usize,
    ranges: Option<Vec<Range<usize>>>,
    lists: Option<Vec<Vec<usize>>>,
    minus: Vec<f64>,
    statistics: Vec<Statistic>,
}

impl Question {
    fn ask(&self) -> Ask<'_> {
        let positives = match (&self.ranges, &self.lists) {
            (Some(ranges), _) => Positives::Ranges(ranges),
            (None, Some(lists)) => Positives::Lists(lists),
            (None, None) => Positives::None,
        };
        Ask { k: self.k, positives, minus: &self.minus, statistics: &self.statistics }
    }
}

fn name_of(questions: [&Question; 2]) -> String {
    name(|fields| {
        for question in questions {
            question.ask().identity(fields);
        }
    })
}

fn draw(sample: &mut Sample) -> Question {
    let floats = [0.0, -0.0, 1.0, f64::MIN_POSITIVE];
    let short = |sample: &mut Sample| sample.below(3);
    let positives = sample.below(3);
    let statistics = [
        Statistic::LogSumExp { beta: 0.0 },
        Statistic::LogSumExp { beta: -0.0 },
        Statistic::LogSumExp { beta: 1.0 },
        Statistic::MeanOfLargest { k: 1 },
        Statistic::MeanOfLargest { k: 2 },
        Statistic::KthLargest { k: 1 },
        Statistic::Mean,
        Statistic::StandardDeviation,
    ];
    let range = |sample: &mut Sample| {
        let start = short(sample);
        start..start + short(sample)
    };
    Question {
        k: short(sample),
        ranges: (positives == 1).then(|| (0..short(sample)).map(|_| range(sample)).collect()),
        lists: (positives == 2)
            .then(|| (0..short(sample)).map(|_| (0..short(sample)).map(|_| short(sample)).collect()).collect()),
        minus: (0..short(sample)).map(|_| floats[sample.below(4)]).collect(),
        statistics: (0..short(sample)).map(|_| statistics[sample.below(8)]).collect(),
    }
}

/// Drawn from few values, so that many differ in one field, and many are drawn twice. Texts of two questions are the same only
/// where all their fields have the same bits.
#[test]
fn different_questions_have_different_names() {
    let mut sample = Sample::new(11, &[]);
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut again = 0;
    for _ in 0..60_000 {
        let questions = [draw(&mut sample), Question { k: sample.below(2), ..Question::default() }];
        let text = format!("{questions:?}");
        if let Some(other) = seen.insert(name_of([&questions[0], &questions[1]]), text.clone()) {
            assert_eq!(other, text);
            again += 1;
        }
    }
    assert!(seen.len() > 5_000 && again > 5_000, "{} {again}", seen.len());
}

#[test]
fn near_collisions_of_questions_differ() {
    let plain = Question::default();
    let lists = |lists: &[&[usize]]| Question {
        lists: Some(lists.iter().map(|list| list.to_vec()).collect()),
        ..Question::default()
    };
    let minus = |minus: &[f64]| Question { minus: minus.to_vec(), ..Question::default() };
    let statistics = |statistics: &[Statistic]| Question { statistics: statistics.to_vec(), ..Question::default() };
    let (mean, largest) = (Statistic::Mean, Statistic::MeanOfLargest { k: 3 });
    for [a, b] in [
        [minus(&[0.0]), minus(&[-0.0])],
        [minus(&[0.25]), minus(&[0.25f64.next_up()])],
        [lists(&[&[1, 2], &[3]]), lists(&[&[1], &[2, 3]])],
        [lists(&[&[]]), lists(&[])],
        [lists(&[]), plain.clone()],
        [lists(&[]), Question { ranges: Some(vec![]), ..Question::default() }],
        [lists(&[&[1, 2], &[0]]), Question { ranges: Some(vec![1..3, 0..1]), ..Question::default() }],
        [statistics(&[mean, largest]), statistics(&[largest, mean])],
        [statistics(&[largest]), statistics(&[Statistic::KthLargest { k: 3 }])],
        [statistics(&[largest]), Question { k: 3, ..Question::default() }],
    ] {
        assert_ne!(name_of([&a, &plain]), name_of([&b, &plain]), "{a:?} {b:?}");
        // Rows and columns that ask the other way round.
        assert_ne!(name_of([&a, &b]), name_of([&b, &a]), "{a:?} {b:?}");
    }
}

#[test]
fn different_scores_have_different_names() {
    let (a, b) = (values(Kind::Spread, 1, 6, 4), values(Kind::Spread, 2, 6, 4));
    let mut zeros = b.clone();
    zeros[5] = 0.0;
    let mut minus = zeros.clone();
    minus[5] = -0.0;
    let vectors = |values: &'static [f32], width: usize| Vectors::new("vectors", values, width).expect("good");
    let [a, b, zeros, minus] = [a, b, zeros, minus].map(|values| &*values.leak());
    let [rows, columns, of_zeros, of_minus] = [a, b, zeros, minus].map(|values| vectors(values, 4));
    let [narrow_rows, narrow_columns] = [a, b].map(|values| vectors(values, 2));
    let [few_rows, many_rows] = [&a[..20], a].map(|values| vectors(values, 4));
    let table = ScoreTable::new("table", a, [4, 6]).expect("good");
    let mut all: Vec<Box<dyn Scores + '_>> = Vec::new();
    let of = |rows, columns, scoring| -> Box<dyn Scores + '_> {
        Box::new(VectorScores::new(rows, columns, scoring, 2).expect("of one width"))
    };
    for scoring in SCORINGS {
        all.push(of(&rows, &columns, scoring));
        all.push(by_libtorch(&rows, &columns, scoring));
    }
    all.push(of(&columns, &rows, Scoring::Product));
    all.push(of(&narrow_rows, &narrow_columns, Scoring::Product));
    all.push(of(&rows, &of_zeros, Scoring::Product));
    all.push(of(&rows, &of_minus, Scoring::Product));
    all.push(of(&few_rows, &columns, Scoring::Product));
    for (values, sizes) in [(a, [4, 6]), (a, [6, 4]), (a, [3, 8]), (zeros, [4, 6]), (minus, [4, 6])] {
        all.push(Box::new(ScoreTable::new("table", values, sizes).expect("good")));
    }
    for (side, queries, items) in
        [(Side::Rows, vec![0, 1], vec![2]), (Side::Rows, vec![0], vec![1, 2]), (Side::Columns, vec![0], vec![1, 2])]
    {
        all.push(super::scores::subset(&table, side, &queries, &items).expect("a table"));
    }
    let names: Vec<String> = all.iter().map(|scores| name(|fields| scores.identity(fields))).collect();
    for (number, one) in names.iter().enumerate() {
        assert!(!names[..number].contains(one), "{:?}", all[number]);
    }
    // The same again.
    let again = VectorScores::new(&many_rows, &columns, Scoring::Product, 3).expect("of one width");
    assert_eq!(name(|fields| again.identity(fields)), names[0]);
}
