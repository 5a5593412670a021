//! The work of `evaluate`: every method, on every fold of every protocol.

use std::ops::Range;

use super::bank::BankVectors;
use super::graded::{Lists, What, measure_fold};
use super::intervals;
use super::keeping::Keeping;
use super::label::Label;
use super::measure::{Asked, Fold, Question, images_of};
use super::methods::Method;
use super::pool::{Pool, Task};
use super::ranking::{Found, Ranker, Sides, Wanted};
use super::rated::Rated;
use super::results::{Measured, Pools, Results};
use super::rows::{Direction, Hubs, Place, Rankings};
use super::settings::{Evaluate, input};
use super::similarity::Similarity;
use crate::error::{Error, Result};
use crate::kernels::measure::graded::depth;
use crate::kernels::measure::recall::CUTOFFS;
use crate::model::search::Searcher;
use crate::search::WORTH;
use crate::stage::{Cx, Run};

/// Items of every ranking that `rankings` keeps.
const TOP: usize = 10;
/// Queries whose rankings are written together.
const QUERIES: usize = 512;

/// A method to rank with, and where its numbers were chosen if they were.
struct Chosen<'s> {
    method: &'s Method,
    label: Label,
}

impl Run for Evaluate {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        self.evaluate(cx, WORTH)
    }
}

impl Evaluate {
    /// The work; `worth` is how many multiply-adds of a search are worth being kept.
    pub(super) fn evaluate(&self, cx: &mut Cx<'_>, worth: u64) -> Result<()> {
        let searcher = Searcher::new(cx.device(), self.similarity, cx.threads())?;
        let pool = Pool::read(cx, &self.split, self.similarity)?;
        let bank =
            self.bank.as_ref().map(|bank| BankVectors::read(bank, pool.width, self.similarity, cx)).transpose()?;
        let bank = bank.as_ref().map(|bank| Sides::of_bank(bank, pool.width)).transpose()?;
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
        let methods = self.choose(bank.as_ref(), searcher, worth, cx)?;

        let queries = |fold: &Range<usize>| fold.len() + pool.captions_of(fold).len();
        let total = protocols.iter().flat_map(|(_, folds)| folds.iter().map(queries)).sum::<usize>() as u64;
        let mut work = Work {
            stage: self,
            pool: &pool,
            bank: bank.as_ref(),
            searcher,
            neighbours: &neighbours,
            rated: &rated,
            graded: !graded.is_empty(),
            worth,
            done: 0,
            total: total * (methods.len() + graded.len() * methods.len()) as u64,
        };
        let mut results = Results::default();
        // Of every protocol, method and fold; nothing of matchings, which have no places.
        let mut lists: Vec<Vec<Vec<[Lists; 2]>>> = Vec::new();
        for (pools, folds) in &protocols {
            let mut measured: Vec<[Vec<Measured>; 2]> = methods.iter().map(|_| Default::default()).collect();
            let mut kept: Vec<Vec<Fold>> = methods.iter().map(|_| Vec::new()).collect();
            let mut of_methods: Vec<Vec<[Lists; 2]>> = methods.iter().map(|_| Vec::new()).collect();
            for (number, images) in folds.iter().enumerate() {
                let ranked = work.fold(cx, &pools.protocol, number, images, &methods)?;
                for (place, (fold, both, lists)) in ranked.into_iter().enumerate() {
                    kept[place].push(fold);
                    measured[place].iter_mut().zip(both).for_each(|(folds, one)| folds.push(one));
                    of_methods[place].extend(lists);
                }
            }
            for ((chosen, measured), kept) in methods.iter().zip(&measured).zip(&kept) {
                results.add(pools, &chosen.label, measured, intervals::intervals(kept))?;
                cx.proceed()?;
            }
            lists.push(of_methods);
        }
        // One after the other, so that one matrix of φ is held at a time.
        for (number, relevance) in graded {
            let similarity = Similarity::read(cx, &input(number, "similarity"), &pool)?;
            for ((pools, folds), lists) in protocols.iter().zip(&lists) {
                let (mut unclear, mut asked) = (0, 0);
                for (chosen, lists) in methods.iter().zip(lists).filter(|(_, lists)| !lists.is_empty()) {
                    let mut means = [Vec::new(), Vec::new()];
                    (unclear, asked) = (0, 0);
                    for (images, lists) in folds.iter().zip(lists) {
                        let whole = pools.folds == 1 && images.end < n_images;
                        let what = What { cutoffs: &self.cutoffs, neighbours: relevance.neighbours(), whole };
                        let (fold, of_fold) = measure_fold(cx, &similarity, &pool, images, lists, &what)?;
                        unclear += of_fold;
                        asked += queries(images);
                        means.iter_mut().zip(fold).for_each(|(folds, fold)| folds.push(fold));
                        work.tell(queries(images), cx);
                    }
                    results.add_graded(pools, &chosen.label, &relevance.name, &means);
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
            }
        }
        cx.write("metrics", results.metrics()?)?;
        cx.write("summary", results.summary()?)
    }

    /// The methods, each `best_of` replaced by the one that is best on the validation split.
    fn choose(
        &self,
        bank: Option<&Sides<'_>>,
        searcher: Searcher,
        worth: u64,
        cx: &mut Cx<'_>,
    ) -> Result<Vec<Chosen<'_>>> {
        let name = self.bank.as_ref().map(super::Bank::name);
        let label = |method: &Method, chosen: Option<&str>| method.label(name, chosen);
        let mut validation: Option<Pool> = None;
        let mut chosen: Vec<Chosen<'_>> = Vec::with_capacity(self.methods.len());
        for (number, method) in self.methods.iter().enumerate() {
            let Method::BestOf { methods } = method else {
                add(&mut chosen, Chosen { method, label: label(method, None) }, number, cx);
                continue;
            };
            let split = self.validation.as_deref().unwrap_or_default();
            let pool = match &validation {
                Some(pool) => pool,
                None => validation.insert(Pool::read(cx, split, self.similarity)?),
            };
            let mut best: Option<(&Method, f64)> = None;
            for method in methods {
                let ranked = self.rsum(method, pool, bank, searcher, &mut Keeping::new(cx, worth))?;
                if best.is_none_or(|(_, rsum)| ranked > rsum) {
                    best = Some((method, ranked));
                }
            }
            let (method, _) = best.ok_or_else(|| Error::internal("a choice among no methods"))?;
            add(&mut chosen, Chosen { method, label: label(method, Some(split)) }, number, cx);
        }
        Ok(chosen)
    }

