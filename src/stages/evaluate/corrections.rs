//! What corrects the scores of a fold: statistics from the test or from a bank, made into the corrections of a method.

use std::sync::Arc;

use super::methods::{Learns, Plan};
use super::ranking::{Ranker, Sides};
use crate::error::{Error, Result};
use crate::kernels::hubness::db_norm::DbNorm;
use crate::kernels::hubness::dis_sim_local::{DisSimLocal, to_centre};
use crate::kernels::hubness::dual_bank_sinkhorn;
use crate::kernels::hubness::dynamic::activation_set;
use crate::kernels::hubness::empirical_proximity::{EmpiricalProximity, Lists};
use crate::kernels::hubness::method::{Correction, Method as Kernel};
use crate::kernels::hubness::qb_norm::QbNorm;
use crate::kernels::hubness::shift::Shift;
use crate::kernels::hubness::sinkhorn::Sinkhorn;
use crate::kernels::hubness::statistic::Statistic;
use crate::kernels::top_k::Scored;
use crate::search::{Ask, Search, Side, Vectors, Watch};

/// Bytes of the lists of empirical mutual proximity, at most.
const LISTED: usize = 2 << 30;

/// The corrections of images that look for captions, and the other way round.
pub(super) enum Corrections {
    /// A number of each item is taken off, and one of each query, which makes scores of different queries comparable.
    Shifts([Shift; 2]),
    /// Rows of scores are corrected.
    Rows([Box<dyn Correction>; 2]),
}

/// Statistics of one direction.
struct Statistics {
    items: Vec<Vec<f64>>,
    queries: Vec<Vec<f64>>,
}

/// What a bank says of items.
struct OfItems {
    statistic: Vec<f64>,
    activated: Vec<bool>,
}

