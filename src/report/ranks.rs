//! Plot of recall by cut-off.

use std::collections::BTreeMap;

use plotters::coord::combinators::IntoLogRange;

use super::figure::Series::{A, B, Muted};
use super::figure::{Figure, legend_entry};
use super::page_data::{DIRECTIONS, ResultRow};
use super::plots::{Curve, axis_base, draw};
use pairloom_base::error::Result;

/// Histogram of the ranks of best matches.
#[derive(Debug, Default)]
pub(super) struct RankHistogram(BTreeMap<i64, usize>);

impl RankHistogram {
    pub(super) fn add(&mut self, rank: i64) {
        *self.0.entry(rank.max(0)).or_default() += 1;
    }

    /// Recall by cut-off: (k, percentage of queries with a rank below k, from 0), for every k where it changes.
    #[expect(clippy::cast_precision_loss, reason = "ranks and queries are far below 2⁵³")]
    pub(super) fn cumulative(&self) -> Vec<(f64, f64)> {
        let all: usize = self.0.values().sum();
        let mut below = 0;
        self.0
            .iter()
            .map(|(&rank, &count)| {
                below += count;
                (rank as f64 + 1.0, 100.0 * below as f64 / all as f64)
            })
            .collect()
    }
}

/// Plots the percentage of queries whose best match is among the first k items, by k.
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub(super) fn figure(ranks: &[RankHistogram; 2], pool: &ResultRow) -> Result<Option<Figure>> {
    let [i2t, t2i] = ranks.each_ref().map(RankHistogram::cumulative);
    if i2t.is_empty() || t2i.is_empty() {
        return Ok(None);
    }
    let most = pool.n_captions.max(pool.n_images).max(10);
    // Text to image: one match in a random order of the images.
    let by_chance = (0..=48).map(|step| {
        let k = (most as f64).powf(f64::from(step) / 48.0);
        (k, (100.0 * k / pool.n_images as f64).min(100.0))
    });
    let lines = [
        Curve::new(by_chance.collect(), Muted, 1),
        Curve::new(step_points(&t2i, most as f64), B, 2),
        Curve::new(step_points(&i2t, most as f64), A, 2),
    ];
    let svg = draw((1.0..most as f64).log_scale().base(axis_base(most as f64)), 0.0..100.0, "k", &lines, &[])?;
    let legend =
        vec![legend_entry(A, DIRECTIONS[0].name), legend_entry(B, DIRECTIONS[1].name), legend_entry(Muted, "chance")];
    Ok(Some(Figure { title: "Queries with a match among the first k items, percent".to_owned(), legend, svg }))
}

/// Points of a cumulative curve as a step function from 1 to `most`.
fn step_points(points: &[(f64, f64)], most: f64) -> Vec<(f64, f64)> {
    let mut steps = Vec::with_capacity(points.len() * 2 + 1);
    let mut height = 0.0;
    if points.first().is_some_and(|first| first.0 > 1.0) {
        steps.push((1.0, height));
    }
    for &(k, share) in points {
        if k > 1.0 {
            steps.push((k, height));
        }
        steps.push((k, share));
        height = share;
    }
    steps.push((most, height));
    steps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cumulative_counts_of_ranks_are_recalls() {
        let mut ranks = RankHistogram::default();
        for rank in [0, 0, 4, 9] {
            ranks.add(rank);
        }
        assert_eq!(ranks.cumulative(), [(1.0, 50.0), (5.0, 75.0), (10.0, 100.0)]);
    }
}
