//! Mutual proximity.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::defined::Sides;
use super::method::{Learns, RankingMethod};
use crate::error::{Error, Result};
#[cfg(test)]
use crate::kernels::hubness::empirical_proximity::empirical_proximity;
use crate::kernels::hubness::empirical_proximity::{EmpiricalProximity, Lists};
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;
use crate::kernels::hubness::method::Correction;
use crate::kernels::hubness::mutual_proximity as kernel;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::Ranker;
use crate::retrieval::scores::{Set, missing};
use crate::search::Progress;

/// How probable it is that both are nearer to each other than to others (Schnitzer et al., 2012).
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct MutualProximity {
    /// How distances of others are known.
    pub distribution: Distribution,
    /// True if queries are those of the bank.
    pub bank: bool,
}

/// How mutual proximity knows the distances of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// By their mean and deviation, as those of a normal distribution: two numbers an item.
    #[default]
    Normal,
    /// One by one: all scores of both sides, sorted, 4 bytes each. An error where that is more than 2 GiB; 5,000 images and
    /// 25,000 captions that learn from each other have 0.9 GiB.
    Empirical,
}

/// Bytes of the lists of empirical mutual proximity, at most.
const LISTED: usize = 2 << 30;

impl RankingMethod for MutualProximity {
    fn learns(&self) -> Learns {
        Learns::from_bank(self.bank)
    }

    fn corrections(&self, ranker: &Ranker<'_>, across: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        match self.distribution {
            Distribution::Normal => ranker.by_statistics(&self.normal(), across, progress),
            Distribution::Empirical => self.empirical(ranker, progress),
        }
    }

    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix> {
        match self.distribution {
            Distribution::Normal => self.normal().defined(sides),
            Distribution::Empirical => {
                let of = if self.bank { (&sides.bank, &sides.of_queries) } else { (&sides.test, &sides.test) };
                Some(empirical_proximity(&sides.test, of.0, of.1))
            }
        }
    }
}

impl MutualProximity {
    fn normal(self) -> kernel::MutualProximity {
        kernel::MutualProximity { bank: self.bank }
    }

    /// Sorted scores of every image and of every caption, with the other side of the test or with that of the bank.
    fn empirical(self, ranker: &Ranker<'_>, progress: &mut dyn Progress) -> Result<Corrections> {
        let others = if self.bank { [Set::BankCaptions, Set::BankImages] } else { [Set::Captions, Set::Images] };
        let [captions, images] = others.map(|set| ranker.scores.size(set).ok_or_else(|| missing(set)));
        fits([(ranker.counts[0], captions?), (ranker.counts[1], images?)])?;
        let rising = |_: usize, scores: &mut [f32]| {
            scores.sort_unstable_by(f32::total_cmp);
            scores.to_vec()
        };
        let own = [Set::Images, Set::Captions];
        let mut lists = |direction: usize| -> Result<Arc<Lists>> {
            let lists = if self.bank {
                ranker.scores.search(own[direction], others[direction])?.map_rows(rising, progress)?
            } else {
                ranker.searches[direction].map_rows(rising, progress)?
            };
            Ok(Arc::new(Lists::new(lists)))
        };
        let (of_images, of_captions) = (lists(0)?, lists(1)?);
        let make = |items: &Arc<Lists>, queries: &Arc<Lists>| {
            Box::new(EmpiricalProximity::new(Arc::clone(items), Arc::clone(queries))) as Box<dyn Correction>
        };
        Ok(Corrections::Rows([make(&of_captions, &of_images), make(&of_images, &of_captions)]))
    }
}

/// Refuses lists of more than [`LISTED`] bytes, of two sides that each have so many vectors and as many others beside them.
fn fits(sides: [(usize, usize); 2]) -> Result<()> {
    let bytes = EmpiricalProximity::bytes(sides);
    if bytes <= LISTED {
        return Ok(());
    }
    let [(images, captions), (own_captions, of_images)] = sides;
    let message = format!(
        "all scores of {images} images with {captions} captions and of {own_captions} captions with {of_images} images take \
         {} MiB, wanted at most {} MiB",
        bytes >> 20,
        LISTED >> 20
    );
    Err(Error::usage(message).hint("folds or a bank of fewer images; `distribution = \"normal\"` takes any size"))
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_any_size_are_counted() {
        // COCO-5K with itself: 1 GB. With its training split as a bank: 2 · 5,000 · 566,435 scores or so.
        fits([(5_000, 25_000), (25_000, 5_000)]).expect("a GB");
        let error = fits([(5_000, 566_435), (25_000, 113_287)]).expect_err("22 GB");
        assert!(error.to_string().contains("take 21607 MiB, wanted at most 2048 MiB"), "{error}");
        assert_eq!(EmpiricalProximity::bytes([(usize::MAX, 2), (1, 1)]), usize::MAX);
    }
}
