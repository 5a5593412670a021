//! Dual-bank Sinkhorn normalisation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
use super::method::{Learns, RankingMethod};
use crate::error::{Error, Result};
use crate::kernels::hubness::dual_bank_sinkhorn as kernel;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::problems::{Problems, none, not_a_temperature};
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::retrieval::scores::Set;
use crate::search::{Progress, Side, Vectors};

/// Sinkhorn's potentials of the items among those of the bank, from queries of the bank (2025).
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct DualBankSinkhorn {
    /// Temperature, τ.
    pub tau: f64,
    /// Iterations.
    pub iterations: usize,
}

impl Default for DualBankSinkhorn {
    fn default() -> Self {
        Self { tau: 0.01, iterations: 10 }
    }
}

impl RankingMethod for DualBankSinkhorn {
    fn learns(&self) -> Learns {
        Learns::Bank
    }

    fn corrections(&self, ranker: &Ranker<'_>, _: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        let one = |items: Set, beside: Set, queries: Set, captions, progress: &mut dyn Progress| {
            let vectors = |set: Set| ranker.scores.vectors(set);
            let (items, beside, queries) = (vectors(items)?, vectors(beside)?, vectors(queries)?);
            let rows = [items, beside].into_iter().flat_map(|side| (0..side.len()).map(|row| side.row(row)));
            let both = rows.collect::<Vec<_>>().concat();
            let both = Vectors::new("items and bank", &both, items.width())?;
            let search = ranker.scores.search_vectors(queries, &both, captions)?;
            let potentials = search.sinkhorn(self.tau, self.iterations, &[Side::Rows], progress)?;
            let potentials = potentials.first().ok_or_else(|| Error::internal("no potentials"))?;
            Ok::<_, Error>(kernel::correction(&potentials.items, items.len()))
        };
        Ok(Corrections::Shifts([
            one(Set::Captions, Set::BankCaptions, Set::BankImages, Side::Columns, progress)?,
            one(Set::Images, Set::BankImages, Set::BankCaptions, Side::Rows, progress)?,
        ]))
    }

    fn problems(&self) -> Problems {
        not_a_temperature("tau", self.tau).into_iter().chain(none("iterations", self.iterations)).collect()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        Some(sides.less(&kernel::dual_bank_sinkhorn(&sides.bank, &sides.within, self.tau, self.iterations)))
    }
}
