//! The entry to retrieval: ranks a collection by methods, and measures what they find.

use std::ops::Range;

use super::callbacks::{Callbacks, MethodProgress};
use super::choice::{Choice, Chosen};
use super::collection::Collection;
use super::direction::Direction;
use super::folds::Folds;
use super::graded::{GradedOptions, PoolLists, measure_pool, tell_of_few};
use super::intervals::intervals;
use super::measure::{Measured, PoolFound, Question, recalls};
use super::methods::{Method, Nns};
use super::ranking::{Ranker, Wanted};
use super::relevance::{Graded, RelevantPairs};
use super::results::{Pools, Results, mean};
use super::write::{TOP, write_hubs, write_rankings};
use crate::error::{Error, Result};
use crate::kernels::measure::graded::depth;
use crate::kernels::measure::recall::Retrieval;
use crate::tables;

/// Evaluation: a collection, methods to rank it with, and the measures.
#[derive(Clone, Copy)]
pub struct Evaluation<'e> {
    /// Images, captions and their scores.
    pub collection: Collection<'e>,
    /// Methods to rank with.
    pub methods: &'e [Method],
    /// Cut-offs of recall and of all that has one; ascending, from 1.
    pub cutoffs: &'e [usize],
    /// Pools that are ranked; the whole collection where there are none.
    pub protocols: &'e [Folds],
    /// Relevance beside the queries' own matches, yes or no.
    pub rated: &'e [RelevantPairs],
    /// Graded relevance.
    pub graded: &'e [Graded],
    /// Name of the bank in results.
    pub bank: Option<&'e str>,
    /// Where `best_of` chooses.
    pub validation: Option<Validation<'e>>,
    /// How much is measured.
    pub detail: Detail,
}

/// A collection on which free numbers are chosen.
#[derive(Clone, Copy)]
pub struct Validation<'e> {
    /// Name in results.
    pub name: &'e str,
    /// The collection.
    pub collection: Collection<'e>,
}

/// Extent of the measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Everything.
    Tables,
    /// Recalls, median and mean ranks alone, in the fastest way: `summary`, without hubs.
    Recalls {
        /// Items of each ranking that [`Callbacks::ranked`] gets.
        lists: usize,
    },
}

/// Ranks images for captions and captions for images by each method, and measures what they find.
///
/// Rows of `rankings` and `hubs` go to `callbacks` as they are made; those of `metrics` and `summary` are in the result. A method
/// that is there twice by the same name gives the same and is left out, with a warning.
///
/// # Errors
/// Cut-offs that are none; lengths, places or folds that do not fit each other; a method that does not go with the scores, lacks its bank or has nothing to choose on; a pool
/// without matches; or the first error of `callbacks`.
///
/// # Cost
/// For each method and pool the passes over its scores that the method needs, and one for ranks; see [`Method`]. Memory: the
/// vectors of a pool packed for the search, and lists of the best items of its queries; with a graded relevance those of all
/// pools and methods, 4 bytes an item.
///
/// # Example
/// ```
/// use pairloom::retrieval::{Collection, Collect, Evaluation, Matches, Method, VectorSource, evaluate};
/// use pairloom::search::Processor;
///
/// # fn main() -> Result<(), pairloom::error::Error> {
/// // Two images with two captions and one.
/// let (images, captions) = ([1.0, 0.0, 0.0, 1.0], [0.8, 0.6, 1.0, 0.0, 0.0, 1.0]);
/// let factory = Processor { order: None, threads: 2 };
/// let scores = VectorSource { images: &images, captions: &captions, width: 2, bank: None, factory: &factory };
/// let collection = Collection {
///     image_ids: &[10, 11],
///     caption_ids: &[100, 101, 110],
///     matches: Matches::Grouped(&[0, 2, 3]),
///     scores: &scores,
/// };
/// let mut tables = Collect::default();
/// let results = evaluate(&Evaluation { cutoffs: &[1, 2], ..Evaluation::of(collection) }, &mut tables)?;
/// assert_eq!(results.summary[0].i2t.recalls, [100.0, 100.0]);
/// assert_eq!(results.summary()?.num_rows(), 1);
/// assert_eq!(tables.rankings.iter().map(|rows| rows.num_rows()).sum::<usize>(), 5);
/// # Ok(())
/// # }
/// ```
pub fn evaluate(evaluation: &Evaluation<'_>, callbacks: &mut dyn Callbacks) -> Result<Results> {
    evaluation.check()?;
    let Evaluation { methods, cutoffs, bank, validation, .. } = *evaluation;
    let validation = validation.map(|split| (split.name, split.collection));
    let methods = Choice { methods, cutoffs, bank, validation }.choose(callbacks)?;
    let whole = [Folds::whole("all", evaluation.collection.image_ids.len())];
    let protocols = if evaluation.protocols.is_empty() { &whole } else { evaluation.protocols };
    let mut work = Work::new(&Evaluation { protocols, ..*evaluation }, methods, callbacks)?;
    let mut lists = Vec::with_capacity(protocols.len());
    for folds in protocols {
        lists.push(work.protocol(folds)?);
    }
    for (number, graded) in evaluation.graded.iter().enumerate() {
        work.graded(number, graded, &lists)?;
    }
    Ok(work.results)
}

