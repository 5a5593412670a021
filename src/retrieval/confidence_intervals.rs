//! Confidence intervals of recalls, rsum and hs-sum, for a random choice of test images. The hs-sum of a matching has
//! none.

use super::direction_metrics::PoolHits;
use pairloom_kernels::measure::bootstrap::{
    FoldRankings, QueryValues, RankedLists, bootstrap_interval, bootstrap_intervals, hs_sum_interval,
};
use pairloom_kernels::measure::recall::wilson_95;

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
            let image_groups: Vec<usize> = direction.image_of.iter().map(|image| groups + image).collect();
            for cutoff in 0..cutoffs.len() {
                let hit = |hits: &Vec<bool>| if hits[cutoff] { 100.0 / count } else { 0.0 };
                values.push((direction.hits.iter().map(hit).collect(), image_groups.clone()));
            }
        }
        groups += fold.images;
    }
    let measures: Vec<_> = values.iter().map(|(values, groups)| QueryValues { values, groups }).collect();
    let rsum = bootstrap_interval(&measures, images, RESAMPLES, LEVEL, SEED);
    let ranked = folds.iter().all(|fold| fold.directions.iter().all(|direction| !direction.lists.is_empty()));
    let folds: Vec<_> = folds.iter().map(lists).collect();
    ConfidenceIntervals { rsum, hs_sum: ranked.then(|| hs_sum_interval(&folds, cutoffs)).flatten() }
}

/// Ranked items of a fold.
fn lists(fold: &PoolHits) -> FoldRankings<'_> {
    let directions = fold.directions.iter();
    let lists = directions.map(|direction| RankedLists {
        lists: &direction.lists,
        groups: &direction.image_of_query,
        items: direction.items,
    });
    FoldRankings { directions: lists.collect(), images: fold.images }
}

/// Number of bootstrap resamples.
pub(super) const RESAMPLES: usize = 1000;
/// Confidence level.
pub(super) const LEVEL: f64 = 0.95;
/// Seed of the bootstrap; fixed, so that equal results have equal intervals.
pub(super) const SEED: u64 = 0;

/// Hits of the queries of a fold.
#[derive(Debug, Clone, Default)]
pub(super) struct FoldHits {
    /// 1 or 0 for each query.
    pub(super) hits: Vec<f64>,
    /// Image of each query, from 0 in the fold.
    pub(super) images: Vec<usize>,
}

impl FoldHits {
    /// Number of images that have queries.
    fn n_images(&self) -> usize {
        let mut there = vec![0; self.images.iter().max().map_or(0, |last| last + 1)];
        self.images.iter().for_each(|&image| there[image] = 1);
        there.iter().sum()
    }
}

/// 95 % confidence intervals, in percent, of recalls that are means over folds: (low, high) of each.
///
/// Wilson's interval, if every image has one query. The captions of an image are not independent: if an image has several
/// queries, the interval is that of the bootstrap over images, which draws an image with all its queries. If all queries
/// are hits, or none is, all resamples are equal; then it is Wilson's for the number of images.
///
/// # Shapes
/// - `recalls`: hits of each fold, for each recall
pub(super) fn recall_intervals(recalls: &[Vec<&FoldHits>]) -> Vec<(f64, f64)> {
    let clustered = recalls.iter().flatten().any(|hits| hits.n_images() < hits.hits.len());
    let bootstrap = if clustered { bootstrap_over_images(recalls) } else { None };
    let interval = |(number, folds): (usize, &Vec<&FoldHits>)| {
        let hits = || folds.iter().flat_map(|fold| &fold.hits);
        let varies = hits().any(|hit| Some(hit) != hits().next());
        match &bootstrap {
            Some(intervals) if varies => intervals[number],
            _ => {
                let n = |fold: &&FoldHits| if clustered { fold.n_images() } else { fold.hits.len() };
                wilson_95(mean_percent(folds), folds.iter().map(n).sum())
            }
        }
    };
    recalls.iter().enumerate().map(interval).collect()
}

