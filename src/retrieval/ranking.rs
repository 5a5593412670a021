//! Ranks the two sides of a pool against each other, by any method.

use super::collection::Task;
use super::corrections::Corrections;
use super::scores::{PoolScores, Set};
use crate::error::{Error, Result};
use crate::kernels::measure::rank::Rank;
use crate::kernels::top_k::Scored;
use crate::search::{Answer, Ask, Positives, Progress, Search};

/// Rankings of the queries of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Rankings {
    /// The best items of every query, best first; of a matching those of the last cut-off.
    pub top: Vec<Vec<Scored>>,
    /// How the best match of every query ranks; nothing of a matching.
    pub ranks: Vec<Option<Rank>>,
    /// Sets of a matching: for each cut-off the items of every query.
    pub sets: Option<Vec<Vec<Vec<usize>>>>,
}

impl From<Answer> for Rankings {
    fn from(answer: Answer) -> Self {
        Self { top: answer.top, ranks: answer.ranks, sets: None }
    }
}

/// Request to rank a pool: image to text, text to image.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'w> {
    pub(super) tasks: &'w [Task<'w>; 2],
    /// Items of each ranking.
    pub(super) depth: [usize; 2],
    /// Cut-offs that a matching is made for.
    pub(super) cutoffs: &'w [usize],
}

/// A pool, packed once for all methods.
pub(super) struct Ranker<'v> {
    pub(super) scores: &'v dyn PoolScores,
    /// Images with captions, and captions with images.
    pub(super) searches: [Search<'v>; 2],
    /// How many images and captions there are.
    pub(super) counts: [usize; 2],
}

impl<'v> Ranker<'v> {
    pub(super) fn new(scores: &'v dyn PoolScores) -> Result<Self> {
        let searches = [scores.search(Set::Images, Set::Captions)?, scores.search(Set::Captions, Set::Images)?];
        let count = |set: Set| scores.size(set).ok_or_else(|| Error::internal("a pool without its sets"));
        Ok(Self { scores, searches, counts: [count(Set::Images)?, count(Set::Captions)?] })
    }

    /// One pass for both directions, each item with a number that is taken off.
    fn by_shift(&self, shifts: [&[f64]; 2], wanted: &Wanted<'_>, progress: &mut dyn Progress) -> Result<[Answer; 2]> {
        let ask = |direction: usize| Ask {
            k: wanted.depth[direction],
            positives: Positives::Lists(&wanted.tasks[direction].matches),
            minus: shifts[direction],
            ..Ask::default()
        };
        self.searches[0].find(&ask(0), &ask(1), progress)
    }

    /// Rankings of images and of captions by corrected scores.
    pub(super) fn by_corrections(
        &self,
        corrections: &Corrections,
        wanted: &Wanted<'_>,
        progress: &mut dyn Progress,
    ) -> Result<[Rankings; 2]> {
        match corrections {
            Corrections::Shifts(shifts) => {
                let [i2t, t2i] = shifts;
                Ok(self.by_shift([i2t.items(), t2i.items()], wanted, progress)?.map(Rankings::from))
            }
            Corrections::Rows(corrections) => {
                let mut one = |direction: usize| -> Result<Rankings> {
                    let positives = Positives::Lists(&wanted.tasks[direction].matches);
                    let (search, correction) = (&self.searches[direction], corrections[direction].as_ref());
                    Ok(search.rank_corrected(wanted.depth[direction], positives, correction, progress)?.into())
                };
                Ok([one(0)?, one(1)?])
            }
        }
    }
}
