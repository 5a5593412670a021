//! Statistics that methods may ask of a pool: sums over scores, what a bank retrieves, the nearest items.

use super::corrections::Corrections;
use super::ranking::Ranker;
use super::scores::Set;
use crate::error::{Error, Result};
use crate::kernels::hubness::distance::Distance;
use crate::kernels::hubness::dynamic::activation_set;
use crate::kernels::hubness::method::{Correction, StatisticalMethod, Statistics};
use crate::kernels::hubness::shift::Shift;
use crate::kernels::hubness::statistic::Statistic;
use crate::search::{Ask, Progress, Search, Side};

/// Statistics of items by a bank.
pub(super) struct OfItems {
    /// A statistic of each item's scores with the bank.
    pub(super) statistic: Vec<f64>,
    /// For each item, true if any member of the bank retrieves it.
    pub(super) activated: Vec<bool>,
}

impl Ranker<'_> {
    /// Corrections by a method that is made of statistics; `across`: so that scores of different queries compare.
    pub(super) fn by_statistics(
        &self,
        method: &dyn StatisticalMethod,
        across: bool,
        progress: &mut dyn Progress,
    ) -> Result<Corrections> {
        let both = self.statistics(method, across, progress)?.map(|of| method.correction(&of));
        Ok(match [shift(both[0].as_ref(), self.counts[0]), shift(both[1].as_ref(), self.counts[1])] {
            [Some(i2t), Some(t2i)] => Corrections::Shifts([i2t, t2i]),
            _ => Corrections::Rows(both),
        })
    }

    /// Statistics of both directions; of queries only where they are needed.
    fn statistics(
        &self,
        method: &dyn StatisticalMethod,
        across: bool,
        progress: &mut dyn Progress,
    ) -> Result<[Statistics; 2]> {
        let needs = method.needs();
        // A method that needs no distances does not look at this one.
        let distance = if needs.distances { self.distance()? } else { Distance::Cosine };
        let of_queries = if needs.queries_change_rankings || across { needs.of_queries.as_slice() } else { &[] };
        let (items, none) = (needs.of_items.len(), Ask::default());
        let ask = |statistics| Ask { statistics, ..none };
        if !method.of_bank() {
            let both = [needs.of_items.as_slice(), of_queries].concat();
            let [of_images, of_captions] = self.searches[0].find(&ask(&both), &ask(&both), progress)?;
            let of = |items_side: &[Vec<f64>], queries_side: &[Vec<f64>]| Statistics {
                items: items_side[..items].to_vec(),
                queries: queries_side[items..].to_vec(),
                distance,
            };
            let (images, captions) = (of_images.statistics, of_captions.statistics);
            return Ok([of(&captions, &images), of(&images, &captions)]);
        }
        let [for_captions, for_images] = self.banks()?;
        let captions = for_captions.find(&none, &ask(&needs.of_items), progress)?[1].statistics.clone();
        let images = for_images.find(&ask(&needs.of_items), &none, progress)?[0].statistics.clone();
        let [images_as_queries, captions_as_queries] = if of_queries.is_empty() {
            [Vec::new(), Vec::new()]
        } else {
            self.searches[0].find(&ask(of_queries), &ask(of_queries), progress)?.map(|answer| answer.statistics)
        };
        Ok([
            Statistics { items: captions, queries: images_as_queries, distance },
            Statistics { items: images, queries: captions_as_queries, distance },
        ])
    }

    /// Searches of the images of the bank with the captions of the pool, and of the images of the pool with the captions of
    /// the bank.
    pub(super) fn banks(&self) -> Result<[Search<'_>; 2]> {
        Ok([self.scores.search(Set::BankImages, Set::Captions)?, self.scores.search(Set::Images, Set::BankCaptions)?])
    }

    /// Statistics of captions, and of images, over the queries of the bank, and which are among the first `k` of any.
    pub(super) fn activated(
        &self,
        statistic: Statistic,
        k: usize,
        progress: &mut dyn Progress,
    ) -> Result<[OfItems; 2]> {
        let [for_captions, for_images] = self.banks()?;
        Ok([
            of_items(&for_captions, Side::Columns, statistic, k, progress)?,
            of_items(&for_images, Side::Rows, statistic, k, progress)?,
        ])
    }

    /// The nearest item of every image and of every caption.
    pub(super) fn nearest(&self, progress: &mut dyn Progress) -> Result<[Vec<usize>; 2]> {
        let ask = Ask { k: 1, ..Ask::default() };
        let found = self.searches[0].find(&ask, &ask, progress)?;
        Ok(found.map(|answer| answer.top.iter().map(|top| top.first().map_or(0, |best| best.item)).collect()))
    }

    /// How a score becomes a distance.
    ///
    /// # Errors
    /// Scores that stand for none.
    fn distance(&self) -> Result<Distance> {
        self.scores.distance().ok_or_else(|| {
            Error::usage("wants distances, and these scores stand for none").hint("leave the method out")
        })
    }
}

/// Statistics of the items of one side of a search by the other side, a bank.
pub(super) fn of_items(
    search: &Search<'_>,
    items: Side,
    statistic: Statistic,
    k: usize,
    progress: &mut dyn Progress,
) -> Result<OfItems> {
    let (bank, statistics) = (Ask { k, ..Ask::default() }, [statistic]);
    let own = Ask { statistics: &statistics, ..Ask::default() };
    let (of_bank, mut of_items) = match items {
        Side::Columns => search.find(&bank, &own, progress)?.into(),
        Side::Rows => {
            let [items, bank] = search.find(&own, &bank, progress)?;
            (bank, items)
        }
    };
    let statistic = of_items.statistics.swap_remove(0);
    let found: Vec<Vec<usize>> = of_bank.top.iter().map(|top| top.iter().map(|best| best.item).collect()).collect();
    let activated = activation_set(found.iter().map(Vec::as_slice), statistic.len());
    Ok(OfItems { statistic, activated })
}

/// A correction that only takes numbers off, as these numbers.
fn shift(correction: &dyn Correction, queries: usize) -> Option<Shift> {
    let items = correction.shift(0)?.to_vec();
    let of_query = |query: usize| correction.pair(query, 0, 0.0) - correction.across(query, 0, 0.0);
    Some(Shift::new(items, (0..queries).map(of_query).collect()))
}
