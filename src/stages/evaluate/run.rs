//! The work of `evaluate`: every query of every fold of every protocol.

use std::ops::Range;

use super::graded::{Lists, What, measure_fold};
use super::means::Means;
use super::pool::Pool;
use super::rated::Rated;
use super::results::{Measured, Pools, Results};
use super::rows::{Direction, Place, Rankings};
use super::settings::{Evaluate, input};
use super::similarity::Similarity;
use crate::error::{Error, Result};
use crate::kernels::measure::graded::depth;
use crate::kernels::measure::recall::Retrieval;
use crate::model;
use crate::model::search::{Scoring, search};
use crate::stage::{Cx, Run};

/// Items of every ranking that `rankings` keeps.
const TOP: usize = 10;
/// Queries whose rankings are written together.
const QUERIES: usize = 512;

impl Run for Evaluate {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        let pool = Pool::read(cx, &self.split, self.similarity)?;
        let n_images = pool.images.ids.len();
        let mut protocols = Vec::new();
        for &protocol in &self.protocols {
            let folds = protocol.folds(n_images)?;
            let first = folds.first().cloned().unwrap_or_default();
            let pools = Pools {
                protocol: protocol.label(&self.dataset, n_images),
                folds: folds.len(),
                n_images: first.len(),
                n_captions: pool.captions_of(&first).len(),
            };
            protocols.push((pools, folds));
        }
        let mut rated = Vec::new();
        for (number, relevance) in self.relevance.iter().enumerate().filter(|(_, of)| of.ratings.is_some()) {
            let at_least = relevance.at_least.unwrap_or(f64::INFINITY);
            rated.push((relevance.name.as_str(), Rated::read(cx, &input(number, "ratings"), at_least, &pool)?));
        }
        let graded: Vec<_> = self.relevance.iter().enumerate().filter(|(_, of)| of.similarity.is_some()).collect();
        let neighbours: Vec<usize> = graded.iter().flat_map(|(_, of)| of.neighbours()).copied().collect();

        let queries = |fold: &Range<usize>| fold.len() + pool.captions_of(fold).len();
        let total = protocols.iter().flat_map(|(_, folds)| folds.iter().map(queries)).sum::<usize>() as u64;
        let (similarity, pool, cutoffs) = (self.similarity, &pool, &self.cutoffs);
        let ranking = Ranking { similarity, pool, cutoffs, neighbours: &neighbours, rated: &rated };
        let (mut done, total) = (0, total * (1 + graded.len() as u64));
        let mut results = Results::default();
        let mut lists: Vec<Vec<[Lists; 2]>> = Vec::new();
        for (pools, folds) in &protocols {
            let mut measured = [Vec::new(), Vec::new()];
            let mut of_folds = Vec::new();
            for (fold, images) in folds.iter().enumerate() {
                let mut of_fold = [Lists::default(), Lists::default()];
                for ((direction, measured), lists) in Direction::BOTH.into_iter().zip(&mut measured).zip(&mut of_fold) {
                    let place = Place { protocol: &pools.protocol, fold, direction };
                    let lists = if graded.is_empty() { None } else { Some(lists) };
                    measured.push(ranking.rank(cx, images, place, lists, &mut done, total)?);
                }
                of_folds.push(of_fold);
            }
            lists.push(of_folds);
            results.add(pools, &measured)?;
        }
        // One after the other, so that one matrix of φ is held at a time.
        for (number, relevance) in graded {
            let similarity = Similarity::read(cx, &input(number, "similarity"), pool)?;
            for ((pools, folds), lists) in protocols.iter().zip(&lists) {
                let (mut unclear, mut asked) = (0, 0);
                let mut means = [Vec::new(), Vec::new()];
                for (images, lists) in folds.iter().zip(lists) {
                    let whole = pools.folds == 1 && images.end < n_images;
                    let what = What { cutoffs: &self.cutoffs, neighbours: relevance.neighbours(), whole };
                    let (fold, of_fold) = measure_fold(cx, &similarity, pool, images, lists, &what)?;
                    unclear += of_fold;
                    asked += queries(images);
                    means.iter_mut().zip(fold).for_each(|(folds, fold)| folds.push(fold));
                    done += queries(images) as u64;
                    cx.progress(done, Some(total));
                }
                if unclear > 0 {
                    let most = relevance.neighbours().iter().max().copied().unwrap_or(0);
                    let message = format!(
                        "{unclear} of {asked} queries of `{}` have fewer than {most} items with φ above 0: items that have \
                         nothing to do with them fill up what is relevant, the lower index first",
                        pools.protocol
                    );
                    cx.warn(format!("relevance `{}`", relevance.name), message);
                }
                results.add_graded(pools, &relevance.name, &means);
            }
        }
        cx.write("metrics", results.metrics()?)?;
        cx.write("summary", results.summary()?)
    }
}

