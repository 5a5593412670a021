//! Nearest neighbour.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
use super::method::{Learns, RankingMethod};
use crate::error::Result;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::shift::Shift;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::search::Progress;

/// The nearest neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Nns {}

impl RankingMethod for Nns {
    fn learns(&self) -> Learns {
        Learns::Nobody
    }

    fn corrections(&self, _: &Ranker<'_>, _: bool, _: &mut dyn Progress) -> Result<Corrections> {
        Ok(Corrections::Shifts([0, 1].map(|_| Shift::new(Vec::new(), Vec::new()))))
    }

    fn compares_queries(&self) -> bool {
        true
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        Some(sides.test.clone())
    }
}
