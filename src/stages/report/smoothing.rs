//! Smoothing and thinning of curves.

/// Points of a curve that a screen can tell apart.
const POINTS: usize = 400;
/// Windows of the smoothed line that the course consists of.
const WINDOWS: usize = 40;

/// Means of consecutive groups of points, at most [`POINTS`] of them.
pub(super) fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = points.len().div_ceil(POINTS).max(1);
    let mean = |group: &[(f64, f64)], get: fn(&(f64, f64)) -> f64| group.iter().map(get).sum::<f64>() / length(group);
    points.chunks(size).map(|group| (mean(group, |p| p.0), mean(group, |p| p.1))).collect()
}

/// Mean over a window around each point, which narrows towards the ends so that it stays centred: unlike a running
/// average it does not lag behind.
pub(super) fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let half = points.len() / WINDOWS / 2;
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(points.iter().scan(0.0, |sum, point| {
            *sum += point.1;
            Some(*sum)
        }))
        .collect();
    let last = points.len().saturating_sub(1);
    points
        .iter()
        .enumerate()
        .map(|(at, &(x, _))| {
            let half = half.min(at).min(last - at);
            let (first, end) = (at - half, at + half + 1);
            (x, (sums[end] - sums[first]) / length(&points[first..end]))
        })
        .collect()
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
    fn smoothing_is_centred_and_keeps_straight_lines() {
        let line: Vec<(f64, f64)> = (0..500).map(|i| (f64::from(i), 3.0 - 0.5 * f64::from(i))).collect();
        assert!(smoothed(&line).iter().zip(&line).all(|(got, wanted)| (got.1 - wanted.1).abs() < 1e-9));
        // A step from 0 to 1 at 250, windows of 13 points: 249 sees 6 of its 13 points above.
        let step: Vec<(f64, f64)> = (0..500).map(|i| (f64::from(i), f64::from(i / 250))).collect();
        let smooth = smoothed(&step);
        assert!((smooth[249].1 - 6.0 / 13.0).abs() < 1e-12 && (smooth[250].1 - 7.0 / 13.0).abs() < 1e-12);
        assert!(smooth[243].1.abs() < 1e-12 && (smooth[256].1 - 1.0).abs() < 1e-12);
        assert_eq!(smoothed(&[]), []);
    }
}