    /// rsum of a method on a split.
    fn rsum(
        &self,
        method: &Method,
        pool: &Pool,
        bank: Option<&Sides<'_>>,
        searcher: Searcher,
        keeping: &mut Keeping<'_, '_>,
    ) -> Result<f64> {
        let all = 0..pool.images.ids.len();
        let tasks = Direction::BOTH.map(|direction| pool.task(&all, direction));
        let sides = Sides::new(tasks[0].queries.1, tasks[0].items.1, pool.width)?;
        let ranker = Ranker::new(&sides, bank, searcher)?;
        let matches = tasks.each_ref().map(|task| task.matches.as_slice());
        let found = ranker.rank(method, &Wanted { matches, keep: [TOP; 2] }, keeping)?;
        let mut sum = 0.0;
        for ((direction, task), found) in Direction::BOTH.into_iter().zip(&tasks).zip(&found) {
            let place = format!("split `{}`", self.validation.as_deref().unwrap_or_default());
            let images = images_of(task, direction);
            let question = Question { task, images, cutoffs: &CUTOFFS, rated: &[], place };
            sum += question.measure(found)?.0.retrieval.recalls().iter().sum::<f64>();
        }
        Ok(sum)
    }
}

/// Adds a method, but for one that is there by the same name, and so gives the same.
fn add<'s>(all: &mut Vec<Chosen<'s>>, chosen: Chosen<'s>, number: usize, cx: &mut Cx<'_>) {
    if all.iter().any(|other| other.label == chosen.label) {
        let Label { method, parameters, .. } = &chosen.label;
        let numbers = parameters.as_ref().map(|numbers| format!(" ({numbers})")).unwrap_or_default();
        cx.warn(format!("methods.{number}"), format!("is `{method}`{numbers} once more, and left out"));
    } else {
        all.push(chosen);
    }
}

/// What every fold is ranked with.
struct Work<'w> {
    stage: &'w Evaluate,
    pool: &'w Pool,
    bank: Option<&'w Sides<'w>>,
    searcher: Searcher,
    neighbours: &'w [usize],
    rated: &'w [(&'w str, Rated)],
    /// Whether graded measures will ask for rankings.
    graded: bool,
    /// Multiply-adds of a search that are worth being kept.
    worth: u64,
    done: u64,
    total: u64,
}

/// What a method gave on a fold: for intervals, for means over folds, for graded measures.
type Ranked = (Fold, [Measured; 2], Option<[Lists; 2]>);

