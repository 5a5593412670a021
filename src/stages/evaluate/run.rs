//! The work of `evaluate`: every query of every fold of every protocol.

use std::ops::Range;

use super::pool::Pool;
use super::rows::{Direction, Measured, Place, Rankings, Results};
use super::settings::Evaluate;
use crate::error::{Error, Result};
use crate::kernels::measure::recall::Retrieval;
use crate::model::search::search;
use crate::stage::{Cx, Run};

/// Items kept of every ranking.
const TOP: usize = 10;
/// Queries whose rankings are written together.
const QUERIES: usize = 512;

impl Run for Evaluate {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        let pool = Pool::read(cx, &self.split)?;
        let n_images = pool.images.ids.len();
        let mut protocols = Vec::new();
        for &protocol in &self.protocols {
            protocols.push((protocol.label(&self.dataset, n_images), protocol.folds(n_images)?));
        }
        let queries = |fold: &Range<usize>| fold.len() + pool.captions_of(fold).len();
        let mut progress = Progress {
            done: 0,
            total: protocols.iter().flat_map(|(_, folds)| folds.iter().map(queries)).sum::<usize>() as u64,
        };

        let mut results = Results::default();
        for (protocol, folds) in &protocols {
            let mut measured = [Vec::new(), Vec::new()];
            for (fold, images) in folds.iter().enumerate() {
                for (direction, measured) in Direction::BOTH.into_iter().zip(&mut measured) {
                    let place = Place { protocol, fold, direction };
                    measured.push(rank(cx, &pool, images, place, &mut progress)?);
                }
            }
            results.add(protocol, measured)?;
        }
        cx.write("metrics", results.metrics()?)?;
        cx.write("summary", results.summary()?)
    }
}

/// Queries done, of all.
struct Progress {
    done: u64,
    total: u64,
}

/// Ranks one direction of the fold of these images, writes its rankings and measures them.
fn rank(
    cx: &mut Cx<'_>,
    pool: &Pool,
    images: &Range<usize>,
    place: Place<'_>,
    progress: &mut Progress,
) -> Result<Measured> {
    let task = pool.task(images, place.direction);
    let ((query_ids, queries), (item_ids, items)) = (task.queries, task.items);
    let indices: Vec<usize> = (0..item_ids.len()).collect();
    let mut rankings = Rankings::new(place);
    let mut ranks = Vec::with_capacity(query_ids.len());
    search(
        queries,
        items,
        pool.width,
        TOP,
        |query| &indices[task.matches[query].clone()],
        |query, found| {
            // An image without captions asks for nothing.
            if let Some(rank) = found.rank {
                ranks.push(rank.rank);
                rankings.push(query_ids[query], rank, found.top.iter().map(|top| (item_ids[top.item], top.score)));
            }
            progress.done += 1;
            if rankings.len() == QUERIES || query + 1 == query_ids.len() {
                cx.progress(progress.done, Some(progress.total));
                cx.write("rankings", rankings.take()?)?;
            }
            Ok(())
        },
    )?;
    let fold = place.fold;
    let retrieval = Retrieval::of(&ranks).ok_or_else(|| {
        Error::data(format!("no caption belongs to an image of fold {fold} of protocol `{}`", place.protocol))
    })?;
    Ok(Measured { retrieval, n_queries: ranks.len(), n_items: item_ids.len() })
}
