//! SAM, the semantic adaptive margin: the margin of a triplet grows with the semantic distance of the negative from the
//! captions of the image (Biten, Mafla, Gómez, Karatzas, "Is An Image Worth Five Sentences?", WACV 2022, equation 7).
//!
//! Σᵢ \[(φᵢᵢ − φᵢⱼ)/τ + Sᵢⱼ − Sᵢᵢ\]₊ with caption j chosen for image i, + Σᵢ \[(φᵢᵢ − φᵢₖ)/τ + Sₖᵢ − Sᵢᵢ\]₊ with image
//! k chosen for caption i; φᵢⱼ is the similarity of caption j to the captions of image i.
//!
//! A margin is negative if the negative is more similar to the captions of the image than the matching caption is. A
//! query without negatives has no triplet.
//!
//! Published code ([`FormulaVariant::Official`]) differs in four ways:
//! - Both negatives are chosen along rows: the second one is also a caption j' of image i, and its term is
//!   \[… + Sᵢⱼ' − Sⱼ'ⱼ'\]₊, a term of caption j'.
//! - The matching pair is part of the ranking, and the second of the ranking is taken. So the nearest negative is
//!   chosen only if the matching pair ranks first; otherwise it is the second-nearest, or the pair itself. The same
//!   holds for the furthest. The second ranking is by Sᵢⱼ − Sⱼⱼ.
//! - The margins are swapped between the two terms, and taken from the row of the negative instead of the query's row:
//!   the first term has (φⱼⱼ − φ of j with j'(j))/τ, the second one (φⱼ'ⱼ' − φ of j' with j(j'))/τ.
//! - Margins above 1 are cut to 1.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FormulaVariant, check_positive};
use crate::setting_problems::check_plausible;
use pairloom_stage::Problem;

/// Triplets with a semantic adaptive margin (SAM: Biten et al., WACV 2022): the difference of the caption similarities
/// of the matching caption and the negative, divided by a temperature.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SemanticMargin {
    /// Temperature τ that divides the differences of caption similarities. The paper tries 3, 5 and 10.
    pub temperature: f64,
    /// Choice of the negative of a query.
    pub sampler: NegativeSampler,
    /// Keep the triplet loss with a constant margin beside this one.
    pub keep_triplet: bool,
    /// Formula of the paper or of the published code. The code differs in these points: both negatives are chosen along
    /// rows, as the second of a ranking that includes the matching pair. Margins are swapped between the directions and
    /// taken from the negative's row.
    pub variant: FormulaVariant,
    /// Weight of this term of the objective. The published code uses 5 beside three other terms.
    pub weight: f64,
    /// Upper limit of the margins. By default none for the paper's formula, and 1 for the published code's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest_margin: Option<f64>,
}

/// Choice of the negative of a query in its triplet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NegativeSampler {
    /// Negative with the highest score: "HN" in the paper, `soft` in the published code.
    Nearest,
    /// Negative with the lowest score: "SN" in the paper, where it is the best on average, `hard` in the published
    /// code.
    #[default]
    Furthest,
    /// Uniformly random negative: "RS" in the paper, `random` in the published code.
    Random,
}

impl Default for SemanticMargin {
    fn default() -> Self {
        Self {
            temperature: 3.0,
            sampler: NegativeSampler::default(),
            keep_triplet: true,
            variant: FormulaVariant::default(),
            weight: 1.0,
            largest_margin: None,
        }
    }
}

impl SemanticMargin {
    /// Upper limit of the margins; ∞ for none.
    #[must_use]
    pub fn margin_limit(&self) -> f64 {
        self.largest_margin.unwrap_or(match self.variant {
            FormulaVariant::Paper => f64::INFINITY,
            FormulaVariant::Official => 1.0,
        })
    }

    /// Checks the settings. Of those that are possible, but implausible, there are warnings with the usual values.
    #[must_use]
    pub fn problems(&self) -> Vec<Problem> {
        let largest = self.largest_margin.and_then(|largest| {
            let usual = (0.0..=f64::INFINITY, "usual is 1, and below 0 no negative counts");
            let wrong = || Problem::new("largest_margin", format!("got {largest}, expected a number"));
            if largest.is_nan() { Some(wrong()) } else { check_plausible("largest_margin", largest, usual) }
        });
        let own = [
            check_positive("temperature", self.temperature, (0.1..=1000.0, "usual is 3 to 10")),
            check_positive("weight", self.weight, (1e-3..=100.0, "usual is 1 to 5")),
            largest,
        ];
        own.into_iter().flatten().collect()
    }
}
