//! Entry point of retrieval: ranks a collection by several methods and computes all measures. Methods of `best_of` are
//! selected on a validation split first.

use std::ops::Range;

use super::callbacks::{Callbacks, MethodProgress};
use super::collection::{BinaryRelevance, Collection, Direction, GradedRelevance, RetrievalTask};
use super::confidence_intervals::confidence_intervals;
use super::direction_metrics::{DirectionEvaluator, DirectionMetrics, PoolHits, recall_summary};
use super::graded_metrics::{GradedOptions, PoolTopLists, measure_graded, warn_of_few_relevant};
use super::methods::{Method, Nns};
use super::protocol::Folds;
use super::ranking::{MethodLabel, Ranker, RankingRequest};
use super::results::{
    DEFAULT_RANKING_DEPTH, EvaluationResults, ProtocolPools, RankingColumns, mean, write_hubs, write_rankings,
};
use super::scores::PoolScores;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::measure::graded_ranking::required_depth;
use pairloom_kernels::measure::recall::{RecallSummary, rsum};
use pairloom_tables as tables;

/// Evaluation: a collection, methods to rank it with, and settings of the measures.
#[derive(Clone, Copy)]
pub struct Evaluation<'e> {
    /// Images, captions, matches and scores.
    pub collection: Collection<'e>,
    /// Methods to rank with.
    pub methods: &'e [Method],
    /// Cut-offs of recall and of other measures at a cut-off; ascending, from 1.
    pub cutoffs: &'e [usize],
    /// Folds of each protocol; if empty, the whole collection is one pool.
    pub protocols: &'e [Folds],
    /// Binary relevance in addition to the matches.
    pub binary_relevance: &'e [BinaryRelevance],
    /// Graded relevance.
    pub graded_relevance: &'e [GradedRelevance],
    /// Name of the query bank in results.
    pub bank: Option<&'e str>,
    /// Collection on which `best_of` selects a method.
    pub validation: Option<ValidationCollection<'e>>,
    /// Detail of the results.
    pub detail: EvaluationDetail,
    /// Number of items of each ranking in the table `rankings`.
    pub ranking_depth: usize,
}

/// Collection on which `best_of` selects a method.
#[derive(Clone, Copy)]
pub struct ValidationCollection<'e> {
    /// Name in results.
    pub name: &'e str,
    /// Images, captions, matches and scores.
    pub collection: Collection<'e>,
}

/// Detail of the results of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EvaluationDetail {
    /// All tables.
    Tables,
    /// Only recalls, median and mean ranks, computed in the fastest way: `summary` without hs-sum.
    Recalls {
        /// Number of items of each ranking that [`Callbacks::add_pool`] gets.
        lists: usize,
    },
}

