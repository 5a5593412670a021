//! Numbers of curves: smoothing, thinning, cumulative ranks.

/// Points of a curve that a screen can tell apart.
const POINTS: usize = 400;
/// Share of a course that the smoothed line looks back on.
const WINDOW: f64 = 0.02;

/// Means of consecutive groups of points, at most [`POINTS`] of them.
pub(super) fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = points.len().div_ceil(POINTS).max(1);
    let mean = |group: &[(f64, f64)], get: fn(&(f64, f64)) -> f64| group.iter().map(get).sum::<f64>() / length(group);
    points.chunks(size).map(|group| (mean(group, |p| p.0), mean(group, |p| p.1))).collect()
}

/// Exponential moving average over about the last 2 % of the course, without the pull to 0 of its start (as Adam corrects
/// its moments: Kingma and Ba, ICLR 2015).
pub(super) fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let keep = 1.0 - 1.0 / (length(points) * WINDOW).max(1.0);
    let (mut average, mut weight) = (0.0, 0.0);
    points
        .iter()
        .map(|&(x, y)| {
            average = keep * average + (1.0 - keep) * y;
            weight = keep * weight + (1.0 - keep);
            (x, average / weight)
        })
        .collect()
}

/// Ranks of queries, counted.
#[derive(Debug, Default)]
pub(super) struct Ranks(std::collections::BTreeMap<i64, usize>);

impl Ranks {
    pub(super) fn add(&mut self, rank: i64) {
        *self.0.entry(rank.max(0)).or_default() += 1;
    }

    /// (k, percentage of queries whose rank from 0 is below k), for every k where it changes.
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

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2⁵³")]
fn length(points: &[(f64, f64)]) -> f64 {
    points.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinning_keeps_the_mean_and_the_number_of_points_down() {
        let points: Vec<(f64, f64)> = (0..1000).map(|i| (f64::from(i), f64::from(i % 7))).collect();
        let thin = thinned(&points);
        assert_eq!(thin.len(), 334);
        assert_eq!(thin[0], (1.0, 1.0));
        assert_eq!(thinned(&points[..3]), points[..3]);
        assert_eq!(thinned(&[]), []);
    }

    #[test]
    fn smoothing_starts_at_the_first_value_and_keeps_a_constant() {
        let points: Vec<(f64, f64)> = (0..500).map(|i| (f64::from(i), 3.0)).collect();
        assert!(smoothed(&points).iter().all(|p| (p.1 - 3.0).abs() < 1e-12));
        // Ten points of the last half weigh 1 − 0.9^k: a step from 0 to 1 is half-way after 0.9^k = 1/2, k = 6.6.
        let step: Vec<(f64, f64)> = (0..500).map(|i| (f64::from(i), f64::from(i / 250))).collect();
        let smooth = smoothed(&step);
        assert!(smooth[249].1 < 1e-12 && smooth[255].1 < 0.5 && smooth[256].1 > 0.5 && smooth[499].1 > 0.999);
    }

    #[test]
    fn cumulative_ranks_are_recalls() {
        let mut ranks = Ranks::default();
        for rank in [0, 0, 4, 9] {
            ranks.add(rank);
        }
        assert_eq!(ranks.cumulative(), [(1.0, 50.0), (5.0, 75.0), (10.0, 100.0)]);
    }
}