/// Mean over folds of the percentage of hits.
#[expect(clippy::cast_precision_loss, reason = "queries are far below 2⁵³")]
fn mean_percent(folds: &[&FoldHits]) -> f64 {
    let percent = |fold: &&FoldHits| 100.0 * fold.hits.iter().sum::<f64>() / fold.hits.len() as f64;
    folds.iter().map(percent).sum::<f64>() / folds.len() as f64
}

/// Bootstrap intervals of the recalls, all from the same resamples of the images of all folds.
#[expect(clippy::cast_precision_loss, reason = "folds are few")]
fn bootstrap_over_images(recalls: &[Vec<&FoldHits>]) -> Option<Vec<(f64, f64)>> {
    let mut first_images = vec![0];
    for fold in 0..recalls.iter().map(Vec::len).max()? {
        let images_in = |folds: &Vec<&FoldHits>| folds.get(fold)?.images.iter().max().map(|last| last + 1);
        first_images.push(first_images[fold] + recalls.iter().filter_map(images_in).max().unwrap_or(0));
    }
    let (mut values, mut sums) = (Vec::new(), Vec::new());
    for folds in recalls {
        sums.push((values.len()..values.len() + folds.len()).collect());
        for (fold, first) in folds.iter().zip(&first_images) {
            let percent: Vec<f64> = fold.hits.iter().map(|hit| 100.0 * hit / folds.len() as f64).collect();
            values.push((percent, fold.images.iter().map(|image| first + image).collect::<Vec<_>>()));
        }
    }
    let measures: Vec<_> = values.iter().map(|(values, groups)| QueryValues { values, groups }).collect();
    bootstrap_intervals(&measures, &sums, *first_images.last()?, RESAMPLES, LEVEL, SEED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fold(hits: &[u8], per_image: usize) -> FoldHits {
        let images = (0..hits.len()).map(|query| query / per_image).collect();
        FoldHits { hits: hits.iter().map(|&hit| f64::from(hit)).collect(), images }
    }

    #[test]
    fn one_query_of_each_image_has_wilsons_interval() {
        let folds = [fold(&[1, 0, 0, 1, 1], 1), fold(&[0, 0, 1], 1)];
        let got = recall_intervals(&[folds.iter().collect(), vec![&folds[1]]]);
        assert_eq!(got, [wilson_95(f64::midpoint(60.0, 100.0 / 3.0), 8), wilson_95(100.0 / 3.0, 3)]);
    }

    /// Five captions of an image with the same hits carry the information of one: the interval is that of a fifth of the
    /// queries, √5 times as wide as Wilson's for all. For 50 % of 400 images, 1.96·2.5 = 4.9.
    #[test]
    fn captions_of_an_image_count_together() {
        let alike: Vec<u8> = (0..2000u16).map(|query| u8::from(query / 5 % 2 == 0)).collect();
        let different: Vec<u8> = (0..2000u16).map(|query| u8::from((query / 5 + query % 5) % 2 == 0)).collect();
        let [alike, different] = [fold(&alike, 5), fold(&different, 5)];
        let got = recall_intervals(&[vec![&alike], vec![&different]]);
        assert!((got[0].0 - 45.1).abs() < 0.5 && (got[0].1 - 54.9).abs() < 0.5, "{got:?}");
        // Every image has two or three hits of five: deviations of 10 % from the mean, 1.96·10/20 = 0.98.
        assert!((got[1].0 - 49.02).abs() < 0.1 && (got[1].1 - 50.98).abs() < 0.1, "{got:?}");
    }

    #[test]
    fn recalls_at_the_ends_have_wilsons_interval_of_the_images() {
        let [none, all] = [fold(&[0; 40], 5), fold(&[1; 40], 5)];
        assert_eq!(recall_intervals(&[vec![&none], vec![&all, &all]]), [wilson_95(0.0, 8), wilson_95(100.0, 16)]);
    }
}
