//! Tests that different requests never share the name of a checkpoint.

use std::collections::BTreeMap;
use std::ops::Range;

use super::checkpoint::checkpoint_name;
use super::testing::DistinctScores;
use super::{Positives, ScoreFunction, Scores as _, SearchRequest, VectorMatrix, VectorScores};
use pairloom_kernels::hubness::method::Statistic;
use pairloom_kernels::random::Rng;

/// Owned search request.
#[derive(Debug, Clone, Default)]
struct OwnedRequest {
    k: usize,
    ranges: Option<Vec<Range<usize>>>,
    lists: Option<Vec<Vec<usize>>>,
    item_shifts: Vec<f64>,
    statistics: Vec<Statistic>,
}

impl OwnedRequest {
    fn as_request(&self) -> SearchRequest<'_> {
        let positives = match (&self.ranges, &self.lists) {
            (Some(ranges), _) => Positives::Ranges(ranges),
            (None, Some(lists)) => Positives::Lists(lists),
            (None, None) => Positives::None,
        };
        SearchRequest { k: self.k, positives, item_shifts: &self.item_shifts, statistics: &self.statistics }
    }
}

fn name_of(requests: [&OwnedRequest; 2]) -> String {
    checkpoint_name(|fields| {
        for request in requests {
            request.as_request().identity(fields);
        }
    })
}

fn draw(rng: &mut Rng) -> OwnedRequest {
    let floats = [0.0, -0.0, 1.0, f64::MIN_POSITIVE];
    let short = |rng: &mut Rng| rng.uniform_below(3);
    let positives = rng.uniform_below(3);
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
    let range = |rng: &mut Rng| {
        let start = short(rng);
        start..start + short(rng)
    };
    OwnedRequest {
        k: short(rng),
        ranges: (positives == 1).then(|| (0..short(rng)).map(|_| range(rng)).collect()),
        lists: (positives == 2)
            .then(|| (0..short(rng)).map(|_| (0..short(rng)).map(|_| short(rng)).collect()).collect()),
        item_shifts: (0..short(rng)).map(|_| floats[rng.uniform_below(4)]).collect(),
        statistics: (0..short(rng)).map(|_| statistics[rng.uniform_below(8)]).collect(),
    }
}

/// Requests have few possible values, so many differ in one field, and many are drawn twice. The debug texts of two
/// requests are equal only if all their fields have the same bits.
#[test]
fn different_requests_have_different_names() {
    let mut rng = Rng::new(11, &[]);
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut again = 0;
    for _ in 0..60_000 {
        let requests = [draw(&mut rng), OwnedRequest { k: rng.uniform_below(2), ..OwnedRequest::default() }];
        let text = format!("{requests:?}");
        if let Some(other) = seen.insert(name_of([&requests[0], &requests[1]]), text.clone()) {
            assert_eq!(other, text);
            again += 1;
        }
    }
    assert!(seen.len() > 5_000 && again > 5_000, "{} {again}", seen.len());
}

#[test]
fn similar_requests_have_different_names() {
    let plain = OwnedRequest::default();
    let lists = |lists: &[&[usize]]| OwnedRequest {
        lists: Some(lists.iter().map(|list| list.to_vec()).collect()),
        ..OwnedRequest::default()
    };
    let minus = |minus: &[f64]| OwnedRequest { item_shifts: minus.to_vec(), ..OwnedRequest::default() };
    let statistics =
        |statistics: &[Statistic]| OwnedRequest { statistics: statistics.to_vec(), ..OwnedRequest::default() };
    let (mean, largest) = (Statistic::Mean, Statistic::MeanOfLargest { k: 3 });
    for [a, b] in [
        [minus(&[0.0]), minus(&[-0.0])],
        [minus(&[0.25]), minus(&[0.25f64.next_up()])],
        [lists(&[&[1, 2], &[3]]), lists(&[&[1], &[2, 3]])],
        [lists(&[&[]]), lists(&[])],
        [lists(&[]), plain.clone()],
        [lists(&[]), OwnedRequest { ranges: Some(vec![]), ..OwnedRequest::default() }],
        [lists(&[&[1, 2], &[0]]), OwnedRequest { ranges: Some(vec![1..3, 0..1]), ..OwnedRequest::default() }],
        [statistics(&[mean, largest]), statistics(&[largest, mean])],
        [statistics(&[largest]), statistics(&[Statistic::KthLargest { k: 3 }])],
        [statistics(&[largest]), OwnedRequest { k: 3, ..OwnedRequest::default() }],
    ] {
        assert_ne!(name_of([&a, &plain]), name_of([&b, &plain]), "{a:?} {b:?}");
        // Requests of rows and columns swapped.
        assert_ne!(name_of([&a, &b]), name_of([&b, &a]), "{a:?} {b:?}");
    }
}

#[test]
fn different_scores_have_different_names() {
    let distinct = DistinctScores::new();
    let names = distinct.check();
    // Equal contents in other memory.
    let rows = VectorMatrix::new("vectors", distinct.rows.rows(0..distinct.rows.len()), distinct.rows.width());
    let rows = rows.expect("good");
    let again = VectorScores::new(&rows, distinct.columns, ScoreFunction::Product, 3).expect("of one width");
    assert_eq!(checkpoint_name(|fields| again.identity(fields)), names[0]);
}