/// Ranks images for captions and captions for images by each method, and computes the measures of the rankings.
///
/// Rows of `rankings` and `hubs` are passed to `callbacks` as they are computed; those of `metrics` and `summary` are
/// in the result. A method that occurs twice with the same label is left out the second time, with a warning.
///
/// # Errors
/// Cut-offs are not ascending from 1; lengths, indices or folds do not fit each other; a method does not support the
/// scores, lacks its query bank, or lacks a validation split; a pool has no matches; or the first error of `callbacks`.
///
/// # Cost
/// For each method and pool the passes over the scores that the method needs, and one pass for ranks; see [`Method`].
/// Memory: the vectors of a pool packed for the search, and lists of the best items of its queries. With a graded
/// relevance, these lists are kept for all pools and methods, 4 bytes for each item.
///
/// # Example
/// ```
/// use pairloom_retrieval::{CollectedTables, Collection, Evaluation, Matches, Method, VectorSource, evaluate};
/// use pairloom_search::CpuSearchFactory;
///
/// # fn main() -> Result<(), pairloom_base::error::Error> {
/// // Two images with two captions and one.
/// let (images, captions) = ([1.0, 0.0, 0.0, 1.0], [0.8, 0.6, 1.0, 0.0, 0.0, 1.0]);
/// let factory = CpuSearchFactory { order: None, threads: 2 };
/// let scores = VectorSource { images: &images, captions: &captions, width: 2, bank: None, factory: &factory };
/// let collection = Collection {
///     image_ids: &[10, 11],
///     caption_ids: &[100, 101, 110],
///     matches: Matches::Grouped(&[0, 2, 3]),
///     scores: &scores,
/// };
/// let mut tables = CollectedTables::default();
/// let results = evaluate(&Evaluation { cutoffs: &[1, 2], ..Evaluation::of(collection) }, &mut tables)?;
/// assert_eq!(results.summary[0].i2t.recalls, [100.0, 100.0]);
/// assert_eq!(results.summary()?.num_rows(), 1);
/// assert_eq!(tables.rankings.iter().map(|rows| rows.num_rows()).sum::<usize>(), 5);
/// # Ok(())
/// # }
/// ```
pub fn evaluate(evaluation: &Evaluation<'_>, callbacks: &mut dyn Callbacks) -> Result<EvaluationResults> {
    evaluation.check()?;
    let Evaluation { methods, cutoffs, bank, validation, .. } = *evaluation;
    let validation = validation.map(|split| (split.name, split.collection));
    let methods = MethodSelector { methods, cutoffs, bank, validation }.select(callbacks)?;
    let whole = [Folds::whole("all", evaluation.collection.image_ids.len())];
    let protocols = if evaluation.protocols.is_empty() { &whole } else { evaluation.protocols };
    let mut run = EvaluationRun::new(&Evaluation { protocols, ..*evaluation }, methods, callbacks)?;
    let mut lists = Vec::with_capacity(protocols.len());
    for folds in protocols {
        lists.push(run.rank_protocol(folds)?);
    }
    for (number, graded) in evaluation.graded_relevance.iter().enumerate() {
        run.measure_graded_relevance(number, graded, &lists)?;
    }
    Ok(run.results)
}

impl<'e> Evaluation<'e> {
    /// Evaluation of all measures on a collection as one pool, by nearest neighbour, at the usual cut-offs.
    #[must_use]
    pub fn of(collection: Collection<'e>) -> Self {
        const NEAREST: &[Method] = &[Method::Nns(Nns {})];
        Self {
            collection,
            methods: NEAREST,
            cutoffs: &tables::DEFAULT_CUTOFFS,
            protocols: &[],
            binary_relevance: &[],
            graded_relevance: &[],
            bank: None,
            validation: None,
            detail: EvaluationDetail::Tables,
            ranking_depth: DEFAULT_RANKING_DEPTH,
        }
    }

    fn check(&self) -> Result<()> {
        if self.cutoffs.is_empty() || self.cutoffs[0] == 0 || !self.cutoffs.is_sorted_by(|a, b| a < b) {
            return Err(Error::usage(format!("got cut-offs {:?}, expected ascending numbers from 1", self.cutoffs)));
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
        self.binary_relevance
            .iter()
            .try_for_each(|relevance| relevance.check(images, self.collection.caption_ids.len()))
    }
}

/// Evaluation in progress.
struct EvaluationRun<'w, 'e> {
    evaluation: Evaluation<'e>,
    methods: Vec<SelectedMethod<'e>>,
    callbacks: &'w mut dyn Callbacks,
    /// Number of queries that are ranked or graded; a query counts once for each method and each graded relevance.
    done: u64,
    /// Value of `done` at the end.
    total: u64,
    results: EvaluationResults,
}

/// Results of a method on the pools of a protocol.
#[derive(Default)]
struct MethodFoldResults {
    recalls: [Vec<RecallSummary>; 2],
    metrics: [Vec<DirectionMetrics>; 2],
    hits: Vec<PoolHits>,
    /// Ranked items for graded measures; empty for matchings, which have no ranks.
    lists: Vec<PoolTopLists>,
}

impl<'w, 'e> EvaluationRun<'w, 'e> {
    fn new(
        evaluation: &Evaluation<'e>,
        methods: Vec<SelectedMethod<'e>>,
        callbacks: &'w mut dyn Callbacks,
    ) -> Result<Self> {
        let evaluation = *evaluation;
        let mut queries = 0;
        for images in evaluation.protocols.iter().flat_map(|folds| &folds.images) {
            queries += images.len() + evaluation.collection.captions_of(images)?.len();
        }
        let total = (queries * methods.len() * (1 + evaluation.graded_relevance.len())) as u64;
        let results = EvaluationResults::new(evaluation.cutoffs);
        Ok(Self { evaluation, methods, callbacks, done: 0, total, results })
    }

