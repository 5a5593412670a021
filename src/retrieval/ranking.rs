//! Ranking of the images and captions of a pool by a method, and of the best items of queries without measures.

use std::cell::OnceCell;

use super::collection::{Direction, RetrievalTask};
use super::methods::{Method, MethodContext, ScoreKind};
use super::scores::{ImageCaptionVectors, PoolScores, ScoreSet, ScoreSource, VectorSource};
use pairloom_base::error::{Error, Problem, Result};
use pairloom_kernels::hubness::method::{Correction, ShiftCorrection};
use pairloom_kernels::measure::recall::BestMatchRank;
use pairloom_kernels::top_k::ScoredItem;
use pairloom_search::{CpuSearchFactory, Positives, Search, SearchProgress, SearchRequest, SearchResults};
use pairloom_tables::rankings::RankingScope;

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
        request: &RankingRequest<'_>,
        progress: &mut dyn SearchProgress,
    ) -> Result<[SearchResults; 2]> {
        let request = |direction: usize| SearchRequest {
            k: request.depth[direction],
            positives: Positives::Lists(&request.tasks[direction].matches),
            item_shifts: shifts[direction],
            ..SearchRequest::default()
        };
        self.search(0)?.find(&request(0), &request(1), progress)
    }

    /// Ranks both directions by corrected scores.
    pub(super) fn rank_corrected(
        &self,
        corrections: &DirectionCorrections,
        request: &RankingRequest<'_>,
        progress: &mut dyn SearchProgress,
    ) -> Result<[Rankings; 2]> {
        match corrections {
            DirectionCorrections::Shifts(shifts) => {
                let [i2t, t2i] = shifts;
                Ok(self.rank_shifted([i2t.item_shifts(), t2i.item_shifts()], request, progress)?.map(Rankings::from))
            }
            DirectionCorrections::Rows(corrections) => {
                let mut one = |direction: usize| -> Result<Rankings> {
                    let positives = Positives::Lists(&request.tasks[direction].matches);
                    let (search, correction) = (self.search(direction)?, corrections[direction].as_ref());
                    Ok(search.rank_corrected(request.depth[direction], positives, correction, progress)?.into())
                };
                Ok([one(0)?, one(1)?])
            }
        }
    }
}

/// Corrections of both directions: image to text, text to image.
pub(super) enum DirectionCorrections {
    /// Shifts of the items, and of the queries to make scores of different queries comparable.
    Shifts([ShiftCorrection; 2]),
    /// Corrections of whole rows of scores.
    Rows([Box<dyn Correction>; 2]),
}

/// Label of a method: its name, its parameters, and its query bank.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodLabel {
    /// Name of the method: `nns`, `csls`.
    pub method: String,
    /// Parameters as text: `k = 10`; `None` if there are none.
    pub parameters: Option<String>,
    /// Name of the query bank that the method learned from, if any.
    pub bank: Option<String>,
    /// True if the result of a query depends on the other test queries.
    pub transductive: bool,
}

impl MethodLabel {
    /// Columns that are equal in all rows of a pool and a direction.
    pub(super) fn scope<'s>(&'s self, protocol: &'s str, fold: usize, direction: Direction) -> RankingScope<'s> {
        let (method, parameters) = (&self.method, self.parameters.as_deref());
        RankingScope { protocol, fold, method, parameters, direction: direction.name() }
    }
}

/// Ranks `items` for each of the `queries` by cosine scores that `method` corrects, and returns the best `depth` items
/// of each query, best first. A method that learns from queries learns from all of `queries`, or from the queries of the
/// first of `banks`. A method that learns from items of a bank too needs a second one.
///
/// # Shapes
/// `queries`, `items`, each of `banks`: unit vectors of `width`, one after the other
///
/// # Errors
/// The method needs a query bank or a validation split, or its settings are wrong. A vector is no unit vector. The first
/// error of `progress`.
///
/// # Cost
/// That of the method in [`evaluate`](super::evaluate).
pub fn rank_items(
    method: &Method,
    [queries, items]: [&[f32]; 2],
    banks: &[&[f32]],
    width: usize,
    depth: usize,
    threads: usize,
    progress: &mut dyn SearchProgress,
) -> Result<Vec<Vec<ScoredItem>>> {
    if let Some(problem) = cosine_problem(method, banks.len()) {
        return Err(Error::usage(format!("`{}` {}", problem.setting, problem.message)));
    }
    let factory = CpuSearchFactory { order: None, threads };
    let bank = banks.first().map(|bank_query_vectors| {
        // A method that reads no items of a bank gets those that are ranked.
        let bank_item_vectors = banks.get(1).copied().unwrap_or(items);
        ImageCaptionVectors::new(bank_query_vectors, bank_item_vectors, width, " of the bank")
    });
    let bank = bank.transpose()?;
    let source = VectorSource { images: queries, captions: items, width, bank: bank.as_ref(), factory: &factory };
    let counts = [queries, items].map(|vectors| vectors.len() / width.max(1));
    let pool = source.pool(&(0..counts[0]), &(0..counts[1]))?;
    let ranker = Ranker::new(&*pool)?;
    // Matches are needed for ranks only.
    let task = |direction, queries: usize| RetrievalTask {
        direction,
        query_ids: &[],
        item_ids: &[],
        matches: vec![vec![]; queries],
        image_of: (0..queries).collect(),
        image_ids: &[],
    };
    let tasks = [task(Direction::ImageToText, counts[0]), task(Direction::TextToImage, counts[1])];
    let request = RankingRequest { tasks: &tasks, depth: [depth, 0], cutoffs: &[depth] };
    let [ranked, _] = method.rank(&ranker, &request, progress)?;
    Ok(ranked.top)
}

/// Reason why cosines cannot be corrected by `method` with so many banks: settings that are wrong, or a bank that is
/// missing. `None` if they can.
#[must_use]
pub fn cosine_problem(method: &Method, banks: usize) -> Option<Problem> {
    let context = MethodContext {
        query_bank: banks > 0,
        bank_items: banks > 1,
        bank_pairs: banks > 1,
        has_validation_split: false,
        bank_of_validation: false,
        score_kind: ScoreKind::Cosine,
    };
    method.problems("method", context).into_iter().find(|problem| !problem.is_warning())
}
