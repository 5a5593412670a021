//! Wilson confidence interval of a proportion.
//!
//! Wilson, "Probable inference, the law of succession, and statistical inference", JASA 22, 1927. It stays
//! within [0, 100] and keeps its coverage near the ends, where the normal approximation has a width of 0.

/// The 97.5 % point of the standard normal distribution.
const Z: f64 = 1.959_963_984_540_054;

/// 95 % confidence interval (low, high) of a percentage that was measured on `n` queries; [0, 100] if `n` is 0.
///
/// `(p + z²/2n ± z·√(p(1−p)/n + z²/4n²)) / (1 + z²/n)`.
///
/// Queries are taken as independent. The captions of one image are not: their recalls have a bootstrap interval over
/// images.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "queries are far below 2⁵³")]
pub fn wilson_95(percent: f64, n: usize) -> (f64, f64) {
    if n == 0 {
        return (0.0, 100.0);
    }
    let (p, n) = (percent / 100.0, n as f64);
    let scale = 1.0 + Z * Z / n;
    let centre = (p + Z * Z / (2.0 * n)) / scale;
    let half = Z / scale * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    (100.0 * (centre - half).max(0.0), 100.0 * (centre + half).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At the ends the formula is simple: 0 of n gives [0, z²/(n + z²)]. The golden file has other cases.
    #[test]
    fn ends_are_exact() {
        let high = 100.0 * Z * Z / (10.0 + Z * Z);
        let (low, got) = wilson_95(0.0, 10);
        assert!(low.abs() < 1e-12 && (got - high).abs() < 1e-12);
        let (low, got) = wilson_95(100.0, 10);
        assert!((low - (100.0 - high)).abs() < 1e-12 && (got - 100.0).abs() < 1e-12);
        assert_eq!(wilson_95(50.0, 0), (0.0, 100.0));
    }
}
