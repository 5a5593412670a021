//! What corrects the scores of a fold: statistics from the test or from a bank, made into the corrections of a method.

use super::methods::{From, Plan};
use super::ranking::{Ranker, Sides, Watch, scoring};
use crate::error::{Error, Result};
use crate::kernels::hubness::dis_sim_local::{DisSimLocal, to_centre};
use crate::kernels::hubness::dynamic::activation_set;
use crate::kernels::hubness::method::{Correction, Method as Kernel};
use crate::kernels::hubness::shift::Shift;
use crate::kernels::hubness::statistic::Statistic;
use crate::kernels::top_k::Scored;
use crate::model::similarity::Similarity;
use crate::search::{Ask, Scoring, Search, Side, Vectors};

/// The corrections of images that look for captions, and the other way round.
pub(super) enum Corrections {
    /// A number of each item is taken off.
    Shifts([Vec<f64>; 2], [Vec<f64>; 2]),
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
    fn corrections(&self, plan: &Plan, across: bool, watch: Watch<'_>) -> Result<Corrections> {
        let nothing = || Shift::new(Vec::new(), Vec::new());
        Ok(match plan {
            Plan::Nearest => Corrections::shifts([nothing(), nothing()]),
            Plan::Statistics(kernel, from) => {
                let [i2t, t2i] = self.statistics(kernel.as_ref(), *from, across, watch)?;
                let make = |of: &Statistics| kernel.correction(&of.items, &of.queries);
                Corrections::of([(make(&i2t), &i2t), (make(&t2i), &t2i)])
            }
            Plan::Sinkhorn(kernel, from) => {
                let sides = [Side::Rows, Side::Columns];
                let potentials = if *from == From::Test {
                    self.searches[0].sinkhorn(kernel.tau, kernel.iterations, &sides, watch)?
                } else {
                    let [of_captions, of_images] = self.banks()?;
                    let mut all = of_captions.sinkhorn(kernel.tau, kernel.iterations, &sides[..1], watch)?;
                    all.extend(of_images.sinkhorn(kernel.tau, kernel.iterations, &sides[1..], watch)?);
                    // Queries of the bank have potentials, those of the test have none.
                    all.iter_mut().for_each(|of| of.queries.clear());
                    all
                };
                let mut shifts = potentials.into_iter().map(|of| Shift::new(of.items, of.queries));
                let (Some(i2t), Some(t2i)) = (shifts.next(), shifts.next()) else {
                    return Err(Error::internal("potentials of one direction"));
                };
                Corrections::Shifts([i2t, t2i])
            }
            Plan::DualBankSinkhorn(kernel) => {
                let bank = self.bank()?;
                let one = |items: &Vectors<'_>, beside: &Vectors<'_>, queries: &Vectors<'_>, captions, watch: Watch<'_>| {
                    let both = items.rows().chain(beside.rows()).flatten().copied().collect::<Vec<f32>>();
                    let both = Vectors::new("items and bank", &both, items.width())?;
                    let search = Search::new(queries, &both, scoring(self.similarity, captions), self.threads)?;
                    let potentials = search.sinkhorn(kernel.tau, kernel.iterations, &[Side::Rows], watch)?;
                    let mut of_items = potentials.into_iter().next().map(|of| of.items).unwrap_or_default();
                    of_items.truncate(items.len());
                    Ok::<_, Error>(Shift::new(of_items, Vec::new()))
                };
                let (images, captions) = (&self.sides.images, &self.sides.captions);
                Corrections::Shifts([
                    one(captions, &bank.captions, &bank.images, Side::Columns, watch)?,
                    one(images, &bank.images, &bank.captions, Side::Rows, watch)?,
                ])
            }
            Plan::DisSimLocal(kernel) => {
                self.cosines()?;
                let one = |items: &Vectors<'_>, watch: Watch<'_>| {
                    let search = Search::new(items, items, Scoring::Product, self.threads)?;
                    let ask = Ask { k: kernel.k + 1, ..Ask::default() };
                    let [near, _] = search.find(&ask, &Ask::default(), watch)?;
                    let centre = |(item, near): (usize, Vec<Scored>)| {
                        let others = near.iter().map(|near| near.item).filter(|&other| other != item).take(kernel.k);
                        to_centre(items.row(item), others.map(|other| items.row(other)))
                    };
                    let centres: Vec<f64> = near.top.into_iter().enumerate().map(centre).collect();
                    Ok::<_, Error>(DisSimLocal::correction(&centres, &[]))
                };
                Corrections::Shifts([one(&self.sides.captions, watch)?, one(&self.sides.images, watch)?])
            }
            Plan::QbNorm(kernel) => {
                let [of_captions, of_images] = self.hubs(kernel.of_items(), kernel.k, watch)?;
                let [i2t, t2i] = self.nearest(watch)?;
                let make = |of: OfItems, nearest: &[usize]| {
                    Box::new(kernel.correction(&of.statistic, &of.activated, nearest)) as Box<dyn Correction>
                };
                Corrections::Rows([make(of_captions, &i2t), make(of_images, &t2i)])
            }
            Plan::DbNorm(kernel, dynamic) => {
                self.cosines()?;
                let [by_queries, by_items] = kernel.of_items();
                let [captions, images] = self.hubs(by_queries, kernel.k, watch)?;
                let bank = self.bank()?;
                let beside = |items: &Vectors<'_>, bank: &Vectors<'_>, watch: Watch<'_>| {
                    let search = Search::new(bank, items, Scoring::Product, self.threads)?;
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
                Corrections::Rows([make(&captions, &captions_beside, &i2t), make(&images, &images_beside, &t2i)])
            }
            Plan::Greedy(..) | Plan::Assignment | Plan::BestOf => {
                return Err(Error::internal("a matching corrects no scores"));
            }
        })
    }
