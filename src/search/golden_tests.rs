//! Comparison of ranks, recalls and confidence intervals of a search with numpy and scipy. `measure.py` wrote the
//! values, in `tests/golden/measure.txt`.

use std::collections::HashMap;
use std::str::FromStr;

use super::{Positives, ScoreFunction, Search, SearchRequest, VectorMatrix};
use pairloom_kernels::measure::recall::{RecallSummary, wilson_95};
use pairloom_tables::DEFAULT_CUTOFFS;

struct MeasureGoldenFile(HashMap<&'static str, Vec<&'static str>>);

impl MeasureGoldenFile {
    fn read() -> Self {
        let lines = include_str!("../../tests/golden/measure.txt").lines();
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

#[test]
fn ranks_recalls_and_intervals_are_those_of_numpy_and_scipy() {
    let golden = MeasureGoldenFile::read();
    let [width] = golden.get::<usize>("width")[..] else { panic!("one width") };
    let (images, captions) = (golden.get::<f32>("images"), golden.get::<f32>("captions"));
    let image_of: Vec<usize> = golden.get("image_of");
    let captions_of = |image| (0..image_of.len()).filter(|&c| image_of[c] == image).collect::<Vec<_>>();

    let image_positives: Vec<Vec<usize>> = (0..images.len() / width).map(captions_of).collect();
    let caption_positives: Vec<Vec<usize>> = image_of.iter().map(|&image| vec![image]).collect();
    let images = VectorMatrix::new("images", &images, width).expect("good vectors");
    let captions = VectorMatrix::new("captions", &captions, width).expect("good vectors");
    let search = Search::from_vectors(&images, &captions, ScoreFunction::Product, 2).expect("of one width");
    let [i2t, t2i] = [&image_positives, &caption_positives].map(|lists| SearchRequest {
        k: 3,
        positives: Positives::Lists(lists),
        ..SearchRequest::default()
    });
    let found = search.find(&i2t, &t2i, &mut |_, _| Ok(())).expect("possible");

    for (direction, found) in ["i2t", "t2i"].into_iter().zip(&found) {
        let get = |name: &str| golden.get::<usize>(&format!("{direction}_{name}"));
        let all: Vec<_> = found.ranks.iter().map(|rank| rank.expect("every query has a match")).collect();
        let ranks: Vec<usize> = all.iter().map(|rank| rank.rank).collect();
        assert_eq!(ranks, get("rank"), "{direction}");
        assert_eq!(all.iter().map(|rank| rank.optimistic).collect::<Vec<_>>(), get("optimistic"), "{direction}");
        assert_eq!(all.iter().map(|rank| rank.pessimistic).collect::<Vec<_>>(), get("pessimistic"), "{direction}");
        let top3: Vec<usize> = found.top.iter().flatten().map(|best| best.item).collect();
        assert_eq!(top3, get("top3"), "{direction}");

        let got = RecallSummary::of(&ranks, &DEFAULT_CUTOFFS).expect("there are queries");
        let expected = |name: &str| golden.get::<f64>(&format!("{direction}_{name}"));
        let close = |got: &[f64], expected: &[f64]| {
            assert_eq!(got.len(), expected.len());
            assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{got:?} {expected:?}");
        };
        close(&got.recalls, &expected("recalls"));
        close(&[got.medr, got.meanr], &expected("middle"));
        for (k, recall) in DEFAULT_CUTOFFS.into_iter().zip(got.recalls) {
            let (low, high) = wilson_95(recall, ranks.len());
            close(&[low, high], &expected(&format!("wilson_{k}")));
        }
    }
}
