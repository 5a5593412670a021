//! Distances computed from similarities, for methods that are defined on distances.

/// Conversion of a similarity s into a distance d.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    /// Cosines: d² = 2 − 2·s, the squared Euclidean distance of unit vectors. If rounding makes s larger than 1, d is
    /// 0.
    Cosine,
    /// Order similarities, which are at most 0: d = −s.
    Order,
    /// Scores of at most 1 that no vectors define, such as those of cross attention: d = 1 − s.
    OneMinusScore,
}

/// Lower bound of distances that are divided by: the distance of duplicates is 0.
pub const MIN_DISTANCE: f64 = 1e-12;

impl Distance {
    /// d².
    #[must_use]
    pub fn squared(self, score: f64) -> f64 {
        match self {
            Self::Cosine => (2.0 - 2.0 * score).max(0.0),
            Self::Order => score.min(0.0).powi(2),
            Self::OneMinusScore => (1.0 - score).max(0.0).powi(2),
        }
    }

    /// Distance that is an affine function of the score: d² of cosines, d of other scores. So the mean of distances is the
    /// distance of the mean score.
    #[must_use]
    pub fn affine(self, score: f64) -> f64 {
        match self {
            Self::Cosine => (2.0 - 2.0 * score).max(0.0),
            Self::Order => (-score).max(0.0),
            Self::OneMinusScore => (1.0 - score).max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_scores_are_never_negative() {
        // Unit vectors at 60°: the third side of an equilateral triangle.
        assert_eq!((Distance::Cosine.squared(0.5), Distance::Cosine.affine(0.5)), (1.0, 1.0));
        assert_eq!(
            (Distance::Cosine.squared(-1.0), Distance::Order.squared(-3.0), Distance::Order.affine(-3.0)),
            (4.0, 9.0, 3.0)
        );
        assert_eq!((Distance::OneMinusScore.squared(-1.0), Distance::OneMinusScore.affine(0.25)), (4.0, 0.75));
        assert_eq!((Distance::OneMinusScore.squared(1.5), Distance::OneMinusScore.affine(1.5)), (0.0, 0.0));
        // No distance is below 0, whatever rounding does to scores.
        assert_eq!((Distance::Cosine.squared(1.0 + 1e-7), Distance::Cosine.affine(1.0 + 1e-7)), (0.0, 0.0));
        assert_eq!((Distance::Order.squared(1e-7), Distance::Order.affine(1e-7)), (0.0, 0.0));
    }
}
