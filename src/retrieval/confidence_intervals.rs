//! Confidence intervals of rsum and hs-sum, for a random choice of test images. The hs-sum of a matching has none.

use super::direction_metrics::PoolHits;
use super::recall_intervals::{LEVEL, RESAMPLES, SEED};
use pairloom_kernels::measure::bootstrap::{QueryValues, bootstrap_interval};
use pairloom_kernels::measure::hs_sum_interval::{FoldRankings, RankedLists, hs_sum_interval};

/// 95 % confidence intervals (low, high) of the sums of a method.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConfidenceIntervals {
    pub(super) rsum: Option<(f64, f64)>,
    pub(super) hs_sum: Option<(f64, f64)>,
}

/// Computes the intervals of the means over `folds`. An image is resampled together with its captions, which are not
/// independent.
#[expect(clippy::cast_precision_loss, reason = "folds are few")]
pub(super) fn confidence_intervals(folds: &[PoolHits], cutoffs: &[usize]) -> ConfidenceIntervals {
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
    let measures: Vec<_> = values.iter().map(|(values, groups)| QueryValues { values, groups }).collect();
    let rsum = bootstrap_interval(&measures, images, RESAMPLES, LEVEL, SEED);
    let ranked = folds.iter().all(|fold| fold.directions.iter().all(|of| !of.lists.is_empty()));
    let folds: Vec<_> = folds.iter().map(lists).collect();
    ConfidenceIntervals { rsum, hs_sum: ranked.then(|| hs_sum_interval(&folds, cutoffs)).flatten() }
}

/// Ranked items of a fold.
fn lists(fold: &PoolHits) -> FoldRankings<'_> {
    let directions = fold.directions.iter();
    let lists = directions.map(|of| RankedLists { lists: &of.lists, groups: &of.image_of_query, items: of.items });
    FoldRankings { directions: lists.collect(), images: fold.images }
}