impl Ranker<'_> {
    /// What corrects the scores of each direction; `across`: so that scores of different queries compare.
    pub(super) fn corrections(&self, plan: &Plan, across: bool, watch: Watch<'_>) -> Result<Corrections> {
        let nothing = || Shift::new(Vec::new(), Vec::new());
        Ok(match plan {
            Plan::Nearest => Corrections::Shifts([nothing(), nothing()]),
            Plan::Statistics(kernel, from) => {
                let [i2t, t2i] = self.statistics(kernel.as_ref(), *from, across, watch)?;
                let make = |of: &Statistics| kernel.correction(&of.items, &of.queries);
                let both = [make(&i2t), make(&t2i)];
                let counts = [self.sides.images.len(), self.sides.captions.len()];
                match [shift(both[0].as_ref(), counts[0]), shift(both[1].as_ref(), counts[1])] {
                    [Some(i2t), Some(t2i)] => Corrections::Shifts([i2t, t2i]),
                    _ => Corrections::Rows(both),
                }
            }
            Plan::Sinkhorn(kernel, from) => self.sinkhorn(kernel, *from, watch)?,
            Plan::DualBankSinkhorn(kernel) => self.dual_bank_sinkhorn(kernel, watch)?,
            Plan::EmpiricalProximity(from) => self.empirical_proximity(*from, watch)?,
            Plan::DisSimLocal(kernel) => self.dis_sim_local(*kernel, watch)?,
            Plan::QbNorm(kernel) => self.qb_norm(kernel, watch)?,
            Plan::DbNorm(kernel, dynamic) => self.db_norm(kernel, *dynamic, watch)?,
            Plan::Greedy(..) | Plan::Assignment(_) | Plan::BestOf => {
                return Err(Error::internal("a matching corrects no scores"));
            }
        })
    }

    /// Potentials of iterations over the test, or over the bank.
    fn sinkhorn(&self, kernel: &Sinkhorn, from: Learns, watch: Watch<'_>) -> Result<Corrections> {
        let sides = [Side::Rows, Side::Columns];
        let potentials = if from == Learns::Test {
            self.searches[0].sinkhorn(kernel.tau, kernel.iterations, &sides, watch)?
        } else {
            let [of_captions, of_images] = self.banks()?;
            let mut all = of_captions.sinkhorn(kernel.tau, kernel.iterations, &sides[..1], watch)?;
            all.extend(of_images.sinkhorn(kernel.tau, kernel.iterations, &sides[1..], watch)?);
            // Queries of the bank have potentials, those of the test have none.
            for of in &mut all {
                of.queries.clear();
            }
            all
        };
        let mut shifts = potentials.into_iter().map(|of| Sinkhorn::correction(of.items, of.queries));
        let (Some(i2t), Some(t2i)) = (shifts.next(), shifts.next()) else {
            return Err(Error::internal("potentials of one direction"));
        };
        Ok(Corrections::Shifts([i2t, t2i]))
    }

    /// Potentials of the items among those of the bank, from queries of the bank.
    fn dual_bank_sinkhorn(&self, kernel: &Sinkhorn, watch: Watch<'_>) -> Result<Corrections> {
        let bank = self.bank()?;
        let one = |items: &Vectors<'_>, beside: &Vectors<'_>, queries: &Vectors<'_>, captions, watch: Watch<'_>| {
            let both: Vec<f32> = [items, beside]
                .into_iter()
                .flat_map(|side| (0..side.len()).flat_map(|row| side.row(row).iter().copied()))
                .collect();
            let both = Vectors::new("items and bank", &both, items.width())?;
            let search = self.searcher.search(queries, &both, captions)?;
            let potentials = search.sinkhorn(kernel.tau, kernel.iterations, &[Side::Rows], watch)?;
            let potentials = potentials.first().ok_or_else(|| Error::internal("no potentials"))?;
            Ok::<_, Error>(dual_bank_sinkhorn::correction(&potentials.items, items.len()))
        };
        let (images, captions) = (&self.sides.images, &self.sides.captions);
        Ok(Corrections::Shifts([
            one(captions, &bank.captions, &bank.images, Side::Columns, watch)?,
            one(images, &bank.images, &bank.captions, Side::Rows, watch)?,
        ]))
    }

    /// Sorted scores of every image and of every caption, with the other side of the test or with that of the bank.
    fn empirical_proximity(&self, from: Learns, watch: Watch<'_>) -> Result<Corrections> {
        let (images, captions) = (&self.sides.images, &self.sides.captions);
        let bank = if from == Learns::Bank { self.bank()? } else { self.sides };
        fits([(images.len(), bank.captions.len()), (captions.len(), bank.images.len())])?;
        let rising = |_: usize, scores: &mut [f32]| {
            scores.sort_unstable_by(f32::total_cmp);
            scores.to_vec()
        };
        let banks = [(images, &bank.captions, Side::Columns), (captions, &bank.images, Side::Rows)];
        let mut lists = |direction: usize| -> Result<Arc<Lists>> {
            let (vectors, others, captions) = banks[direction];
            let lists = if from == Learns::Bank {
                self.searcher.search(vectors, others, captions)?.map_rows(rising, watch)?
            } else {
                self.searches[direction].map_rows(rising, watch)?
            };
            Ok(Arc::new(Lists::new(lists)))
        };
        let (of_images, of_captions) = (lists(0)?, lists(1)?);
        let make = |items: &Arc<Lists>, queries: &Arc<Lists>| {
            Box::new(EmpiricalProximity::new(Arc::clone(items), Arc::clone(queries))) as Box<dyn Correction>
        };
        Ok(Corrections::Rows([make(&of_captions, &of_images), make(&of_images, &of_captions)]))
    }

    /// Distances of items to the centres of their neighbours.
    fn dis_sim_local(&self, kernel: DisSimLocal, watch: Watch<'_>) -> Result<Corrections> {
        let one = |items: &Vectors<'_>, watch: Watch<'_>| {
            let search = self.searcher.search(items, items, Side::Columns)?;
            let ask = Ask { k: kernel.k + 1, ..Ask::default() };
            let [near, _] = search.find(&ask, &Ask::default(), watch)?;
            let centre = |(item, near): (usize, Vec<Scored>)| {
                let others = near.iter().map(|near| near.item).filter(|&other| other != item).take(kernel.k);
                to_centre(items.row(item), others.map(|other| items.row(other)))
            };
            let centres: Vec<f64> = near.top.into_iter().enumerate().map(centre).collect();
            Ok::<_, Error>(DisSimLocal::correction(&centres, &[]))
        };
        Ok(Corrections::Shifts([one(&self.sides.captions, watch)?, one(&self.sides.images, watch)?]))
    }

    /// A softmax over the bank, for queries that would find one of its hubs.
    fn qb_norm(&self, kernel: &QbNorm, watch: Watch<'_>) -> Result<Corrections> {
        let [of_captions, of_images] = self.hubs(kernel.of_items(), kernel.k, watch)?;
        let [i2t, t2i] = self.nearest(watch)?;
        let make = |of: OfItems, nearest: &[usize]| {
            Box::new(kernel.correction(&of.statistic, &of.activated, nearest)) as Box<dyn Correction>
        };
        Ok(Corrections::Rows([make(of_captions, &i2t), make(of_images, &t2i)]))
    }

    /// Softmaxes over queries and items of the bank.
    fn db_norm(&self, kernel: &DbNorm, dynamic: bool, watch: Watch<'_>) -> Result<Corrections> {
        let [by_queries, by_items] = kernel.of_items();
        let [captions, images] = self.hubs(by_queries, kernel.k, watch)?;
        let bank = self.bank()?;
        let beside = |items: &Vectors<'_>, bank: &Vectors<'_>, watch: Watch<'_>| {
            let search = self.searcher.search(bank, items, Side::Columns)?;
            of_items(&search, Side::Columns, by_items, kernel.k, watch)
        };
        let captions_beside = beside(&self.sides.captions, &bank.captions, watch)?;
        let images_beside = beside(&self.sides.images, &bank.images, watch)?;
        if !dynamic {
            let make = |a: &OfItems, b: &OfItems| kernel.dual_is([&a.statistic, &b.statistic]);
            return Ok(Corrections::Shifts([make(&captions, &captions_beside), make(&images, &images_beside)]));
        }
        let [i2t, t2i] = self.nearest(watch)?;
        let make = |a: &OfItems, b: &OfItems, nearest: &[usize]| {
            let activated = [a.activated.as_slice(), &b.activated];
            Box::new(kernel.dual_dis([&a.statistic, &b.statistic], activated, nearest)) as Box<dyn Correction>
        };
        Ok(Corrections::Rows([make(&captions, &captions_beside, &i2t), make(&images, &images_beside, &t2i)]))
    }

    /// Statistics of both directions, from the test or from the bank; of queries only where they are needed.
    fn statistics(&self, kernel: &dyn Kernel, from: Learns, across: bool, watch: Watch<'_>) -> Result<[Statistics; 2]> {
        let needs = kernel.needs();
        let of_queries = if needs.queries_change_rankings || across { needs.of_queries.as_slice() } else { &[] };
        let (items, none) = (needs.of_items.len(), Ask::default());
        let ask = |statistics| Ask { statistics, ..none };
        if from == Learns::Test {
            let both = [needs.of_items.as_slice(), of_queries].concat();
            let [of_images, of_captions] = self.searches[0].find(&ask(&both), &ask(&both), watch)?;
            let of = |items_side: &[Vec<f64>], queries_side: &[Vec<f64>]| Statistics {
                items: items_side[..items].to_vec(),
                queries: queries_side[items..].to_vec(),
            };
            let (images, captions) = (of_images.statistics, of_captions.statistics);
            return Ok([of(&captions, &images), of(&images, &captions)]);
        }
        let [for_captions, for_images] = self.banks()?;
        let captions = for_captions.find(&none, &ask(&needs.of_items), watch)?[1].statistics.clone();
        let images = for_images.find(&ask(&needs.of_items), &none, watch)?[0].statistics.clone();
        let [images_as_queries, captions_as_queries] = if of_queries.is_empty() {
            [Vec::new(), Vec::new()]
        } else {
            self.searches[0].find(&ask(of_queries), &ask(of_queries), watch)?.map(|answer| answer.statistics)
        };
        Ok([
            Statistics { items: captions, queries: images_as_queries },
            Statistics { items: images, queries: captions_as_queries },
        ])
    }

    /// The bank.
    fn bank(&self) -> Result<&Sides<'_>> {
        self.bank.ok_or_else(|| Error::internal("a method without the bank that it learns from"))
    }

    /// Images of the bank with the captions of the fold, and images of the fold with captions of the bank.
    fn banks(&self) -> Result<[Search<'_>; 2]> {
        let bank = self.bank()?;
        Ok([
            self.searcher.search(&bank.images, &self.sides.captions, Side::Columns)?,
            self.searcher.search(&self.sides.images, &bank.captions, Side::Columns)?,
        ])
    }

    /// What queries of the bank say of captions, and of images.
    fn hubs(&self, statistic: Statistic, k: usize, watch: Watch<'_>) -> Result<[OfItems; 2]> {
        let [for_captions, for_images] = self.banks()?;
        Ok([
            of_items(&for_captions, Side::Columns, statistic, k, watch)?,
            of_items(&for_images, Side::Rows, statistic, k, watch)?,
        ])
    }

    /// The nearest item of every image and of every caption.
    fn nearest(&self, watch: Watch<'_>) -> Result<[Vec<usize>; 2]> {
        let ask = Ask { k: 1, ..Ask::default() };
        let found = self.searches[0].find(&ask, &ask, watch)?;
        Ok(found.map(|answer| answer.top.iter().map(|top| top.first().map_or(0, |best| best.item)).collect()))
    }
}

