//! Measures of two vectors: distances and similarities.

use pairloom_kernels::distance::{VectorValues, cosine_similarity, inner_product, l1_distance, l2_distance, l2_norm};

/// Measure of two vectors. The kernels of [`pairloom_kernels::distance`] have its formula.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum VectorMeasure {
    CosineDistance,
    CosineSimilarity,
    InnerProduct,
    NegativeInnerProduct,
    L2Distance,
    L1Distance,
}

impl VectorMeasure {
    /// All measures.
    pub(crate) const ALL: [Self; 6] = [
        Self::CosineDistance,
        Self::CosineSimilarity,
        Self::InnerProduct,
        Self::NegativeInnerProduct,
        Self::L2Distance,
        Self::L1Distance,
    ];

    /// Names of its function: the first is that of DataFusion or pgvector, the others are those of `DuckDB`, Doris and
    /// pgvector.
    pub(super) fn names(self) -> &'static [&'static str] {
        match self {
            Self::CosineDistance => &["cosine_distance", "array_cosine_distance", "list_cosine_distance"],
            Self::CosineSimilarity => &["cosine_similarity", "array_cosine_similarity", "list_cosine_similarity"],
            Self::InnerProduct => &[
                "inner_product",
                "array_inner_product",
                "list_inner_product",
                "dot_product",
                "array_dot_product",
                "list_dot_product",
            ],
            Self::NegativeInnerProduct => {
                &["negative_inner_product", "array_negative_inner_product", "list_negative_inner_product"]
            }
            Self::L2Distance => &["array_distance", "list_distance", "l2_distance"],
            Self::L1Distance => &["l1_distance", "array_l1_distance", "list_l1_distance"],
        }
    }

    /// Name of its function.
    pub(crate) fn name(self) -> &'static str {
        self.names()[0]
    }

    /// Measure whose function has this name or alias.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|measure| measure.names().contains(&name))
    }

    pub(super) fn description(self) -> &'static str {
        match self {
            Self::CosineDistance => {
                "Cosine distance 1 - cosine: 0 for equal directions, 2 for opposite ones. Missing if a vector is 0 or not finite."
            }
            Self::CosineSimilarity => {
                "Cosine of the angle between two vectors. Missing if a vector is 0 or not finite."
            }
            Self::InnerProduct => "Sum of the products of the values of two vectors.",
            Self::NegativeInnerProduct => "Inner product times -1, so that the nearest vector has the least.",
            Self::L2Distance => "Euclidean distance: the root of the sum of squared differences.",
            Self::L1Distance => "Sum of the absolute differences of the values of two vectors.",
        }
    }

    /// True if nearer vectors have larger values.
    pub(crate) fn is_similarity(self) -> bool {
        matches!(self, Self::CosineSimilarity | Self::InnerProduct)
    }

    /// True for a function of the angle between two vectors.
    pub(crate) fn is_cosine(self) -> bool {
        matches!(self, Self::CosineDistance | Self::CosineSimilarity)
    }

    /// Measure of `a` and `b`, where `norm_of_a` is the norm of `a` if it is known; `None` if there is none. A result that is
    /// not a number would sort before or after all numbers, so there is none, as for a cosine of zeros.
    pub(crate) fn of(self, a: VectorValues<'_>, norm_of_a: Option<f64>, b: VectorValues<'_>) -> Option<f64> {
        let cosine = || cosine_similarity(a, norm_of_a.unwrap_or_else(|| l2_norm(a)), b);
        let measure = match self {
            Self::CosineDistance => 1.0 - cosine()?,
            Self::CosineSimilarity => cosine()?,
            Self::InnerProduct => inner_product(a, b),
            Self::NegativeInnerProduct => -inner_product(a, b),
            Self::L2Distance => l2_distance(a, b),
            Self::L1Distance => l1_distance(a, b),
        };
        (!measure.is_nan()).then_some(measure)
    }
}