    fn advance(&mut self, queries: usize) {
        self.done += queries as u64;
        self.callbacks.progress(self.done, self.total);
    }

    /// Ranks the pools of a protocol by all methods and adds the results. Returns the ranked items of each method.
    fn rank_protocol(&mut self, folds: &'e Folds) -> Result<Vec<Vec<PoolTopLists>>> {
        let mut method_results: Vec<MethodFoldResults> =
            self.methods.iter().map(|_| MethodFoldResults::default()).collect();
        for (fold, images) in folds.images.iter().enumerate() {
            self.rank_pool(folds, fold, images, &mut method_results)?;
        }
        let pools = self.protocol_pools(folds)?;
        for (chosen, results) in self.methods.iter().zip(&method_results) {
            match self.evaluation.detail {
                EvaluationDetail::Tables => {
                    let intervals = confidence_intervals(&results.hits, self.evaluation.cutoffs);
                    self.results.add(&pools, &chosen.label, &results.metrics, intervals)?;
                }
                EvaluationDetail::Recalls { .. } => {
                    let means = [mean(&pools, &results.recalls[0])?, mean(&pools, &results.recalls[1])?];
                    self.results.add_recalls(&pools, &chosen.label, means, f64::NAN);
                }
            }
            self.callbacks.check_cancelled()?;
        }
        Ok(method_results.into_iter().map(|results| results.lists).collect())
    }

