//! Nearest neighbour.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::method::{LearnsFrom, RankingMethod};
#[cfg(test)]
use super::reference_scores::ReferenceScores;
use crate::ranking::{DirectionCorrections, Ranker};
use pairloom_base::error::Result;
#[cfg(test)]
use pairloom_kernels::hubness::method::DenseScores;
use pairloom_kernels::hubness::method::ShiftCorrection;
use pairloom_search::SearchProgress;

/// Nearest neighbour: scores without any correction.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Nns {}

impl RankingMethod for Nns {
    fn learns_from(&self) -> LearnsFrom {
        LearnsFrom::Nothing
    }

    fn corrections(&self, _: &Ranker<'_>, _: bool, _: &mut dyn SearchProgress) -> Result<DirectionCorrections> {
        Ok(DirectionCorrections::Shifts([0, 1].map(|_| ShiftCorrection::new(Vec::new(), Vec::new()))))
    }

    fn compares_queries(&self) -> bool {
        true
    }

    #[cfg(test)]
    fn reference_scores(&self, reference: &ReferenceScores<'_>) -> Option<DenseScores> {
        Some(reference.test.clone())
    }
}
