//! Statistics of a pool for ranking methods: of scores, activation sets of a query bank, nearest items.

use super::ranking::{DirectionCorrections, Ranker};
use super::scores::ScoreSet;
use pairloom_base::error::Result;
use pairloom_kernels::hubness::distance::Distance;
use pairloom_kernels::hubness::method::{
    Correction, ScoreStatistics, ShiftCorrection, Statistic, StatisticalMethod, activation_set,
};
use pairloom_search::{MatrixSide, Search, SearchProgress, SearchRequest};

/// Statistics of items over the query bank.
pub(super) struct ItemStatistics {
    /// Statistic of each item's scores with the bank.
    pub(super) statistic: Vec<f64>,
    /// For each item, true if it is in the activation set of the bank.
    pub(super) activated: Vec<bool>,
}

impl Ranker<'_> {
    /// Corrections by a statistical method. With `comparable`, corrected scores of different queries are comparable.
    pub(super) fn statistical_corrections(
        &self,
        method: &dyn StatisticalMethod,
        comparable: bool,
        progress: &mut dyn SearchProgress,
    ) -> Result<DirectionCorrections> {
        let both = self.statistics(method, comparable, progress)?.map(|statistics| method.correction(&statistics));
        Ok(match [shifts_of(both[0].as_ref(), self.counts[0]), shifts_of(both[1].as_ref(), self.counts[1])] {
            [Some(i2t), Some(t2i)] => DirectionCorrections::Shifts([i2t, t2i]),
            _ => DirectionCorrections::Rows(both),
        })
    }

    /// Statistics of both directions; those of queries only if they are needed.
    fn statistics(
        &self,
        method: &dyn StatisticalMethod,
        comparable: bool,
        progress: &mut dyn SearchProgress,
    ) -> Result<[ScoreStatistics; 2]> {
        let needs = method.required_statistics();
        // A method that needs no distances ignores this one.
        let distance = if needs.needs_distances { self.scores.distance()? } else { Distance::Cosine };
        let query_needs =
            if needs.queries_affect_ranking || comparable { needs.query_statistics.as_slice() } else { &[] };
        let (items, none) = (needs.item_statistics.len(), SearchRequest::default());
        let request = |statistics| SearchRequest { statistics, ..none };
        if !method.is_inductive() {
            let both = [needs.item_statistics.as_slice(), query_needs].concat();
            let [image_results, caption_results] = self.search(0)?.find(&request(&both), &request(&both), progress)?;
            let statistics = |items_side: &[Vec<f64>], queries_side: &[Vec<f64>]| ScoreStatistics {
                items: items_side[..items].to_vec(),
                queries: queries_side[items..].to_vec(),
                distance,
            };
            let (images, captions) = (image_results.statistics, caption_results.statistics);
            return Ok([statistics(&captions, &images), statistics(&images, &captions)]);
        }
        let [for_captions, for_images] = self.bank_searches()?;
        let captions = for_captions.find(&none, &request(&needs.item_statistics), progress)?[1].statistics.clone();
        let images = for_images.find(&request(&needs.item_statistics), &none, progress)?[0].statistics.clone();
        let [images_as_queries, captions_as_queries] = if query_needs.is_empty() {
            [Vec::new(), Vec::new()]
        } else {
            self.search(0)?
                .find(&request(query_needs), &request(query_needs), progress)?
                .map(|results| results.statistics)
        };
        Ok([
            ScoreStatistics { items: captions, queries: images_as_queries, distance },
            ScoreStatistics { items: images, queries: captions_as_queries, distance },
        ])
    }

    /// Searches of the bank's images with the captions of the pool, and of the images of the pool with the bank's
    /// captions.
    pub(super) fn bank_searches(&self) -> Result<[Search<'_>; 2]> {
        Ok([
            self.scores.search(ScoreSet::BankImages, ScoreSet::Captions)?,
            self.scores.search(ScoreSet::Images, ScoreSet::BankCaptions)?,
        ])
    }

    /// Statistics and activation sets of captions and of images over the queries of the bank; the first `k` items of a
    /// query of the bank are activated.
    pub(super) fn activation_statistics(
        &self,
        statistic: Statistic,
        k: usize,
        progress: &mut dyn SearchProgress,
    ) -> Result<[ItemStatistics; 2]> {
        let [for_captions, for_images] = self.bank_searches()?;
        Ok([
            bank_item_statistics(&for_captions, MatrixSide::Columns, statistic, k, progress)?,
            bank_item_statistics(&for_images, MatrixSide::Rows, statistic, k, progress)?,
        ])
    }

    /// Nearest item of every image and of every caption.
    pub(super) fn nearest_items(&self, progress: &mut dyn SearchProgress) -> Result<[Vec<usize>; 2]> {
        let request = SearchRequest { k: 1, ..SearchRequest::default() };
        let results = self.search(0)?.find(&request, &request, progress)?;
        Ok(results.map(|results| results.top.iter().map(|top| top.first().map_or(0, |best| best.item)).collect()))
    }
}

/// Statistics and activation set of the items on one side of a search, over the bank on the other side.
pub(super) fn bank_item_statistics(
    search: &Search<'_>,
    items: MatrixSide,
    statistic: Statistic,
    k: usize,
    progress: &mut dyn SearchProgress,
) -> Result<ItemStatistics> {
    let (bank, statistics) = (SearchRequest { k, ..SearchRequest::default() }, [statistic]);
    let own = SearchRequest { statistics: &statistics, ..SearchRequest::default() };
    let (bank_results, mut item_results) = match items {
        MatrixSide::Columns => search.find(&bank, &own, progress)?.into(),
        MatrixSide::Rows => {
            let [items, bank] = search.find(&own, &bank, progress)?;
            (bank, items)
        }
    };
    let statistic = item_results.statistics.swap_remove(0);
    let found: Vec<Vec<usize>> =
        bank_results.top.iter().map(|top| top.iter().map(|best| best.item).collect()).collect();
    let activated = activation_set(found.iter().map(Vec::as_slice), statistic.len());
    Ok(ItemStatistics { statistic, activated })
}

/// Shifts of a correction that only subtracts shifts; `None` for any other correction.
fn shifts_of(correction: &dyn Correction, queries: usize) -> Option<ShiftCorrection> {
    let items = correction.row_shifts(0)?.to_vec();
    let query_offset =
        |query: usize| correction.corrected_score(query, 0, 0.0) - correction.comparable_score(query, 0, 0.0);
    Some(ShiftCorrection::new(items, (0..queries).map(query_offset).collect()))
}