impl<'e> Evaluation<'e> {
    /// Everything about a collection as one pool, by nearest neighbour, at the usual cut-offs.
    #[must_use]
    pub fn of(collection: Collection<'e>) -> Self {
        const NEAREST: &[Method] = &[Method::Nns(Nns {})];
        Self {
            collection,
            methods: NEAREST,
            cutoffs: &tables::CUTOFFS,
            protocols: &[],
            rated: &[],
            graded: &[],
            bank: None,
            validation: None,
            detail: Detail::Tables,
        }
    }

    fn check(&self) -> Result<()> {
        if self.cutoffs.is_empty() || self.cutoffs[0] == 0 || !self.cutoffs.is_sorted_by(|a, b| a < b) {
            return Err(Error::usage(format!("got cut-offs {:?}, wanted ascending numbers from 1", self.cutoffs)));
        }
        self.collection.check()?;
        self.validation.map_or(Ok(()), |validation| validation.collection.check())?;
        let images = self.collection.image_ids.len();
        for folds in self.protocols {
            if let Some(wrong) = folds.images.iter().find(|fold| fold.start > fold.end || fold.end > images) {
                let message = format!("protocol `{}` has images {wrong:?} of {images}", folds.protocol);
                return Err(Error::usage(message));
            }
        }
        self.rated.iter().try_for_each(|rated| rated.check(images, self.collection.caption_ids.len()))
    }
}

/// An evaluation under way.
struct Work<'w, 'e> {
    evaluation: Evaluation<'e>,
    methods: Vec<Chosen<'e>>,
    callbacks: &'w mut dyn Callbacks,
    /// Queries that are ranked or measured, and all of them.
    done: u64,
    total: u64,
    results: Results,
}

/// Results of a method on the pools of a protocol so far.
#[derive(Default)]
struct MethodFolds {
    retrieval: [Vec<Retrieval>; 2],
    measured: [Vec<Measured>; 2],
    found: Vec<PoolFound>,
    /// Nothing of matchings, which have no places.
    lists: Vec<PoolLists>,
}

impl<'w, 'e> Work<'w, 'e> {
    fn new(evaluation: &Evaluation<'e>, methods: Vec<Chosen<'e>>, callbacks: &'w mut dyn Callbacks) -> Result<Self> {
        let evaluation = *evaluation;
        let mut queries = 0;
        for images in evaluation.protocols.iter().flat_map(|folds| &folds.images) {
            queries += images.len() + evaluation.collection.captions_of(images)?.len();
        }
        let total = (queries * methods.len() * (1 + evaluation.graded.len())) as u64;
        let results = Results::new(evaluation.cutoffs);
        Ok(Self { evaluation, methods, callbacks, done: 0, total, results })
    }

    fn advance(&mut self, queries: usize) {
        self.done += queries as u64;
        self.callbacks.progress(self.done, self.total);
    }

    /// Ranks the pools of a protocol by all methods and adds the results. Gives the lists of each method.
    fn protocol(&mut self, folds: &'e Folds) -> Result<Vec<Vec<PoolLists>>> {
        let mut of_methods: Vec<MethodFolds> = self.methods.iter().map(|_| MethodFolds::default()).collect();
        for (fold, images) in folds.images.iter().enumerate() {
            self.pool(folds, fold, images, &mut of_methods)?;
        }
        let pools = self.pools(folds)?;
        for (chosen, of) in self.methods.iter().zip(&of_methods) {
            match self.evaluation.detail {
                Detail::Tables => {
                    let intervals = intervals(&of.found, self.evaluation.cutoffs);
                    self.results.add(&pools, &chosen.label, &of.measured, intervals)?;
                }
                Detail::Recalls { .. } => {
                    let means = [mean(&pools, &of.retrieval[0])?, mean(&pools, &of.retrieval[1])?];
                    self.results.add_recalls(&pools, &chosen.label, means, f64::NAN);
                }
            }
            self.callbacks.proceed()?;
        }
        Ok(of_methods.into_iter().map(|of| of.lists).collect())
    }