/// What every direction of every fold is ranked with.
struct Ranking<'r> {
    similarity: model::similarity::Similarity,
    pool: &'r Pool,
    cutoffs: &'r [usize],
    neighbours: &'r [usize],
    rated: &'r [(&'r str, Rated)],
}

impl Ranking<'_> {
    /// Ranks one direction of the fold of these images, writes its rankings, measures them by what is known of relevance
    /// so far, and keeps in `lists` what the graded measures will need.
    fn rank(
        &self,
        cx: &mut Cx<'_>,
        images: &Range<usize>,
        place: Place<'_>,
        mut lists: Option<&mut Lists>,
        done: &mut u64,
        total: u64,
    ) -> Result<Measured> {
        let task = self.pool.task(images, place.direction);
        let ((query_ids, queries), (item_ids, items)) = (task.queries, task.items);
        let indices: Vec<usize> = (0..item_ids.len()).collect();
        let rated: Vec<_> = self.rated.iter().map(|(_, of)| of.of_fold(self.pool, images, place.direction)).collect();
        let most = |sizes: &mut dyn Iterator<Item = usize>| sizes.max().unwrap_or(0);
        let own = most(&mut task.matches.iter().map(Range::len));
        let relevant = most(&mut rated.iter().flatten().map(Vec::len));
        let keep = TOP.max(own).max(relevant).max(depth(self.cutoffs, self.neighbours, own));

        let mut rankings = Rankings::new(place);
        let mut ranks = Vec::with_capacity(query_ids.len());
        let (mut means, mut rated_means) = (Means::default(), vec![Means::default(); rated.len()]);
        search(
            Scoring { similarity: self.similarity, queries: place.direction.side() },
            queries,
            items,
            self.pool.width,
            keep,
            |query| &indices[task.matches[query].clone()],
            |query, found| {
                let matches = &task.matches[query];
                // An image without captions asks for nothing.
                if let Some(rank) = found.rank {
                    ranks.push(rank.rank);
                    let top = found.top.iter().take(TOP).map(|top| (item_ids[top.item], top.score));
                    rankings.push(query_ids[query], rank, top);
                    let hits: Vec<bool> = found.top.iter().map(|top| matches.contains(&top.item)).collect();
                    means.add_hits(&hits, matches.len(), self.cutoffs);
                }
                for (means, rated) in rated_means.iter_mut().zip(&rated) {
                    let hits: Vec<bool> = found.top.iter().map(|top| rated[query].contains(&top.item)).collect();
                    means.add_hits(&hits, rated[query].len(), self.cutoffs);
                }
                if let Some(lists) = &mut lists {
                    lists.push(found.top.iter().map(|top| top.item));
                }
                *done += 1;
                if rankings.len() == QUERIES || query + 1 == query_ids.len() {
                    cx.progress(*done, Some(total));
                    cx.write("rankings", rankings.take()?)?;
                }
                Ok(())
            },
        )?;
        let fold = place.fold;
        let retrieval = Retrieval::of(&ranks).ok_or_else(|| {
            Error::data(format!("no caption belongs to an image of fold {fold} of protocol `{}`", place.protocol))
        })?;
        let mut of_rated = Vec::with_capacity(rated.len());
        for ((name, _), means) in self.rated.iter().zip(rated_means) {
            if means.is_empty() {
                let message =
                    format!("no pair of fold {fold} of protocol `{}` is relevant by `{name}`", place.protocol);
                return Err(Error::data(message));
            }
            of_rated.push(((*name).to_owned(), means));
        }
        Ok(Measured { retrieval, means, rated: of_rated, n_queries: ranks.len() })
    }
}
