//! DisSimLocal: distances minus the distances of the query and of the item to their local centroids.
//!
//! Hara, Suzuki, Kobayashi, Fukumizu, Radovanović, "Flattening the Density Gradient for Eliminating Spatial Centrality
//! to Reduce Hubness", AAAI 2016.

use super::method::{DenseScores, ShiftCorrection};

/// Correction of DisSimLocal: `d'(q, i) = ‖q − i‖² − ‖q − c(q)‖² − ‖i − c(i)‖²`. The local centroid c is the mean of
/// the `k` items nearest to the query, and of the `k` other items nearest to the item.
///
/// For unit vectors, so that ‖q − i‖² = 2 − 2·s. The ranking is by `s + ‖i − c(i)‖²/2`, one shift for each item. Needs
/// only the vectors of the items and the nearest items of each; no bank and no queries, so it is inductive. It is not
/// defined for order similarities, which have no centroids.
///
/// # Shapes
/// - `items`, `queries`: [`squared_distance_to_centroid`] of every item and of every query; the latter may be empty if
///   scores of different queries are not compared
///
/// # Cost
/// The nearest items of every item, and `O(k·width)` for each; then one subtraction for each score.
#[must_use]
pub fn dis_sim_local_correction(items: &[f64], queries: &[f64]) -> ShiftCorrection {
    let half = |squares: &[f64]| squares.iter().map(|square| -square / 2.0).collect();
    ShiftCorrection::new(half(items), half(queries))
}

/// Squared distance ‖x − c‖² of a vector to the centroid of its neighbours; 0 if it has none.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "neighbours are few")]
pub fn squared_distance_to_centroid<'v>(vector: &[f32], neighbours: impl IntoIterator<Item = &'v [f32]>) -> f64 {
    let (mut sums, mut count) = (vec![0.0; vector.len()], 0usize);
    for neighbour in neighbours {
        sums.iter_mut().zip(neighbour).for_each(|(sum, &x)| *sum += f64::from(x));
        count += 1;
    }
    if count == 0 {
        return 0.0;
    }
    vector.iter().zip(&sums).map(|(&x, sum)| (f64::from(x) - sum / count as f64).powi(2)).sum()
}

/// The definition, on rows of `width`: distances, so that lower is closer.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "neighbours are few")]
pub fn dis_sim_local(queries: &[f64], items: &[f64], width: usize, k: usize) -> DenseScores {
    let row = |rows: &'_ [f64], i: usize| rows[i * width..][..width].to_vec();
    let squared = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let count = items.len() / width;
    let centre = |vector: &[f64], but: Option<usize>| {
        let mut near: Vec<usize> = (0..count).filter(|&i| Some(i) != but).collect();
        near.sort_by(|&a, &b| squared(vector, &row(items, a)).total_cmp(&squared(vector, &row(items, b))));
        near.truncate(k);
        (0..width).map(|x| near.iter().map(|&i| items[i * width + x]).sum::<f64>() / near.len() as f64).collect()
    };
    let off = |vector: &[f64], but: Option<usize>| -> f64 {
        let centre: Vec<f64> = centre(vector, but);
        squared(vector, &centre)
    };
    let item_offsets: Vec<f64> = (0..count).map(|i| off(&row(items, i), Some(i))).collect();
    let query_offsets: Vec<f64> = queries.chunks_exact(width).map(|query| off(query, None)).collect();
    DenseScores::from_fn(query_offsets.len(), count, |q, i| {
        squared(&row(queries, q), &row(items, i)) - query_offsets[q] - item_offsets[i]
    })
}
