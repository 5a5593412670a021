//! Best items of queries by a method, without relevance or measures.

use super::collection::RetrievalTask;
use super::direction::Direction;
use super::methods::{Method, MethodContext, ScoreKind};
use super::ranking::{Ranker, RankingRequest};
use super::scores::{ImageCaptionVectors, ScoreSource, VectorSource};
use pairloom_base::error::{Error, Problem, Result};
use pairloom_kernels::top_k::ScoredItem;
use pairloom_search::{CpuSearchFactory, SearchProgress};

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
    let bank = banks.first().map(|of_queries| {
        // A method that reads no items of a bank gets those that are ranked.
        let of_items = banks.get(1).copied().unwrap_or(items);
        ImageCaptionVectors::new(of_queries, of_items, width, " of the bank")
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