    fn protocol_pools(&self, folds: &'e Folds) -> Result<ProtocolPools<'e>> {
        let first = folds.images.first().cloned().unwrap_or_default();
        let n_captions = self.evaluation.collection.captions_of(&first)?.len();
        Ok(ProtocolPools { protocol: &folds.protocol, folds: folds.images.len(), n_images: first.len(), n_captions })
    }

    /// Ranks a pool by all methods.
    fn rank_pool(
        &mut self,
        folds: &Folds,
        fold: usize,
        images: &Range<usize>,
        all: &mut [MethodFoldResults],
    ) -> Result<()> {
        let evaluation = self.evaluation;
        let captions = evaluation.collection.captions_of(images)?;
        let tasks = evaluation.collection.tasks(images)?;
        let binary_relevance = Direction::BOTH.map(|direction| -> Vec<_> {
            let all = evaluation.binary_relevance.iter().filter(|relevance| relevance.has_pairs(direction));
            all.map(|relevance| (relevance.name.as_str(), relevance.restrict_to_pool(images, &captions, direction)))
                .collect()
        });
        let depth = [0, 1].map(|direction: usize| {
            let longest = |lists: &[Vec<usize>]| lists.iter().map(Vec::len).max().unwrap_or(0);
            let own = longest(&tasks[direction].matches);
            let relevant = binary_relevance[direction].iter().map(|(_, lists)| longest(lists)).max().unwrap_or(0);
            evaluation.depth(own, relevant)
        });
        let scores = evaluation.collection.scores.pool(images, &captions)?;
        let ranker = Ranker::new(scores.as_ref())?;
        let request = RankingRequest { tasks: &tasks, depth, cutoffs: evaluation.cutoffs };
        let queries = images.len() + captions.len();
        let pool_name = format!("fold {fold} of protocol `{}`", folds.protocol);
        for (number, results) in all.iter_mut().enumerate() {
            let chosen = &self.methods[number];
            let progress = &mut MethodProgress::of(self.callbacks, self.done, queries as u64, self.total);
            let rankings = chosen.method.rank(&ranker, &request, progress)?;
            self.callbacks.add_pool(&chosen.label, &rankings)?;
            let mut hits = Vec::with_capacity(2);
            for (side, (task, rankings)) in tasks.iter().zip(&rankings).enumerate() {
                if evaluation.detail != EvaluationDetail::Tables {
                    results.recalls[side].push(recall_summary(task, rankings, evaluation.cutoffs, &pool_name)?);
                    continue;
                }
                let evaluator = DirectionEvaluator {
                    task,
                    cutoffs: evaluation.cutoffs,
                    binary_relevance: &binary_relevance[side],
                    pool_name: &pool_name,
                };
                let measured = evaluator.measure(rankings)?;
                let scope = chosen.label.scope(&folds.protocol, fold, task.direction);
                let columns = RankingColumns { cutoffs: evaluation.cutoffs, depth: evaluation.ranking_depth };
                write_rankings(self.callbacks, columns, &scope, task, rankings, &measured.hits)?;
                write_hubs(self.callbacks, evaluation.cutoffs, &scope, task, &measured.counts)?;
                results.metrics[side].push(measured.metrics);
                hits.push(measured.hits);
            }
            if let Ok(directions) = <[_; 2]>::try_from(hits) {
                results.hits.push(PoolHits { images: images.len(), directions });
            }
            let graded = !evaluation.graded_relevance.is_empty() && rankings[0].sets.is_none();
            results.lists.extend(graded.then(|| PoolTopLists::of(&rankings)));
            self.advance(queries);
        }
        Ok(())
    }

    /// Computes the graded measures of all rankings for a graded relevance.
    fn measure_graded_relevance(
        &mut self,
        number: usize,
        graded: &GradedRelevance,
        lists: &[Vec<Vec<PoolTopLists>>],
    ) -> Result<()> {
        let evaluation = self.evaluation;
        let grades = self.callbacks.relevance_grades(number)?;
        for (folds, lists) in evaluation.protocols.iter().zip(lists) {
            let pools = self.protocol_pools(folds)?;
            let (mut few_relevant, mut queries_measured) = (0, 0);
            for (method, lists) in lists.iter().enumerate().filter(|(_, lists)| !lists.is_empty()) {
                let mut means = [Vec::new(), Vec::new()];
                (few_relevant, queries_measured) = (0, 0);
                for (images, lists) in folds.images.iter().zip(lists) {
                    let whole = pools.folds == 1 && images.end < evaluation.collection.image_ids.len();
                    let options = GradedOptions {
                        cutoffs: evaluation.cutoffs,
                        neighbours: &graded.neighbours,
                        uses_whole_split: whole,
                    };
                    let collection = &evaluation.collection;
                    let pool = measure_graded(self.callbacks, grades.as_ref(), collection, images, lists, &options)?;
                    let queries = images.len() + collection.captions_of(images)?.len();
                    few_relevant += pool.few_relevant;
                    queries_measured += queries;
                    means.iter_mut().zip(pool.means).for_each(|(folds, pool_means)| folds.push(pool_means));
                    self.advance(queries);
                }
                self.results.add_graded(&pools, &self.methods[method].label, &graded.name, &means);
            }
            warn_of_few_relevant(self.callbacks, graded, &folds.protocol, few_relevant, queries_measured);
        }
        Ok(())
    }
}

impl Evaluation<'_> {
    /// Number of items of each ranking that measures need, if a query has up to `own` matches and `relevant` other
    /// relevant items.
    fn depth(&self, own: usize, relevant: usize) -> usize {
        if let EvaluationDetail::Recalls { lists } = self.detail {
            return lists;
        }
        let neighbours: Vec<usize> =
            self.graded_relevance.iter().flat_map(|relevance| &relevance.neighbours).copied().collect();
        self.ranking_depth.max(relevant).max(required_depth(self.cutoffs, &neighbours, own))
    }
}

/// Method to rank with, and its label in tables.
pub(super) struct SelectedMethod<'e> {
    pub(super) method: &'e Method,
    pub(super) label: MethodLabel,
}

