//! Intervals of rsum and hs-sum: had other images been in the test. A matching would be another one, so its hs-sum has none.

use super::measure::Fold;
use crate::kernels::measure::bootstrap::{OverQueries, bootstrap};
use crate::kernels::measure::hub_interval::{FoundFold, FoundLists, hs_sum_interval};
use crate::kernels::measure::recall::CUTOFFS;

/// Draws of the interval of rsum.
const DRAWS: usize = 1000;
/// What part of the draws an interval holds.
const LEVEL: f64 = 0.95;
/// Intervals of the same results are the same.
const SEED: u64 = 0;

/// The intervals of rsum and of hs-sum, the means over `folds`. An image is drawn with its captions: they are not five draws.
#[expect(clippy::cast_precision_loss, reason = "folds are few")]
pub(super) fn intervals(folds: &[Fold]) -> [Option<(f64, f64)>; 2] {
    let count = folds.len() as f64;
    let images: usize = folds.iter().map(|fold| fold.images).sum();
    let mut groups = 0;
    let mut values: Vec<(Vec<f64>, Vec<usize>)> = Vec::new();
    for fold in folds {
        for direction in &fold.directions {
            let of_images: Vec<usize> = direction.image_of.iter().map(|image| groups + image).collect();
            for (place, _) in CUTOFFS.iter().enumerate() {
                let hit = |hits: &[bool; 3]| if hits[place] { 100.0 / count } else { 0.0 };
                values.push((direction.hits.iter().map(hit).collect(), of_images.clone()));
            }
        }
        groups += fold.images;
    }
    let measures: Vec<_> = values.iter().map(|(values, groups)| OverQueries { values, groups }).collect();
    let rsum = bootstrap(&measures, images, DRAWS, LEVEL, SEED);
    let ranked = folds.iter().all(|fold| fold.directions.iter().all(|of| !of.ranked.is_empty()));
    let hs_sum = if ranked { hs_sum_interval(&folds.iter().map(found).collect::<Vec<_>>()) } else { None };
    [rsum, hs_sum]
}

/// What the queries of a fold found.
fn found(fold: &Fold) -> FoundFold<'_> {
    let directions = fold.directions.iter();
    let lists = directions.map(|of| FoundLists { lists: &of.ranked, groups: &of.image_of_query, items: of.items });
    FoundFold { directions: lists.collect(), images: fold.images }
}