impl Work<'_> {
    fn tell(&mut self, queries: usize, cx: &mut Cx<'_>) {
        self.done += queries as u64;
        cx.progress(self.done, Some(self.total));
    }

    /// Ranks the fold of these images by every method and writes what is found.
    fn fold(
        &mut self,
        cx: &mut Cx<'_>,
        protocol: &str,
        fold: usize,
        images: &Range<usize>,
        methods: &[Chosen<'_>],
    ) -> Result<Vec<Ranked>> {
        let tasks = Direction::BOTH.map(|direction| self.pool.task(images, direction));
        let rated = Direction::BOTH.map(|direction| -> Vec<_> {
            self.rated.iter().map(|(name, of)| (*name, of.of_fold(self.pool, images, direction))).collect()
        });
        let keep = [0, 1].map(|place: usize| {
            let most = |sizes: &mut dyn Iterator<Item = usize>| sizes.max().unwrap_or(0);
            let own = most(&mut tasks[place].matches.iter().map(Range::len));
            let relevant = most(&mut rated[place].iter().flat_map(|(_, of)| of.iter().map(Vec::len)));
            TOP.max(own).max(relevant).max(depth(&self.stage.cutoffs, self.neighbours, own))
        });
        let sides = Sides::new(tasks[0].queries.1, tasks[0].items.1, self.pool.width)?;
        let ranker = Ranker::new(&sides, self.bank, self.searcher)?;
        let matches = tasks.each_ref().map(|task| task.matches.as_slice());
        let queries = images.len() + self.pool.captions_of(images).len();
        let mut all = Vec::with_capacity(methods.len());
        for chosen in methods {
            let watch = &mut Keeping::new(cx, self.worth).telling(self.done, queries as u64, self.total);
            let found = ranker.rank(chosen.method, &Wanted { matches, keep }, watch)?;
            let mut both = Vec::new();
            for (place, direction) in Direction::BOTH.into_iter().enumerate() {
                let task = &tasks[place];
                let question = Question {
                    task,
                    images: images_of(task, direction),
                    cutoffs: &self.stage.cutoffs,
                    rated: &rated[place],
                    place: format!("fold {fold} of protocol `{protocol}`"),
                };
                let (measured, asked, counts) = question.measure(&found[place])?;
                let place = Place { protocol, fold, direction };
                write_rankings(cx, place, &chosen.label, task, &found[direction as usize], &asked)?;
                cx.write("hubs", Hubs { place, label: &chosen.label }.rows(task, &counts)?)?;
                both.push((measured, asked));
            }
            let lists = (self.graded && found[0].sets.is_none()).then(|| found.each_ref().map(lists));
            let [(i2t, of_images), (t2i, of_captions)] =
                <[_; 2]>::try_from(both).map_err(|_| Error::internal("two directions"))?;
            let fold = Fold { images: images.len(), directions: [of_images, of_captions] };
            all.push((fold, [i2t, t2i], lists));
            self.tell(queries, cx);
        }
        Ok(all)
    }
}

/// The rankings of all queries, for graded measures.
fn lists(found: &Found) -> Lists {
    let mut lists = Lists::default();
    found.top.iter().for_each(|top| lists.push(top.iter().map(|best| best.item)));
    lists
}

/// Writes what the queries that have a match found.
fn write_rankings(
    cx: &mut Cx<'_>,
    place: Place<'_>,
    label: &Label,
    task: &Task<'_>,
    found: &Found,
    asked: &Asked,
) -> Result<()> {
    let mut rows = Rankings::new(place, label);
    let ((query_ids, _), (item_ids, _)) = (task.queries, task.items);
    let image_ids = match place.direction {
        Direction::ImageToText => query_ids,
        Direction::TextToImage => item_ids,
    };
    let mut hits = asked.hits.iter().zip(&asked.image_of).peekable();
    for (query, matches) in task.matches.iter().enumerate() {
        // An image without captions asks for nothing.
        if let Some((&hits, &image)) = hits.next_if(|_| !matches.is_empty()) {
            let ids = [query_ids[query], image_ids[image]];
            let top = found.top[query].iter().take(TOP).map(|best| (item_ids[best.item], best.score));
            rows.push(ids, hits, found.ranks.get(query).copied().flatten(), top);
        }
        if rows.len() == QUERIES || query + 1 == query_ids.len() {
            cx.write("rankings", rows.take()?)?;
        }
    }
    Ok(())
}
