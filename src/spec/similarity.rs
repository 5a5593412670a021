//! Similarity of the embeddings of an image and a caption.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use pairloom_kernels::order_similarity::OrderPenalty;

/// Similarity of the embeddings of an image and a caption.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum EmbeddingSimilarity {
    /// Cosine: the inner product of unit vectors.
    #[default]
    Cosine,
    /// Order embeddings (Vendrov et al., ICLR 2016): the negative of a penalty for entries of the caption that exceed
    /// the image's. Both are absolute values of unit vectors.
    Order {
        /// Penalty of the order violations.
        #[serde(default)]
        form: OrderPenalty,
    },
}

impl EmbeddingSimilarity {
    /// True if encoders return the absolute values of unit vectors.
    #[must_use]
    pub fn takes_absolute_values(self) -> bool {
        matches!(self, Self::Order { .. })
    }

    /// True if no score is above 0.
    #[must_use]
    pub fn is_never_positive(self) -> bool {
        matches!(self, Self::Order { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_deserialised() {
        let read = |text: &str| serde_json::from_str::<EmbeddingSimilarity>(text).expect("a similarity");
        assert_eq!(read(r#""cosine""#), EmbeddingSimilarity::Cosine);
        assert_eq!(read(r#"{"order":{}}"#), EmbeddingSimilarity::Order { form: OrderPenalty::Norm });
        assert_eq!(read(r#"{"order":{"form":"squared"}}"#), EmbeddingSimilarity::Order { form: OrderPenalty::Squared });
        assert!(serde_json::from_str::<EmbeddingSimilarity>(r#"{"order":{"from":"norm"}}"#).is_err());
    }
}
