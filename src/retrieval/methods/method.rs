//! Ranking method: the trait of every method of the list.

use crate::error::{Problem, Result};
use crate::kernels::hubness::distance::Distance;
use crate::kernels::hubness::problems::Problems;
use crate::retrieval::corrections::Corrections;
use crate::retrieval::ranking::{Ranker, Rankings, Wanted};
use crate::search::Progress;

#[cfg(test)]
use super::defined::Sides;
#[cfg(test)]
use crate::kernels::hubness::matrix::Matrix;

/// Scores that a method learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::retrieval) enum Learns {
    /// The query's own scores with the items, and no others.
    Nobody,
    /// Scores of the bank.
    Bank,
    /// Scores of all queries of the test.
    Test,
}

impl Learns {
    /// The bank, or the test.
    pub(super) fn from_bank(bank: bool) -> Self {
        if bank { Self::Bank } else { Self::Test }
    }
}

/// Settings around a method that it depends on.
#[derive(Debug, Clone, Copy)]
pub struct Given {
    /// True if there is a bank.
    pub bank: bool,
    /// True if there is a validation split.
    pub validation: bool,
    /// Scores that are corrected.
    pub scores: ScoreKind,
}

/// Kind of scores that a method corrects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScoreKind {
    /// Cosines of unit vectors.
    Cosine,
    /// Order similarities of vectors.
    Order,
    /// Scores of images with captions that a model gives, without vectors.
    Model,
}

impl ScoreKind {
    /// Reason why a method that compares items with items cannot use such scores.
    pub(super) fn between_items_refusal(self) -> Option<&'static str> {
        let message = "compares items with items, and these scores compare images with captions only";
        (self != Self::Cosine).then_some(message)
    }

    /// Distances that such scores stand for.
    pub(super) fn distance(self) -> Option<Distance> {
        match self {
            Self::Cosine => Some(Distance::Cosine),
            Self::Order => Some(Distance::Order),
            Self::Model => None,
        }
    }

    /// Reason why a method of distances cannot use such scores.
    pub(super) fn distance_refusal(self) -> Option<&'static str> {
        (self == Self::Model).then_some("scales distances, and scores of a model stand for none")
    }
}

/// A method to rank with: its settings, which serde and schemars know, and what it does with them.
///
/// Most methods only say how scores are corrected; a matching ranks by itself.
pub(in crate::retrieval) trait RankingMethod {
    /// Scores that it learns from.
    fn learns(&self) -> Learns;

    /// Corrections of scores, made of what the ranker offers.
    ///
    /// `across`: whether scores of different queries must compare.
    fn corrections(&self, ranker: &Ranker<'_>, across: bool, progress: &mut dyn Progress) -> Result<Corrections>;

    /// Rankings of all queries; those of corrected scores where the method says no more.
    fn rank(&self, ranker: &Ranker<'_>, wanted: &Wanted<'_>, progress: &mut dyn Progress) -> Result<[Rankings; 2]> {
        let corrections = self.corrections(ranker, false, progress)?;
        ranker.by_corrections(&corrections, wanted, progress)
    }

    /// Problems of its free numbers: the setting, and why.
    fn problems(&self) -> Problems {
        Problems::new()
    }

    /// Problems of methods inside of this one, which stands at `at`.
    fn inner_problems(&self, _at: &str, _given: Given) -> Vec<Problem> {
        Vec::new()
    }

    /// Settings that do not matter beside the others, and so are in no label.
    fn unused(&self) -> &'static [&'static str] {
        &[]
    }

    /// Reason why it cannot correct such scores, if it cannot.
    fn refusal(&self, _scores: ScoreKind) -> Option<&'static str> {
        None
    }

    /// True if its corrected scores of different queries compare, so that a matching can be made of them.
    fn compares_queries(&self) -> bool {
        false
    }

    /// True if results name the bank.
    fn uses_bank(&self) -> bool {
        self.learns() == Learns::Bank
    }

    /// The definition, on matrices in f64: scores by which queries rank, and which compare across queries where the method says
    /// so. `None` where it gives no scores.
    #[cfg(test)]
    fn defined(&self, sides: &Sides<'_>) -> Option<Matrix>;
}

/// The methods as methods that hold others know them.
pub(in crate::retrieval) trait Listed: RankingMethod + Sized {
    /// One of each, as it is where no settings are given.
    fn all() -> Vec<Self>;
    /// The name of the setting.
    fn name(&self) -> &'static str;
    /// Problems of its settings, which stand at `at`, beside the others.
    fn problems_at(&self, at: &str, given: Given) -> Vec<Problem>;
}