    fn pools(&self, folds: &'e Folds) -> Result<Pools<'e>> {
        let first = folds.images.first().cloned().unwrap_or_default();
        let n_captions = self.evaluation.collection.captions_of(&first)?.len();
        Ok(Pools { protocol: &folds.protocol, folds: folds.images.len(), n_images: first.len(), n_captions })
    }

    /// Ranks a pool by all methods.
    fn pool(&mut self, folds: &Folds, fold: usize, images: &Range<usize>, all: &mut [MethodFolds]) -> Result<()> {
        let evaluation = self.evaluation;
        let captions = evaluation.collection.captions_of(images)?;
        let tasks = evaluation.collection.tasks(images)?;
        let rated = Direction::BOTH.map(|direction| -> Vec<_> {
            let of = |of: &'e RelevantPairs| (of.name.as_str(), of.of_pool(images, &captions, direction));
            evaluation.rated.iter().map(of).collect()
        });
        let depth = [0, 1].map(|place: usize| {
            let longest = |lists: &[Vec<usize>]| lists.iter().map(Vec::len).max().unwrap_or(0);
            let own = longest(&tasks[place].matches);
            let relevant = rated[place].iter().map(|(_, of)| longest(of)).max().unwrap_or(0);
            evaluation.depth(own, relevant)
        });
        let scores = evaluation.collection.scores.pool(images, &captions)?;
        let ranker = Ranker::new(scores.as_ref())?;
        let wanted = Wanted { tasks: &tasks, depth, cutoffs: evaluation.cutoffs };
        let queries = images.len() + captions.len();
        let place = format!("fold {fold} of protocol `{}`", folds.protocol);
        for (number, of) in all.iter_mut().enumerate() {
            let chosen = &self.methods[number];
            let progress = &mut MethodProgress::of(self.callbacks, self.done, queries as u64, self.total);
            let rankings = chosen.method.rank(&ranker, &wanted, progress)?;
            self.callbacks.ranked(&chosen.label, &rankings)?;
            let mut found = Vec::with_capacity(2);
            for (side, (task, rankings)) in tasks.iter().zip(&rankings).enumerate() {
                if evaluation.detail != Detail::Tables {
                    of.retrieval[side].push(recalls(task, rankings, evaluation.cutoffs, &place)?);
                    continue;
                }
                let question = Question { task, cutoffs: evaluation.cutoffs, rated: &rated[side], place: &place };
                let measures = question.measure(rankings)?;
                let subject = chosen.label.subject(&folds.protocol, fold, task.direction);
                write_rankings(self.callbacks, evaluation.cutoffs, &subject, task, rankings, &measures.found)?;
                write_hubs(self.callbacks, evaluation.cutoffs, &subject, task, &measures.counts)?;
                of.measured[side].push(measures.measured);
                found.push(measures.found);
            }
            if let Ok(directions) = <[_; 2]>::try_from(found) {
                of.found.push(PoolFound { images: images.len(), directions });
            }
            let graded = !evaluation.graded.is_empty() && rankings[0].sets.is_none();
            of.lists.extend(graded.then(|| PoolLists::of(&rankings)));
            self.advance(queries);
        }
        Ok(())
    }

    /// Measures all rankings against a graded relevance.
    fn graded(&mut self, number: usize, graded: &Graded, lists: &[Vec<Vec<PoolLists>>]) -> Result<()> {
        let evaluation = self.evaluation;
        let grades = self.callbacks.graded(number)?;
        for (folds, lists) in evaluation.protocols.iter().zip(lists) {
            let pools = self.pools(folds)?;
            let (mut few, mut asked) = (0, 0);
            for (method, lists) in lists.iter().enumerate().filter(|(_, lists)| !lists.is_empty()) {
                let mut means = [Vec::new(), Vec::new()];
                (few, asked) = (0, 0);
                for (images, lists) in folds.images.iter().zip(lists) {
                    let whole = pools.folds == 1 && images.end < evaluation.collection.image_ids.len();
                    let options = GradedOptions { cutoffs: evaluation.cutoffs, neighbours: &graded.neighbours, whole };
                    let collection = &evaluation.collection;
                    let pool = measure_pool(self.callbacks, grades.as_ref(), collection, images, lists, &options)?;
                    let queries = images.len() + collection.captions_of(images)?.len();
                    few += pool.few;
                    asked += queries;
                    means.iter_mut().zip(pool.means).for_each(|(folds, of)| folds.push(of));
                    self.advance(queries);
                }
                self.results.add_graded(&pools, &self.methods[method].label, &graded.name, &means);
            }
            tell_of_few(self.callbacks, graded, &folds.protocol, few, asked);
        }
        Ok(())
    }
}

impl Evaluation<'_> {
    /// Items of each ranking that are looked at, where a query has so many matches and so many other relevant items.
    fn depth(&self, own: usize, relevant: usize) -> usize {
        if let Detail::Recalls { lists } = self.detail {
            return lists;
        }
        let neighbours: Vec<usize> = self.graded.iter().flat_map(|of| &of.neighbours).copied().collect();
        TOP.max(relevant).max(depth(self.cutoffs, &neighbours, own))
    }
}
