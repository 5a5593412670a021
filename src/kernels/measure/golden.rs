//! The measures against `tests/golden/measure.txt`, which numpy and scipy made (`measure.py` beside it).

use std::collections::HashMap;
use std::str::FromStr;

use super::interval::wilson_95;
use super::rank::best_rank_within;
use super::recall::{CUTOFFS, Retrieval};
use crate::kernels::dot::{dot, dot_error};
use crate::kernels::top_k::top_k_within;

struct Golden(HashMap<&'static str, Vec<&'static str>>);

impl Golden {
    fn read() -> Self {
        let lines = include_str!("../../../tests/golden/measure.txt").lines();
        Self(
            lines
                .filter_map(|line| {
                    let mut words = line.split(' ');
                    Some((words.next()?, words.collect()))
                })
                .collect(),
        )
    }

    fn get<T: FromStr>(&self, name: &str) -> Vec<T> {
        let parse = |word: &&str| word.parse().unwrap_or_else(|_| panic!("`{word}` in `{name}`"));
        self.0[name].iter().map(parse).collect()
    }
}

/// A sum in f32, backwards: as far from [`dot`] as a fast product may be.
fn rough(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).rev().fold(0.0, |sum, (a, b)| sum + a * b)
}

#[test]
fn ranks_recalls_and_intervals_are_those_of_numpy_and_scipy() {
    let golden = Golden::read();
    let [width] = golden.get::<usize>("width")[..] else { panic!("one width") };
    let (images, captions) = (golden.get::<f32>("images"), golden.get::<f32>("captions"));
    let image_of: Vec<usize> = golden.get("image_of");
    let captions_of = |image| (0..image_of.len()).filter(|&c| image_of[c] == image).collect::<Vec<_>>();

    for (direction, queries, items) in [("i2t", &images, &captions), ("t2i", &captions, &images)] {
        let get = |name: &str| golden.get::<usize>(&format!("{direction}_{name}"));
        let error = dot_error(width, 1.001, 1.001);
        let (mut ranks, mut top3) = (Vec::new(), Vec::new());
        for (q, query) in queries.chunks_exact(width).enumerate() {
            let positives = if direction == "i2t" { captions_of(q) } else { vec![image_of[q]] };
            let scores: Vec<f32> = items.chunks_exact(width).map(|item| rough(query, item)).collect();
            let exact = |item: usize| dot(query, &items[item * width..(item + 1) * width]);
            let rank = best_rank_within(&scores, error, exact, &positives).expect("every query has a match");
            assert_eq!(rank.rank, get("rank")[q], "{direction} {q}");
            assert_eq!(rank.optimistic, get("optimistic")[q], "{direction} {q}");
            assert_eq!(rank.pessimistic, get("pessimistic")[q], "{direction} {q}");
            ranks.push(rank.rank);
            top3.extend(top_k_within(&scores, error, exact, 3).iter().map(|scored| scored.item));
        }
        assert_eq!(top3, get("top3"));

        let got = Retrieval::of(&ranks).expect("there are queries");
        let wanted = |name: &str| golden.get::<f64>(&format!("{direction}_{name}"));
        let close = |got: &[f64], wanted: &[f64]| {
            assert_eq!(got.len(), wanted.len());
            assert!(got.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9), "{got:?} {wanted:?}");
        };
        close(&got.recalls(), &wanted("recalls"));
        close(&[got.medr, got.meanr], &wanted("middle"));
        for (k, recall) in CUTOFFS.into_iter().zip(got.recalls()) {
            let (low, high) = wilson_95(recall, ranks.len());
            close(&[low, high], &wanted(&format!("wilson_{k}")));
        }
    }
}
