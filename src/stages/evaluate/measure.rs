//! What one direction of one fold is measured by.

use super::means::Means;
use super::pool::Task;
use super::ranking::Found;
use super::results::Measured;
use super::rows::Direction;
use crate::error::{Error, Result};
use crate::kernels::measure::hubs::{Hubs, NeighbourTable, occurrences};
use crate::kernels::measure::recall::{CUTOFFS, Retrieval};

/// What is kept of a fold for the intervals of its sums.
pub(super) struct Fold {
    pub(super) images: usize,
    pub(super) directions: [Asked; 2],
}

/// What the queries of one direction found.
pub(super) struct Asked {
    /// Of each query that has a match: whether one is among the first, at each of [`CUTOFFS`].
    pub(super) hits: Vec<[bool; 3]>,
    /// The image of each of them, from 0 in the fold.
    pub(super) image_of: Vec<usize>,
    /// Of each query, with a match or without: the items that it found, best first; nothing of a matching.
    pub(super) ranked: Vec<Vec<usize>>,
    /// The image of each of those.
    pub(super) image_of_query: Vec<usize>,
    /// Items in the pool.
    pub(super) items: usize,
}

/// What is measured of one direction.
pub(super) struct Question<'q> {
    pub(super) task: &'q Task<'q>,
    /// The image of every query, from 0 in the fold.
    pub(super) images: Vec<usize>,
    pub(super) cutoffs: &'q [usize],
    /// Of pairs that people rated: the relevant items of every query.
    pub(super) rated: &'q [(&'q str, Vec<Vec<usize>>)],
    /// What an error calls it.
    pub(super) place: String,
}

impl Question<'_> {
    /// The measures, and what intervals are made of; `N_k` of every item at each of [`CUTOFFS`].
    ///
    /// # Errors
    /// No query has a match, or none has a relevant item.
    pub(super) fn measure(&self, found: &Found) -> Result<(Measured, Asked, [Vec<usize>; 3])> {
        let items = self.task.items.0.len();
        let lists: Vec<Vec<usize>> = found.top.iter().map(|top| top.iter().map(|best| best.item).collect()).collect();
        let at = |k: usize, query: usize| -> &[usize] {
            match (&found.sets, CUTOFFS.iter().position(|&cutoff| cutoff == k)) {
                (Some(sets), Some(place)) => &sets[place][query],
                _ => &lists[query][..k.min(lists[query].len())],
            }
        };
        let mut means = Means::default();
        let (mut hits, mut image_of, mut ranks) = (Vec::new(), Vec::new(), Vec::new());
        for (query, matches) in self.task.matches.iter().enumerate().filter(|(_, matches)| !matches.is_empty()) {
            let is_hit = |item: &usize| matches.contains(item);
            hits.push(CUTOFFS.map(|k| at(k, query).iter().any(is_hit)));
            image_of.push(self.images[query]);
            match &found.sets {
                Some(_) => {
                    for k in CUTOFFS {
                        means.add_set(&at(k, query).iter().map(is_hit).collect::<Vec<_>>(), matches.len(), k);
                    }
                }
                None => {
                    ranks.extend(found.ranks[query].map(|rank| rank.rank));
                    let hits: Vec<bool> = lists[query].iter().map(is_hit).collect();
                    means.add_hits(&hits, matches.len(), self.cutoffs);
                }
            }
        }
        let retrieval = retrieval(&hits, &ranks)
            .ok_or_else(|| Error::data(format!("no caption belongs to an image of {}", self.place)))?;
        let rated = self.rated(found, &lists)?;
        let counts = CUTOFFS.map(|k| occurrences((0..lists.len()).map(|query| at(k, query)), items, k));
        let mut own = vec![0; items];
        self.task.matches.iter().flat_map(Clone::clone).for_each(|item| own[item] += 1);
        let found_by = [vec![1; items], own].map(|rows| NeighbourTable::of(&counts[0], &rows));
        let hubs = counts.each_ref().map(|counts| Hubs::of(counts));
        let n_queries = hits.len();
        // With other queries, a matching would be another one.
        let ranked = if found.sets.is_some() { Vec::new() } else { lists };
        let asked = Asked { hits, image_of, ranked, image_of_query: self.images.clone(), items };
        Ok((Measured { retrieval, hubs, found_by, means, rated, n_queries }, asked, counts))
    }

    /// Measures of what people rated, for rankings.
    fn rated(&self, found: &Found, lists: &[Vec<usize>]) -> Result<Vec<(String, Means)>> {
        if found.sets.is_some() {
            return Ok(Vec::new());
        }
        let measure = |(name, relevant): &(&str, Vec<Vec<usize>>)| {
            let mut means = Means::default();
            for (list, relevant) in lists.iter().zip(relevant) {
                let hits: Vec<bool> = list.iter().map(|item| relevant.contains(item)).collect();
                means.add_hits(&hits, relevant.len(), self.cutoffs);
            }
            if means.is_empty() {
                return Err(Error::data(format!("no pair of {} is relevant by `{name}`", self.place)));
            }
            Ok(((*name).to_owned(), means))
        };
        self.rated.iter().map(measure).collect()
    }
}

/// The image of every query: itself, or that of its caption.
pub(super) fn images_of(task: &Task<'_>, direction: Direction) -> Vec<usize> {
    match direction {
        Direction::ImageToText => (0..task.matches.len()).collect(),
        Direction::TextToImage => task.matches.iter().map(|matches| matches.start).collect(),
    }
}

/// Recalls from hits; median and mean from ranks, where there are any.
#[expect(clippy::cast_precision_loss, reason = "queries are far below 2⁵³")]
fn retrieval(hits: &[[bool; 3]], ranks: &[usize]) -> Option<Retrieval> {
    if hits.is_empty() {
        return None;
    }
    let recall = |place: usize| 100.0 * hits.iter().filter(|hits| hits[place]).count() as f64 / hits.len() as f64;
    let sets = Retrieval { r1: recall(0), r5: recall(1), r10: recall(2), medr: f64::NAN, meanr: f64::NAN };
    Some(Retrieval::of(ranks).unwrap_or(sets))
}
