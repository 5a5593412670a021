//! Graded measures and correlations against `tests/golden/{graded,correlations}.txt`, computed with numpy and scipy.

use std::collections::BTreeMap;
use std::ops::Range;

use super::METRICS;
use super::correlation::{kendall, pearson, spearman};
use super::graded_ranking::{GradedQuery, OFFICIAL_LIST_LENGTH, grade_ranking, official_neighbours, required_depth};
use super::metric::MetricName;
use crate::top_k::{ScoredItem, top_k};

const IMAGES: usize = 40;
const EACH: usize = 5;
const CAPTIONS: usize = IMAGES * EACH;
const CUTOFFS: [usize; 4] = [1, 5, 10, 30];
const NEIGHBOURS: [usize; 3] = [1, 3, 8];

/// Pseudo-random number below 300 or 1000; equals `draw` of `graded.py`.
fn draw(salt: u64, place: usize) -> u16 {
    let mut x = ((place as u64 + 1) * 2_654_435_761 + salt) % (1 << 32);
    x ^= x >> 16;
    x = x * 2_246_822_519 % (1 << 32);
    u16::try_from((x ^ (x >> 13)) % if salt == 1 { 300 } else { 1000 }).expect("below 1000")
}

fn own(image: usize) -> Range<usize> {
    image * EACH..(image + 1) * EACH
}

/// φ and score of every pair, row-major by image.
fn pairs() -> (Vec<f32>, Vec<f32>) {
    let place = |pair: usize| (pair / CAPTIONS, pair % CAPTIONS);
    let phi: Vec<f32> = (0..IMAGES * CAPTIONS)
        .map(|pair| {
            let (image, caption) = place(pair);
            let bonus = if own(image).contains(&caption) { 120.0 } else { 0.0 };
            (f32::from(draw(1, pair)) - 150.0 + bonus).max(0.0) / 64.0
        })
        .collect();
    let scores = phi.iter().enumerate().map(|(pair, phi)| f32::from(draw(2, pair)) + phi * 100.0).collect();
    (phi, scores)
}

fn column(matrix: &[f32], caption: usize) -> Vec<f32> {
    (0..IMAGES).map(|image| matrix[image * CAPTIONS + caption]).collect()
}

#[test]
fn graded_measures_equal_those_of_numpy() {
    let (phi, scores) = pairs();
    let lists: Vec<Vec<ScoredItem>> = (0..CAPTIONS).map(|c| top_k(&column(&phi, c), OFFICIAL_LIST_LENGTH)).collect();
    let images = |image: usize, left_out: Option<usize>| {
        official_neighbours(lists[own(image)].iter().map(Vec::as_slice), left_out, 8)
    };
    let mut sums: BTreeMap<(&str, MetricName), f64> = BTreeMap::new();
    for direction in ["i2t", "t2i"] {
        let queries = if direction == "i2t" { IMAGES } else { CAPTIONS };
        for query in 0..queries {
            let row = |matrix: &[f32]| match direction {
                "i2t" => matrix[query * CAPTIONS..(query + 1) * CAPTIONS].to_vec(),
                _ => column(matrix, query),
            };
            let (image, own_items): (usize, Range<usize>) = match direction {
                "i2t" => (query, own(query)),
                _ => (query / EACH, query / EACH..query / EACH + 1),
            };
            let items = |image: usize| if direction == "i2t" { own(image) } else { image..image + 1 };
            let official = [None, Some(image)].map(|left_out| images(image, left_out).into_iter().map(items).collect());
            let official: [Vec<Range<usize>>; 2] = official;
            let ranking = top_k(&row(&scores), required_depth(&CUTOFFS, &NEIGHBOURS, own_items.len()));
            let ranking: Vec<usize> = ranking.iter().map(|scored| scored.item).collect();
            let query = GradedQuery {
                phi: &row(&phi),
                ranking: &ranking,
                matches: &own_items,
                official_neighbours: [&official[0], &official[1]],
                whole_split_phi: None,
            };
            grade_ranking(&query, &CUTOFFS, &NEIGHBOURS, |grades| {
                let add = &mut |name, value: f64| {
                    *sums.entry((direction, name)).or_default() +=
                        value / if direction == "i2t" { 40.0 } else { 200.0 };
                };
                for metric in METRICS {
                    metric.measure_graded(grades, add);
                }
            });
        }
    }

    let lines: Vec<&str> = include_str!("../../../tests/golden/graded.txt").lines().collect();
    assert_eq!(lines.len(), sums.len());
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |word: &str| word.parse::<usize>().ok();
        let found = sums.iter().find(|((direction, name), _)| {
            *direction == words[0]
                && name.measure == words[1]
                && name.variant.unwrap_or("-") == words[2]
                && name.ground_truth == Some(words[3] == "true")
                && name.m == number(words[4])
                && name.k == number(words[5])
        });
        let (_, got) = found.unwrap_or_else(|| panic!("nothing measured `{line}`"));
        let expected: f64 = words[6].parse().expect("a number");
        assert!((got - expected).abs() < 1e-12, "{line}: {got}");
    }
}

#[test]
fn correlations_equal_those_of_scipy() {
    let lines = include_str!("../../../tests/golden/correlations.txt").lines();
    assert_eq!(lines.clone().count(), 6);
    for line in lines {
        let (name, numbers) = line.split_once(' ').expect("a name and numbers");
        let (n, numbers) = numbers.split_once(' ').expect("a count and numbers");
        let n: usize = n.parse().expect("a count");
        let numbers: Vec<f64> = numbers.split(' ').map(|word| word.parse().expect("a number")).collect();
        let (x, y, expected) = (&numbers[..n], &numbers[n..2 * n], &numbers[2 * n..]);
        let tau = kendall(x, y).expect("both vary");
        let got = [pearson(x, y).expect("both vary"), spearman(x, y).expect("both vary"), tau.tau_b, tau.tau_c];
        assert_eq!(expected.len(), got.len());
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-12, "{name}: {got}, expected {expected}");
        }
    }
}
