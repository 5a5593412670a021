//! Ranks the two sides of a fold against each other, by any method.

use std::ops::Range;

use super::bank::BankVectors;
use super::corrections::Corrections;
use super::methods::{Method, Plan};
use crate::error::Result;
use crate::kernels::hubness::distance::Distance;
use crate::kernels::measure::rank::Rank;
use crate::kernels::top_k::Scored;
use crate::model::search::Searcher;
use crate::model::similarity::Similarity;
use crate::search::{Answer, Ask, Positives, Search, Side, Vectors, Watch};

/// What one direction found.
pub(super) struct Found {
    /// The best items of every query, best first; of a matching those of the last cut-off.
    pub(super) top: Vec<Vec<Scored>>,
    /// How the best match of every query ranks; nothing of a matching.
    pub(super) ranks: Vec<Option<Rank>>,
    /// Of a matching: for each of [`CUTOFFS`](crate::kernels::measure::recall::CUTOFFS) the items of every query.
    pub(super) sets: Option<[Vec<Vec<usize>>; 3]>,
}

impl From<Answer> for Found {
    fn from(answer: Answer) -> Self {
        Self { top: answer.top, ranks: answer.ranks, sets: None }
    }
}

/// Two sides, checked.
pub(super) struct Sides<'v> {
    pub(super) images: Vectors<'v>,
    pub(super) captions: Vectors<'v>,
}

impl<'v> Sides<'v> {
    pub(super) fn new(images: &'v [f32], captions: &'v [f32], width: usize) -> Result<Self> {
        Ok(Self {
            images: Vectors::new("images", images, width)?,
            captions: Vectors::new("captions", captions, width)?,
        })
    }

    pub(super) fn of_bank(bank: &'v BankVectors, width: usize) -> Result<Self> {
        let images = Vectors::new("images of the bank", &bank.images, width)?;
        Ok(Self { images, captions: Vectors::new("captions of the bank", &bank.captions, width)? })
    }
}

/// Which items match, and how many of the best are wanted: of images that look for captions, and the other way round.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'w> {
    pub(super) matches: [&'w [Range<usize>]; 2],
    pub(super) keep: [usize; 2],
}

/// A fold, packed once for all methods.
pub(super) struct Ranker<'v> {
    pub(super) sides: &'v Sides<'v>,
    pub(super) bank: Option<&'v Sides<'v>>,
    pub(super) searcher: Searcher,
    /// Images with captions, and captions with images.
    pub(super) searches: [Search<'v>; 2],
}

impl<'v> Ranker<'v> {
    pub(super) fn new(sides: &'v Sides<'v>, bank: Option<&'v Sides<'v>>, searcher: Searcher) -> Result<Self> {
        let searches = [
            searcher.search(&sides.images, &sides.captions, Side::Columns)?,
            searcher.search(&sides.captions, &sides.images, Side::Rows)?,
        ];
        Ok(Self { sides, bank, searcher, searches })
    }

    /// What images and captions find by a method.
    ///
    /// # Errors
    /// The method does not go with the similarity, or the first error of `watch`.
    pub(super) fn rank(&self, method: &Method, wanted: &Wanted<'_>, watch: Watch<'_>) -> Result<[Found; 2]> {
        let distance = match self.searcher.similarity() {
            Similarity::Cosine => Distance::Cosine,
            Similarity::Order { .. } => Distance::Order,
        };
        let found = match Plan::of(method, distance) {
            Plan::Nearest => self.by_shift(&[vec![], vec![]], wanted, watch).map(|found| found.map(Found::from)),
            Plan::Greedy(greedy, over) => self.greedy(&greedy, &over, watch),
            Plan::Assignment(k_best) => self.assignment(k_best, watch),
            plan => self.corrected(&plan, wanted, watch),
        };
        found.map_err(|error| error.context(format!("method `{}`", method.name())))
    }

    /// One pass for both directions, each item with a number that is taken off.
    pub(super) fn by_shift(
        &self,
        shifts: &[Vec<f64>; 2],
        wanted: &Wanted<'_>,
        watch: Watch<'_>,
    ) -> Result<[Answer; 2]> {
        let ask = |direction: usize| Ask {
            k: wanted.keep[direction],
            positives: Positives::Ranges(wanted.matches[direction]),
            minus: &shifts[direction],
            ..Ask::default()
        };
        self.searches[0].find(&ask(0), &ask(1), watch)
    }

    fn corrected(&self, plan: &Plan, wanted: &Wanted<'_>, watch: Watch<'_>) -> Result<[Found; 2]> {
        match self.corrections(plan, false, watch)? {
            Corrections::Shifts(shifts) => {
                let shifts = shifts.map(|shift| shift.items().to_vec());
                Ok(self.by_shift(&shifts, wanted, watch)?.map(Found::from))
            }
            Corrections::Rows(corrections) => {
                let mut one = |direction: usize| -> Result<Found> {
                    let positives = Positives::Ranges(wanted.matches[direction]);
                    let (search, correction) = (&self.searches[direction], corrections[direction].as_ref());
                    Ok(search.rank_corrected(wanted.keep[direction], positives, correction, watch)?.into())
                };
                Ok([one(0)?, one(1)?])
            }
        }
    }
}
