//! Smoothing and downsampling of curves.

/// Maximum number of points of a drawn curve.
const MAX_POINTS: usize = 400;
/// Number of smoothing windows in a curve.
const WINDOWS: usize = 40;

/// Downsamples a curve to at most [`MAX_POINTS`] points: the means of consecutive points.
pub(super) fn downsampled(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = points.len().div_ceil(MAX_POINTS).max(1);
    let mean =
        |group: &[(f64, f64)], get: fn(&(f64, f64)) -> f64| group.iter().map(get).sum::<f64>() / point_count(group);
    points.chunks(size).map(|group| (mean(group, |p| p.0), mean(group, |p| p.1))).collect()
}

/// Smooths a curve by the mean of a window around each point. The window is centred, so unlike a running average the
/// result does not lag. Points without a whole window, at both ends, are left out.
pub(super) fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let half = points.len() / WINDOWS / 2;
    let width = 2 * half + 1;
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(points.iter().scan(0.0, |sum, point| {
            *sum += point.1;
            Some(*sum)
        }))
        .collect();
    let windows = points.windows(width).zip(sums.iter().zip(sums.iter().skip(width)));
    windows.map(|(window, (before, end))| (window[half].0, (end - before) / point_count(window))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2⁵³")]
fn point_count(points: &[(f64, f64)]) -> f64 {
    points.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downsampling_averages_consecutive_points() {
        let points: Vec<(f64, f64)> = (0..1000).map(|i| (f64::from(i), f64::from(i % 7))).collect();
        let thin = downsampled(&points);
        assert_eq!(thin.len(), 334);
        assert_eq!(thin[0], (1.0, 1.0));
        assert_eq!(downsampled(&points[..3]), points[..3]);
        assert_eq!(downsampled(&[]), []);
    }

    #[test]
    fn smoothing_is_centred_and_keeps_straight_lines() {
        // Windows of 13 points.
        let line: Vec<(f64, f64)> = (0..500).map(|i| (f64::from(i), 3.0 - 0.5 * f64::from(i))).collect();
        let smooth = smoothed(&line);
        assert!(smooth.iter().zip(&line[6..494]).all(|(got, wanted)| (got.1 - wanted.1).abs() < 1e-9));
        assert_eq!((smooth.len(), smooth[0].0, smooth[487].0), (488, 6.0, 493.0));
        // A step from 0 to 1 at 250: 249 sees 6 of its 13 points above.
        let step: Vec<(f64, f64)> = (0..500).map(|i| (f64::from(i), f64::from(i / 250))).collect();
        let smooth = smoothed(&step);
        assert!((smooth[243].1 - 6.0 / 13.0).abs() < 1e-12 && (smooth[244].1 - 7.0 / 13.0).abs() < 1e-12);
        assert!(smooth[237].1.abs() < 1e-12 && (smooth[250].1 - 1.0).abs() < 1e-12);
        assert_eq!(smoothed(&[]), []);
    }
}
