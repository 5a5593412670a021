//! Mutual proximity.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::method::{LearnsFrom, MethodContext, RankingMethod};
#[cfg(test)]
use super::reference_scores::ReferenceScores;
use crate::ranking::{DirectionCorrections, Ranker};
use crate::scores::{ScoreSet, missing_scores};
use pairloom_base::error::{Error, Problem, Result};
use pairloom_kernels::hubness::method::Correction;
#[cfg(test)]
use pairloom_kernels::hubness::method::DenseScores;
use pairloom_kernels::hubness::mutual_proximity as kernel;
#[cfg(test)]
use pairloom_kernels::hubness::mutual_proximity::empirical_proximity;
use pairloom_kernels::hubness::mutual_proximity::{EmpiricalMutualProximity, SortedScores};
use pairloom_search::SearchProgress;

/// Probability that the query and the item are nearer to each other than to others (Schnitzer et al., 2012).
#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(inline)]
pub struct MutualProximity {
    /// Distribution of the distances to others.
    pub distribution: Distribution,
    /// True to learn from the queries of the bank, false to learn from the test queries.
    pub query_bank: bool,
}

/// Distribution of the distances to others, for mutual proximity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Normal distribution with the mean and the standard deviation: two numbers for each item.
    #[default]
    Normal,
    /// Empirical distribution: all scores of both sides, sorted, 4 bytes each. More than 2 GiB is an error. The scores
    /// of 5,000 images and 25,000 captions take 0.9 GiB.
    Empirical,
}

/// Largest number of bytes of the sorted scores of empirical mutual proximity.
const MAX_LIST_BYTES: usize = 2 << 30;

impl RankingMethod for MutualProximity {
    fn learns_from(&self) -> LearnsFrom {
        LearnsFrom::from_bank(self.query_bank)
    }

    fn corrections(
        &self,
        ranker: &Ranker<'_>,
        comparable: bool,
        progress: &mut dyn SearchProgress,
    ) -> Result<DirectionCorrections> {
        match self.distribution {
            Distribution::Normal => ranker.statistical_corrections(&self.normal(), comparable, progress),
            Distribution::Empirical => self.empirical(ranker, progress),
        }
    }

    fn nested_problems(&self, at: &str, context: MethodContext) -> Vec<Problem> {
        let reads_items = self.query_bank && self.distribution == Distribution::Empirical;
        context.bank_items_problem(at).filter(|_| reads_items).into_iter().collect()
    }

    #[cfg(test)]
    fn reference_scores(&self, reference: &ReferenceScores<'_>) -> Option<DenseScores> {
        match self.distribution {
            Distribution::Normal => self.normal().reference_scores(reference),
            Distribution::Empirical => {
                let sides = if self.query_bank {
                    (&reference.bank, &reference.with_bank_items)
                } else {
                    (&reference.test, &reference.test)
                };
                Some(empirical_proximity(&reference.test, sides.0, sides.1))
            }
        }
    }
}

impl MutualProximity {
    fn normal(self) -> kernel::GaussianMutualProximity {
        kernel::GaussianMutualProximity { query_bank: self.query_bank }
    }

    /// Corrections from the sorted scores of every image with all captions and of every caption with all images. The
    /// captions and images on the other side are those of the bank or of the test split.
    fn empirical(self, ranker: &Ranker<'_>, progress: &mut dyn SearchProgress) -> Result<DirectionCorrections> {
        let others = if self.query_bank {
            [ScoreSet::BankCaptions, ScoreSet::BankImages]
        } else {
            [ScoreSet::Captions, ScoreSet::Images]
        };
        let [captions, images] = others.map(|set| ranker.scores.size(set).ok_or_else(|| missing_scores(set)));
        check_memory([(ranker.counts[0], captions?), (ranker.counts[1], images?)])?;
        let rising = |_: usize, scores: &mut [f32]| {
            scores.sort_unstable_by(f32::total_cmp);
            scores.to_vec()
        };
        let own = [ScoreSet::Images, ScoreSet::Captions];
        let mut lists = |direction: usize| -> Result<Arc<SortedScores>> {
            let lists = if self.query_bank {
                ranker.scores.search(own[direction], others[direction])?.map_rows(rising, progress)?
            } else {
                ranker.search(direction)?.map_rows(rising, progress)?
            };
            Ok(Arc::new(SortedScores::new(lists)))
        };
        let (image_lists, caption_lists) = (lists(0)?, lists(1)?);
        let make = |items: &Arc<SortedScores>, queries: &Arc<SortedScores>| {
            Box::new(EmpiricalMutualProximity::new(Arc::clone(items), Arc::clone(queries))) as Box<dyn Correction>
        };
        Ok(DirectionCorrections::Rows([make(&caption_lists, &image_lists), make(&image_lists, &caption_lists)]))
    }
}

/// Returns an error if the sorted scores take more than [`MAX_LIST_BYTES`] bytes. Each side is given as (number of its
/// vectors, number of vectors that each of them is compared with).
fn check_memory(sides: [(usize, usize); 2]) -> Result<()> {
    let bytes = EmpiricalMutualProximity::memory_bytes(sides);
    if bytes <= MAX_LIST_BYTES {
        return Ok(());
    }
    let [(images, captions), (own_captions, image_lists)] = sides;
    let message = format!(
        "all scores of {images} images with {captions} captions and of {own_captions} captions with {image_lists} images take \
         {} MiB, expected at most {} MiB",
        bytes >> 20,
        MAX_LIST_BYTES >> 20
    );
    Err(Error::usage(message)
        .hint("use folds or a bank with fewer images, or `distribution = \"normal\"`, which takes any size"))
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_are_too_large_are_refused() {
        // COCO-5K with itself: 1 GB. With its training split as a bank: 2 · 5,000 · 566,435 scores or so.
        check_memory([(5_000, 25_000), (25_000, 5_000)]).expect("a GB");
        let error = check_memory([(5_000, 566_435), (25_000, 113_287)]).expect_err("22 GB");
        assert!(error.to_string().contains("take 21607 MiB, expected at most 2048 MiB"), "{error}");
        assert_eq!(EmpiricalMutualProximity::memory_bytes([(usize::MAX, 2), (1, 1)]), usize::MAX);
    }
}
