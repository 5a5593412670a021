//! Ranks the two sides of a fold against each other, by any method.

use std::ops::Range;

use super::bank::BankVectors;
use super::methods::{From, Method, Plan};
use crate::error::{Error, Result};
use crate::kernels::hubness::dis_sim_local::{DisSimLocal, to_centre};
use crate::kernels::hubness::distance::Distance;
use crate::kernels::hubness::dynamic::activation_set;
use crate::kernels::hubness::greedy::RelaxedGreedy;
use crate::kernels::hubness::matching::{Candidate, Matching};
use crate::kernels::hubness::method::{Correction, Method as Kernel};
use crate::kernels::hubness::shift::Shift;
use crate::kernels::hubness::statistic::Statistic;
use crate::kernels::measure::rank::Rank;
use crate::kernels::measure::recall::CUTOFFS;
use crate::kernels::top_k::Scored;
use crate::model::similarity::Similarity;
use crate::search::{Answer, Ask, Positives, Scoring, Search, Side, Vectors};

/// Candidates of a query with which a matching begins.
const CANDIDATES: usize = 100;

/// What one direction found.
pub(super) struct Found {
    /// The best items of every query, best first; of a matching those of the last cut-off.
    pub(super) top: Vec<Vec<Scored>>,
    /// How the best match of every query ranks; nothing of a matching.
    pub(super) ranks: Vec<Option<Rank>>,
    /// Of a matching: for each of [`CUTOFFS`] the items of every query.
    pub(super) sets: Option<[Vec<Vec<usize>>; 3]>,
}

impl std::convert::From<Answer> for Found {
    fn from(answer: Answer) -> Self {
        Self { top: answer.top, ranks: answer.ranks, sets: None }
    }
}

/// Two sides, checked.
pub(super) struct Sides<'v> {
    pub(super) images: Vectors<'v>,
    pub(super) captions: Vectors<'v>,
}

impl<'v> Sides<'v> {
    pub(super) fn new(images: &'v [f32], captions: &'v [f32], width: usize) -> Result<Self> {
        Ok(Self { images: Vectors::new("images", images, width)?, captions: Vectors::new("captions", captions, width)? })
    }

    pub(super) fn of_bank(bank: &'v BankVectors, width: usize) -> Result<Self> {
        let images = Vectors::new("images of the bank", &bank.images, width)?;
        Ok(Self { images, captions: Vectors::new("captions of the bank", &bank.captions, width)? })
    }
}

/// Which items match, and how many of the best are wanted: of images that look for captions, and the other way round.
#[derive(Clone, Copy)]
pub(super) struct Wanted<'w> {
    pub(super) matches: [&'w [Range<usize>]; 2],
    pub(super) keep: [usize; 2],
}

/// Told how much is done.
pub(super) type Watch<'w> = &'w mut dyn FnMut(u64, u64) -> Result<()>;

/// A fold, packed once for all methods.
pub(super) struct Ranker<'v> {
    sides: &'v Sides<'v>,
    bank: Option<&'v Sides<'v>>,
    similarity: Similarity,
    threads: usize,
    /// Images with captions, and captions with images.
    searches: [Search<'v>; 2],
}

impl<'v> Ranker<'v> {
    pub(super) fn new(
        sides: &'v Sides<'v>,
        bank: Option<&'v Sides<'v>>,
        similarity: Similarity,
        threads: usize,
    ) -> Result<Self> {
        let search = |rows, columns, captions| Search::new(rows, columns, scoring(similarity, captions), threads);
        let searches = [
            search(&sides.images, &sides.captions, Side::Columns)?,
            search(&sides.captions, &sides.images, Side::Rows)?,
        ];
        Ok(Self { sides, bank, similarity, threads, searches })
    }

    /// What images and captions find by a method.
    ///
    /// # Errors
    /// The method does not go with the similarity, or the first error of `watch`.
    pub(super) fn rank(&self, method: &Method, wanted: &Wanted<'_>, watch: Watch<'_>) -> Result<[Found; 2]> {
        let distance = match self.similarity {
            Similarity::Cosine => Distance::Cosine,
            Similarity::Order { .. } => Distance::Order,
        };
        let found = match Plan::of(method, distance) {
            Plan::Nearest => self.by_shift(&[vec![], vec![]], wanted, watch).map(|found| found.map(Found::from)),
            Plan::Greedy(greedy, over) => self.greedy(&greedy, &over, wanted, watch),
            Plan::Assignment => self.assignment(wanted, watch),
            plan => self.corrected(&plan, wanted, watch),
        };
        found.map_err(|error| error.context(format!("method `{}`", method.name())))
    }

    /// One pass for both directions, each item with a number that is taken off.
    fn by_shift(&self, shifts: &[Vec<f64>; 2], wanted: &Wanted<'_>, watch: Watch<'_>) -> Result<[Answer; 2]> {
        let ask = |direction: usize| Ask {
            k: wanted.keep[direction],
            positives: Positives::Ranges(wanted.matches[direction]),
            minus: &shifts[direction],
            ..Ask::default()
        };
        self.searches[0].find(&ask(0), &ask(1), watch)
    }

    fn corrected(&self, plan: &Plan, wanted: &Wanted<'_>, watch: Watch<'_>) -> Result<[Found; 2]> {
        match self.corrections(plan, false, watch)? {
            Corrections::Shifts(shifts) => {
                let shifts = shifts.map(|shift| shift.items().to_vec());
                Ok(self.by_shift(&shifts, wanted, watch)?.map(Found::from))
            }
            Corrections::Rows(corrections) => {
                let mut one = |direction: usize| -> Result<Found> {
                    let positives = Positives::Ranges(wanted.matches[direction]);
                    let correct = |row: usize, scores: &mut [f32]| corrections[direction].row(row, scores);
                    let search = &self.searches[direction];
                    Ok(search.rank_corrected(wanted.keep[direction], positives, correct, watch)?.into())
                };
                Ok([one(0)?, one(1)?])
            }
        }
    }

    /// What corrects the scores of each direction; `across`: so that scores of different queries compare.
    fn corrections(&self, plan: &Plan, across: bool, watch: Watch<'_>) -> Result<Corrections> {
        let nothing = || Shift::new(Vec::new(), Vec::new());
        Ok(match plan {
            Plan::Nearest => Corrections::Shifts([nothing(), nothing()]),
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