/// What the other side of a search, a bank, says of the items of one.
fn of_items(search: &Search<'_>, items: Side, statistic: Statistic, k: usize, watch: Watch<'_>) -> Result<OfItems> {
    let (bank, statistics) = (Ask { k, ..Ask::default() }, [statistic]);
    let own = Ask { statistics: &statistics, ..Ask::default() };
    let (of_bank, mut of_items) = match items {
        Side::Columns => search.find(&bank, &own, watch)?.into(),
        Side::Rows => {
            let [items, bank] = search.find(&own, &bank, watch)?;
            (bank, items)
        }
    };
    let statistic = of_items.statistics.swap_remove(0);
    let found: Vec<Vec<usize>> = of_bank.top.iter().map(|top| top.iter().map(|best| best.item).collect()).collect();
    let activated = activation_set(found.iter().map(Vec::as_slice), statistic.len());
    Ok(OfItems { statistic, activated })
}

/// Refuses lists of more than [`LISTED`] bytes, of two sides that each have so many vectors and as many others beside them.
fn fits(sides: [(usize, usize); 2]) -> Result<()> {
    let bytes = EmpiricalProximity::bytes(sides);
    if bytes <= LISTED {
        return Ok(());
    }
    let [(images, captions), (own_captions, of_images)] = sides;
    let message = format!(
        "all scores of {images} images with {captions} captions and of {own_captions} captions with {of_images} images take \
         {} MiB, wanted at most {} MiB",
        bytes >> 20,
        LISTED >> 20
    );
    Err(Error::usage(message).hint("folds or a bank of fewer images; `distribution = \"normal\"` takes any size"))
}

/// A correction that only takes numbers off, as these numbers.
fn shift(correction: &dyn Correction, queries: usize) -> Option<Shift> {
    let items = correction.shift(0)?.to_vec();
    let of_query = |query: usize| correction.pair(query, 0, 0.0) - correction.across(query, 0, 0.0);
    Some(Shift::new(items, (0..queries).map(of_query).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_any_size_are_counted() {
        // COCO-5K with itself: 1 GB. With its training split as a bank: 2 · 5,000 · 566,435 scores or so.
        fits([(5_000, 25_000), (25_000, 5_000)]).expect("a GB");
        let error = fits([(5_000, 566_435), (25_000, 113_287)]).expect_err("22 GB");
        assert!(error.to_string().contains("take 21607 MiB, wanted at most 2048 MiB"), "{error}");
        assert_eq!(EmpiricalProximity::bytes([(usize::MAX, 2), (1, 1)]), usize::MAX);
    }
}
