//! Distances for methods that are defined on them, from similarities.

/// How a similarity becomes a distance d.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Distance {
    /// Cosines: d² = 2 − 2·s, the squared Euclidean distance of unit vectors. Rounding may leave s above 1; d is 0 there.
    Cosine,
    /// Order similarities, which are at most 0: d = −s.
    Order,
}

/// The smallest distance that is divided by: copies of each other are at no distance at all.
pub const SMALLEST: f64 = 1e-12;

impl Distance {
    /// d².
    #[must_use]
    pub fn squared(self, score: f64) -> f64 {
        match self {
            Self::Cosine => (2.0 - 2.0 * score).max(0.0),
            Self::Order => score.min(0.0).powi(2),
        }
    }

    /// What stands for a distance where the mean of several is asked for: d² of cosines, d of order similarities, so that
    /// the mean of distances is the distance of the mean score.
    #[must_use]
    pub fn linear(self, score: f64) -> f64 {
        match self {
            Self::Cosine => (2.0 - 2.0 * score).max(0.0),
            Self::Order => (-score).max(0.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_scores_are_never_negative() {
        // Unit vectors at 60°: the third side of an equilateral triangle.
        assert_eq!((Distance::Cosine.squared(0.5), Distance::Cosine.linear(0.5)), (1.0, 1.0));
        assert_eq!(
            (Distance::Cosine.squared(-1.0), Distance::Order.squared(-3.0), Distance::Order.linear(-3.0)),
            (4.0, 9.0, 3.0)
        );
        // Rounding leaves nobody nearer than copies.
        assert_eq!((Distance::Cosine.squared(1.0 + 1e-7), Distance::Cosine.linear(1.0 + 1e-7)), (0.0, 0.0));
        assert_eq!((Distance::Order.squared(1e-7), Distance::Order.linear(1e-7)), (0.0, 0.0));
    }
}
