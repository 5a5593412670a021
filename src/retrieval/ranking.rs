//! Ranking of the images and captions of a pool.

use std::cell::OnceCell;

use super::collection::RetrievalTask;
use super::corrections::Corrections;
use super::scores::{PoolScores, ScoreSet};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::measure::rank::BestMatchRank;
use pairloom_kernels::top_k::ScoredItem;
use pairloom_search::{Positives, Search, SearchProgress, SearchRequest, SearchResults};

/// Rankings of the queries of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Rankings {
    /// Best items of every query, best first; for a matching those of the last cut-off.
    pub top: Vec<Vec<ScoredItem>>,
    /// Rank of the best match of every query; empty for a matching.
    pub ranks: Vec<Option<BestMatchRank>>,
    /// Sets of a matching: the items of every query for each cut-off.
    pub sets: Option<Vec<Vec<Vec<usize>>>>,
}

impl From<SearchResults> for Rankings {
    fn from(results: SearchResults) -> Self {
        Self { top: results.top, ranks: results.ranks, sets: None }
    }
}

/// Request to rank a pool: image to text, text to image.
#[derive(Clone, Copy)]
pub(super) struct RankingRequest<'w> {
    pub(super) tasks: &'w [RetrievalTask<'w>; 2],
    /// Number of items of each ranking.
    pub(super) depth: [usize; 2],
    /// Cut-offs; a matching is computed for each.
    pub(super) cutoffs: &'w [usize],
}

/// Ranker of a pool, whose vectors are packed once for all methods.
pub(super) struct Ranker<'v> {
    pub(super) scores: &'v dyn PoolScores,
    /// Searches of images with captions, and of captions with images, from the first use on.
    searches: [OnceCell<Search<'v>>; 2],
    /// Numbers of images and captions.
    pub(super) counts: [usize; 2],
}

impl<'v> Ranker<'v> {
    pub(super) fn new(scores: &'v dyn PoolScores) -> Result<Self> {
        let count = |set: ScoreSet| scores.size(set).ok_or_else(|| Error::internal("a pool without its sets"));
        let counts = [count(ScoreSet::Images)?, count(ScoreSet::Captions)?];
        Ok(Self { scores, searches: [OnceCell::new(), OnceCell::new()], counts })
    }

    /// Search of images with captions in direction 0, of captions with images in direction 1.
    ///
    /// # Errors
    /// As [`PoolScores::search`].
    pub(super) fn search(&self, direction: usize) -> Result<&Search<'v>> {
        let sets = [[ScoreSet::Images, ScoreSet::Captions], [ScoreSet::Captions, ScoreSet::Images]][direction];
        let made = &self.searches[direction];
        if made.get().is_none() {
            let search = self.scores.search(sets[0], sets[1])?;
            return Ok(made.get_or_init(|| search));
        }
        made.get().ok_or_else(|| Error::internal("a search that is not there"))
    }

    /// Ranks both directions in one pass by scores minus a shift of each item.
    fn rank_shifted(
        &self,
        shifts: [&[f64]; 2],
        wanted: &RankingRequest<'_>,
        progress: &mut dyn SearchProgress,
    ) -> Result<[SearchResults; 2]> {
        let request = |direction: usize| SearchRequest {
            k: wanted.depth[direction],
            positives: Positives::Lists(&wanted.tasks[direction].matches),
            item_shifts: shifts[direction],
            ..SearchRequest::default()
        };
        self.search(0)?.find(&request(0), &request(1), progress)
    }

    /// Ranks both directions by corrected scores.
    pub(super) fn rank_corrected(
        &self,
        corrections: &Corrections,
        wanted: &RankingRequest<'_>,
        progress: &mut dyn SearchProgress,
    ) -> Result<[Rankings; 2]> {
        match corrections {
            Corrections::Shifts(shifts) => {
                let [i2t, t2i] = shifts;
                Ok(self.rank_shifted([i2t.item_shifts(), t2i.item_shifts()], wanted, progress)?.map(Rankings::from))
            }
            Corrections::Rows(corrections) => {
                let mut one = |direction: usize| -> Result<Rankings> {
                    let positives = Positives::Lists(&wanted.tasks[direction].matches);
                    let (search, correction) = (self.search(direction)?, corrections[direction].as_ref());
                    Ok(search.rank_corrected(wanted.depth[direction], positives, correction, progress)?.into())
                };
                Ok([one(0)?, one(1)?])
            }
        }
    }
}
