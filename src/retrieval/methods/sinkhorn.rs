//! Sinkhorn normalisation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
use super::method::{Learns, RankingMethod};
use crate::error::{Error, Result};
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::problems::{Problems, none, not_a_temperature};
use crate::kernels::hubness::shift::Shift;
#[cfg(test)]
use crate::kernels::hubness::sinkhorn::sinkhorn;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::search::{Progress, Side};

/// Every item is found by as much of the queries as every other: potentials of Sinkhorn's iterations.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct Sinkhorn {
    /// Temperature, τ.
    pub tau: f64,
    /// Iterations.
    pub iterations: usize,
    /// True if queries are those of the bank.
    pub bank: bool,
}

impl Default for Sinkhorn {
    fn default() -> Self {
        Self { tau: 0.01, iterations: 10, bank: false }
    }
}

impl RankingMethod for Sinkhorn {
    fn learns(&self) -> Learns {
        Learns::from_bank(self.bank)
    }

    fn corrections(&self, ranker: &Ranker<'_>, _: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        let Self { tau, iterations, bank } = *self;
        let sides = [Side::Rows, Side::Columns];
        let potentials = if bank {
            let [of_captions, of_images] = ranker.banks()?;
            let mut all = of_captions.sinkhorn(tau, iterations, &sides[..1], progress)?;
            all.extend(of_images.sinkhorn(tau, iterations, &sides[1..], progress)?);
            // Queries of the bank have potentials, those of the test have none.
            for of in &mut all {
                of.queries.clear();
            }
            all
        } else {
            ranker.searches[0].sinkhorn(tau, iterations, &sides, progress)?
        };
        let mut shifts = potentials.into_iter().map(|of| Shift::new(of.items, of.queries));
        let (Some(i2t), Some(t2i)) = (shifts.next(), shifts.next()) else {
            return Err(Error::internal("potentials of one direction"));
        };
        Ok(Corrections::Shifts([i2t, t2i]))
    }

    fn problems(&self) -> Problems {
        not_a_temperature("tau", self.tau).into_iter().chain(none("iterations", self.iterations)).collect()
    }

    fn compares_queries(&self) -> bool {
        true
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        let (h, g) = sinkhorn(sides.bank_if(self.bank).unwrap_or(&sides.test), self.tau, self.iterations);
        let g = if self.bank { vec![0.0; sides.test.queries] } else { g };
        Some(Matrix::from_fn(sides.test.queries, sides.test.items, |q, i| sides.test.at(q, i) - h[i] - g[q]))
    }
}
