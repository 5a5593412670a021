//! Intervals of rsum and hs-sum: had other images been in the test. A matching would be another one, so its hs-sum has none.

use super::measure::PoolFound;
use crate::kernels::measure::bootstrap::{OverQueries, bootstrap};
use crate::kernels::measure::hub_interval::{FoundFold, FoundLists, hs_sum_interval};

/// Draws of the interval of rsum.
const DRAWS: usize = 1000;
/// What part of the draws an interval holds.
const LEVEL: f64 = 0.95;
/// Intervals of the same results are the same.
const SEED: u64 = 0;

/// 95 % intervals (low, high) of the sums of a method.
#[derive(Debug, Clone, Copy)]
pub(super) struct Intervals {
    pub(super) rsum: Option<(f64, f64)>,
    pub(super) hs_sum: Option<(f64, f64)>,
}

/// The intervals of the means over `folds`. An image is drawn with its captions: they are not five draws.
#[expect(clippy::cast_precision_loss, reason = "folds are few")]
pub(super) fn intervals(folds: &[PoolFound], cutoffs: &[usize]) -> Intervals {
    let count = folds.len() as f64;
    let images: usize = folds.iter().map(|fold| fold.images).sum();
    let mut groups = 0;
    let mut values: Vec<(Vec<f64>, Vec<usize>)> = Vec::new();
    for fold in folds {
        for direction in &fold.directions {
            let of_images: Vec<usize> = direction.image_of.iter().map(|image| groups + image).collect();
            for cutoff in 0..cutoffs.len() {
                let hit = |hits: &Vec<bool>| if hits[cutoff] { 100.0 / count } else { 0.0 };
                values.push((direction.hits.iter().map(hit).collect(), of_images.clone()));
            }
        }
        groups += fold.images;
    }
    let measures: Vec<_> = values.iter().map(|(values, groups)| OverQueries { values, groups }).collect();
    let rsum = bootstrap(&measures, images, DRAWS, LEVEL, SEED);
    let ranked = folds.iter().all(|fold| fold.directions.iter().all(|of| !of.lists.is_empty()));
    let folds: Vec<_> = folds.iter().map(lists).collect();
    Intervals { rsum, hs_sum: ranked.then(|| hs_sum_interval(&folds, cutoffs)).flatten() }
}

/// What the queries of a fold found.
fn lists(fold: &PoolFound) -> FoundFold<'_> {
    let directions = fold.directions.iter();
    let lists = directions.map(|of| FoundLists { lists: &of.lists, groups: &of.image_of_query, items: of.items });
    FoundFold { directions: lists.collect(), images: fold.images }
}