/// Selector of methods on a validation split.
pub(super) struct MethodSelector<'e> {
    pub(super) methods: &'e [Method],
    pub(super) cutoffs: &'e [usize],
    /// Name of the query bank in results.
    pub(super) bank: Option<&'e str>,
    /// Name and content of the validation split.
    pub(super) validation: Option<(&'e str, Collection<'e>)>,
}

impl<'e> MethodSelector<'e> {
    /// Returns the methods, each `best_of` replaced by its method with the largest rsum on the validation split.
    pub(super) fn select(&self, callbacks: &mut dyn Callbacks) -> Result<Vec<SelectedMethod<'e>>> {
        let mut selected: Vec<SelectedMethod<'e>> = Vec::with_capacity(self.methods.len());
        let needs_validation = self.methods.iter().any(|method| method.candidates().is_some());
        let pool = needs_validation.then(|| self.pool()).transpose()?;
        let ranker = pool.as_ref().map(|pool| Ranker::new(pool.scores.as_ref())).transpose()?;
        for (number, method) in self.methods.iter().enumerate() {
            let one = match (method.candidates(), &pool, &ranker) {
                (Some(methods), Some(pool), Some(ranker)) => self.best(methods, pool, ranker, callbacks)?,
                _ => SelectedMethod { method, label: method.label(self.bank, None) },
            };
            if selected.iter().any(|other| other.label == one.label) {
                let MethodLabel { method, parameters, .. } = &one.label;
                let numbers = parameters.as_ref().map(|numbers| format!(" ({numbers})")).unwrap_or_default();
                let message = format!("equals an earlier `{method}`{numbers}, and is left out");
                callbacks.warn(format!("methods.{number}"), message);
            } else {
                selected.push(one);
            }
        }
        Ok(selected)
    }

    /// Returns the validation split as one pool.
    fn pool(&self) -> Result<ValidationPool<'e>> {
        let (name, collection) = self.validation.ok_or_else(|| Error::usage("`best_of` wants a validation split"))?;
        let images = 0..collection.image_ids.len();
        // The scores borrow from the collection.
        let scores = collection.scores.pool(&images, &collection.captions_of(&images)?)?;
        Ok(ValidationPool { name, tasks: collection.tasks(&images)?, scores })
    }

    /// Selects the best of `methods` on the validation split.
    fn best(
        &self,
        methods: &'e [Method],
        pool: &ValidationPool<'e>,
        ranker: &Ranker<'_>,
        callbacks: &mut dyn Callbacks,
    ) -> Result<SelectedMethod<'e>> {
        let request = RankingRequest { tasks: &pool.tasks, depth: [0; 2], cutoffs: self.cutoffs };
        let pool_name = format!("split `{}`", pool.name);
        let mut best: Option<(&Method, f64)> = None;
        for method in methods {
            let rankings = method.rank(ranker, &request, &mut MethodProgress::silent(callbacks))?;
            let recalls = |side: usize| recall_summary(&pool.tasks[side], &rankings[side], self.cutoffs, &pool_name);
            let sum = rsum(&recalls(0)?, &recalls(1)?);
            if best.is_none_or(|(_, largest)| sum > largest) {
                best = Some((method, sum));
            }
        }
        let (method, _) = best.ok_or_else(|| Error::usage("`best_of` wants methods to select from"))?;
        Ok(SelectedMethod { method, label: method.label(self.bank, Some(pool.name)) })
    }
}

/// Validation split as one pool. Its scores are computed once for all methods.
struct ValidationPool<'e> {
    name: &'e str,
    tasks: [RetrievalTask<'e>; 2],
    scores: Box<dyn PoolScores + 'e>,
}
