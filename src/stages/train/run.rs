//! The course of a training: epochs, steps, checkpoints, validation.

use std::sync::Arc;

use az::SaturatingAs;
use bytes::Bytes;

use arrow::array::{Float64Array, Int64Array};

use super::Train;
use super::bank;
use super::corpus::{Corpus, Validation};
use super::history::{History, write_validation};
use super::options::{Pictures, SameImage, Weights};
use super::position::{Best, PlanName, Position};
use super::relevance::Relevance;
use super::validate::{Phi, validate};
use super::watch;
use crate::error::{Error, Result, TruncatedList};
use crate::io::{bounded, word_vectors};
use crate::kernels::epoch::Order;
use crate::loader::{Allocate, Loader, Start};
use crate::model::bank::Bank;
use crate::model::collective::Group;
use crate::model::device::{of_rank, use_threads};
use crate::model::family::data::{self, Data};
use crate::model::family::list::Config;
use crate::model::family::model::Model;
use crate::model::loss::Objective;
use crate::model::memory;
use crate::model::step::{BankUse, Pairs, Recipe, Stepped};
use crate::model::trained::{DESCRIPTION, Description, PARAMETERS};
use crate::model::training::Training;
use crate::runtime::{Device, Stalls};
use crate::stage::{Cx, Run, Stage, StageEvent};
use crate::tables::{self, Optional};

/// Bytes above which a file of weights is not read: several times those of the largest network.
const MAX_WEIGHTS: u64 = 1 << 30;

impl Run for Train {
    /// Every epoch visits all training pairs once, in an order that depends on the seed and the epoch alone, `batch` pairs
    /// a step over all ranks; the last step of an epoch takes what is left, be it one pair (which has no negatives).
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        let corpus = Corpus::open(self, cx)?;
        let relevance = self.caption_ngrams.as_ref().map(|_| Relevance::read(&corpus, cx)).transpose()?;
        let given = match &self.start {
            Some(_) => Some((cx.file("start", DESCRIPTION)?, cx.file("start", PARAMETERS)?)),
            None => None,
        };
        if let Some(bank) = &self.bank {
            bank::check(self, bank, &corpus)?;
        }
        // After all inputs are there: a turn that waited for another training would never end.
        cx.turn()?;
        let ranks = cx.ranks(self.ranks)?;
        use_threads(cx.threads());
        let device = of_rank(cx.device(), ranks.local)?;
        let allocate = memory::for_device(device);
        let group = Group::join(&ranks, device, cx.cancel())?;
        if let (Device::Cuda(_), Some(why)) = (cx.device(), group.why_not_nccl().filter(|_| group.ranks() > 1)) {
            let message = format!("ranks exchange tensors through the memory of the processor, not by NCCL: {why}");
            cx.warn("device", message);
        }
        let plan = PlanName::of(self, &corpus);
        let (training, at, bank) = match cx.state()? {
            Some(bytes) => {
                let (mut training, text, bank) = Training::from_bytes(&bytes, &self.config(&corpus), device)?;
                training.model_mut().set_precision(self.precision)?;
                let at = Position::from_text(&text, &plan)?;
                let bank = match (bank, &self.bank) {
                    (Some(kept), Some(settings)) => {
                        let members = bank::members(self, settings, &corpus, at.epoch)?;
                        Some(kept.of(at.epoch, members)?)
                    }
                    _ => None,
                };
                (training, at, bank)
            }
            None => {
                // A training that is resumed has written and told all this before.
                write_plan(self, &corpus, cx)?;
                for (subject, message) in &corpus.warnings {
                    cx.warn(subject, message);
                }
                let training = self.start(&corpus, given, ranks.local, cx)?;
                (training, Position::start(plan), None)
            }
        };
        let (corpus, validation, stalls) = (&corpus, None, Stalls::default());
        let mut course = Course { corpus, relevance, group, training, at, bank, validation, allocate, stalls };
        while course.at.epoch < u64::from(self.epochs) {
            self.epoch(&mut course, cx)?;
        }
        if course.group.rank() > 0 {
            return Ok(());
        }
        cx.put_file("model", PARAMETERS, course.training.best()?)?;
        cx.put_file("model", DESCRIPTION, self.describe(corpus, &course.at)?.into())
    }
}

/// A training under way.
struct Course<'c> {
    corpus: &'c Corpus,
    relevance: Option<Relevance>,
    group: Group,
    training: Training,
    at: Position,
    /// That of the epoch under way.
    bank: Option<Bank>,
    /// Read when the first epoch ends.
    validation: Option<(Validation, Option<Phi>)>,
    allocate: Allocate,
    /// What was waited for in the epochs that are done.
    stalls: Stalls,
}

impl Train {
    /// The rest of an epoch, its validation and its checkpoint.
    fn epoch(&self, course: &mut Course<'_>, cx: &mut Cx<'_>) -> Result<()> {
        self.refresh(course, cx)?;
        let Course { corpus, relevance, group, training, at, bank, allocate, stalls, .. } = course;
        let batches = corpus.plan.batches();
        let steps = batches as u64 * u64::from(self.epochs);
        let learning_rate = self.learning_rate_of(at.epoch);
        let recipe = self.recipe(at.epoch);
        let bank_use = bank.as_ref().zip(self.bank.as_ref()).zip(training.model().similarity());
        let bank_use = bank_use.map(|((bank, settings), similarity)| BankUse {
            bank,
            similarity,
            mask: settings.mask,
            weights: &settings.weights,
        });
        let mut history = History::default();
        cx.progress(at.step, Some(steps));
        // Rows of shards are copied much faster than a model learns from them: one thread is plenty.
        let start = Start { rank: group.rank(), ranks: group.ranks(), ..Start::alone(at.epoch, at.batches, 1) };
        let mut loader = Loader::start(Arc::clone(&corpus.data), Arc::clone(&corpus.plan), start, allocate)?;
        let order = corpus.plan.epoch(at.epoch);
        while let Some(batch) = loader.next(|| cx.proceed())? {
            let words: Vec<&[i32]> = (0..batch.len()).map(|i| batch.words(i)).collect();
            let rows = corpus.rows(&order, at.batches);
            let members = corpus.members(&rows)?;
            let relevance = relevance.as_ref().filter(|_| recipe.objective.semantic_margin.is_some());
            let relevance = relevance.map(|relevance| relevance.block(&rows));
            let pairs =
                Pairs { images: batch.images(), captions: &words, members: &members, relevance: relevance.as_deref() };
            let done = training.step(&pairs, &recipe, bank_use, learning_rate, at.step, group)?;
            if !done.is_finite() {
                return Err(diverged(&done, at, &rows, corpus));
            }
            let collapsed = recipe.objective.collapsed(rows.len());
            history.push(at, rows.len(), &done, collapsed, learning_rate);
            at.step += 1;
            at.batches += 1;
            at.loss += done.loss;
            at.gradient = at.gradient.max(done.gradient_norm);
            at.collapsed_loss += collapsed.unwrap_or(0.0);
            cx.progress(at.step, Some(steps));
            let mut so_far = *stalls;
            so_far += loader.stalls();
            cx.emit(StageEvent::Stalls(so_far));
            if at.step.is_multiple_of(self.checkpoint_steps) && at.batches < batches {
                history.write(cx)?;
                self.save(training, at, bank.as_ref(), cx)?;
            }
        }
        *stalls += loader.stalls();
        drop(loader);
        self.end(course, history, cx)
    }

    /// What comes after the steps of an epoch.
    fn end(&self, course: &mut Course<'_>, mut history: History, cx: &mut Cx<'_>) -> Result<()> {
        let Course { corpus, relevance, group, training, at, validation, .. } = course;
        watch::collapse(self, at, cx);
        watch::standstill(at, cx);
        if group.rank() > 0 {
            // The first rank validates, and keeps the best model.
            at.next_epoch();
            return cx.proceed();
        }
        let found = if corpus.has_validation() {
            if validation.is_none() {
                let read = corpus.validation(cx)?;
                let phi = relevance.as_ref().filter(|_| self.select.wants_relevance());
                let phi = phi.map(|relevance| relevance.validation(&read)).transpose()?;
                *validation = Some((read, phi));
            }
            let validation = validation.as_ref();
            validation.map(|(read, phi)| validate(training, self.select, corpus, read, phi.as_ref(), cx)).transpose()?
        } else {
            None
        };
        // Of equal epochs the first one wins, as in published code; without a validation split every epoch is the best so
        // far.
        let score = found.as_ref().map(|found| found.score);
        let best = at.best.is_none_or(|best| score.is_none() || best.score < score);
        if best {
            training.keep_best()?;
            let rsum = found.as_ref().map(|validated| validated.found.rsum);
            at.best = Some(Best { epoch: at.epoch, step: at.step, rsum, score });
        }
        history.write(cx)?;
        if let Some(found) = &found {
            write_validation(at, corpus.plan.batches(), found, best, cx)?;
            watch::falling(found.score, at, cx);
        }
        at.next_epoch();
        self.save(training, at, None, cx)
    }

    /// Draws and embeds the bank of the epoch that begins.
    fn refresh(&self, course: &mut Course<'_>, cx: &mut Cx<'_>) -> Result<()> {
        let Course { corpus, group, training, at, bank, .. } = course;
        let Some(settings) = &self.bank else { return Ok(()) };
        let warm = self.warm_up.is_some_and(|warm| at.epoch < u64::from(warm.epochs));
        if warm || at.epoch < settings.first_epoch {
            *bank = None;
            return Ok(());
        }
        if bank.as_ref().is_none_or(|bank| bank.epoch != at.epoch) {
            let members = bank::members(self, settings, corpus, at.epoch)?;
            if members.is_empty() {
                cx.warn(format!("epoch {}", at.epoch), "no batch was drawn for the memory bank: this epoch has none");
                *bank = None;
                return Ok(());
            }
            let fresh = bank::refresh(at.epoch, members, training, corpus, group, cx)?;
            bank::write(&fresh, corpus, cx)?;
            *bank = Some(fresh);
        }
        Ok(())
    }

    /// What is learned in an epoch.
    fn recipe(&self, epoch: u64) -> Recipe {
        let warm = self.warm_up.filter(|warm| epoch < u64::from(warm.epochs));
        let objective = match warm {
            Some(warm) => Objective { loss: warm.loss(), semantic_margin: None },
            None => self.objective(),
        };
        Recipe { objective, mask_same_image: self.same_image == SameImage::Mask, seed: self.seed, clip: self.clip }
    }

    fn save(&self, training: &Training, at: &Position, bank: Option<&Bank>, cx: &mut Cx<'_>) -> Result<()> {
        cx.save(training.to_bytes(at.to_text()?, bank)?, self.checkpoints)
    }

    /// `learning_rate` · `decay` ^ ⌊epoch / `decay_epochs`⌋.
    fn learning_rate_of(&self, epoch: u64) -> f64 {
        let times = (epoch / u64::from(self.decay_epochs.max(1))).saturating_as::<i32>();
        self.learning_rate * self.decay.powi(times)
    }

    fn config(&self, corpus: &Corpus) -> Config {
        let pictures = self.pictures.as_ref();
        self.model.config(Data {
            image: corpus.width,
            words: corpus.vocabulary.words().len(),
            words_frozen: self.word_vectors.as_ref().is_some_and(|vectors| !vectors.train),
            pictures: pictures.map(|&Pictures { network, side, resize, .. }| data::Pictures { network, side, resize }),
        })
    }

    /// A training that has learned nothing.
    fn start(&self, corpus: &Corpus, given: Option<(Bytes, Bytes)>, local: usize, cx: &mut Cx<'_>) -> Result<Training> {
        let config = self.config(corpus);
        let mut model = config.create(self.seed, of_rank(cx.device(), local)?)?;
        model.set_precision(self.precision)?;
        if let Some(Pictures { weights: Weights::File(_), .. }) = &self.pictures {
            let path = cx.source("pictures.weights.file")?;
            let weights = model.parameters().set_network(config.data(), &bounded::read(&path, MAX_WEIGHTS)?);
            weights.map_err(|error| error.context(format!("weights `{}`", path.display())))?;
        }
        if let Some((description, parameters)) = given {
            self.begin_with(&description, &parameters, &*model, corpus).map_err(|error| error.context("start"))?;
        }
        if self.word_vectors.is_some() {
            self.set_words(&*model, corpus, cx)?;
        }
        Ok(Training::start(config, model))
    }

    /// Takes over the parameters of another training.
    fn begin_with(&self, description: &[u8], parameters: &[u8], model: &dyn Model, corpus: &Corpus) -> Result<()> {
        let description = Description::read(description)?;
        if description.vocabulary != corpus.vocabulary.words() || description.tokenizer != self.tokenizer {
            let (given, own) = (description.vocabulary.len(), corpus.vocabulary.words().len());
            let message =
                format!("the model to start with has {given} words, and these captions give {own}, or others");
            return Err(
                Error::data(message).hint("train both on the same captions, with the same `tokenizer` and `min_count`")
            );
        }
        model.parameters().begin_with(parameters)
    }

    /// Gives words the vectors of a file.
    fn set_words(&self, model: &dyn Model, corpus: &Corpus, cx: &mut Cx<'_>) -> Result<()> {
        let path = cx.source("word_vectors.file")?;
        let words = corpus.vocabulary.words();
        let name = self.model.capabilities().word_vectors;
        let name = name.ok_or_else(|| Error::internal("a model without vectors of words"))?;
        let width = model.parameters().get(name)?.size().get(1).and_then(|&width| usize::try_from(width).ok());
        let vectors = word_vectors::read(&path, words, width.unwrap_or(0), &mut || cx.proceed())?;
        model.parameters().set_rows(name, |word| vectors.get(word))?;
        // `<pad>`, `<start>`, `<end>` and `<unk>` are no words of a file.
        let (found, wanted) = (vectors.found(), words.len().saturating_sub(4));
        let rest = if model.data().words_frozen { " and stay there" } else { "" };
        if found == 0 {
            let message = format!("`{}` has none of the {wanted} words of the vocabulary", path.display());
            return Err(Error::data(message).hint("is it a file of another language, or of whole phrases?"));
        }
        if found < wanted {
            let missing = wanted - found;
            let message = format!("{missing} of {wanted} words are not in it: their vectors begin at random{rest}");
            cx.warn("word_vectors.file", message);
        }
        Ok(())
    }

    fn describe(&self, corpus: &Corpus, at: &Position) -> Result<Vec<u8>> {
        let best = at.best.ok_or_else(|| Error::internal("a training ended without an epoch"))?;
        let description = Description {
            config: self.config(corpus),
            epoch: best.epoch,
            step: best.step,
            rsum: best.rsum,
            tokenizer: self.tokenizer,
            settings: self.settings(),
            vocabulary: corpus.vocabulary.words().to_vec(),
        };
        serde_json::to_vec_pretty(&description)
            .map_err(|error| Error::internal(format!("cannot describe a model: {error}")))
    }
}

/// Rows of a block in which samples are written.
const BLOCK: usize = 8192;

/// Writes what the order of the epochs follows from: the plan, and the samples in the order in which it counts them.
fn write_plan(stage: &Train, corpus: &Corpus, cx: &mut Cx<'_>) -> Result<()> {
    let sets = corpus.data.plan_sets();
    let same = |number: i64| Int64Array::from(vec![number; sets.len()]);
    let window = match stage.order {
        Order::Global => None,
        Order::Windows(shards) => Some(shards.saturating_as::<i64>()),
    };
    let plan = tables::plan::Columns {
        data_set: (0..SaturatingAs::saturating_as(sets.len() as u64)).collect::<Vec<_>>().into(),
        samples: Int64Array::from_iter_values(
            sets.iter().map(|set| set.shards.iter().sum::<usize>().saturating_as::<i64>()),
        ),
        shards: Int64Array::from_iter_values(sets.iter().map(|set| set.shards.len().saturating_as::<i64>())),
        weight: Float64Array::from_iter_values(sets.iter().map(|set| set.weight)),
        window: Optional(vec![window; sets.len()].into()),
        batch: same(stage.batch.saturating_as::<i64>()),
        seed: same(stage.seed.cast_signed()),
    };
    cx.write("plan", plan.into_batch()?)?;
    let samples = corpus.samples.batch()?;
    for start in (0..samples.num_rows()).step_by(BLOCK) {
        cx.write("samples", samples.slice(start, BLOCK.min(samples.num_rows() - start)))?;
    }
    Ok(())
}

fn diverged(done: &Stepped, at: &Position, rows: &[usize], corpus: &Corpus) -> Error {
    let mut captions = TruncatedList::new(1000);
    captions.extend(rows.iter().filter_map(|&row| corpus.sample(row).ok()).map(|sample| sample.caption));
    let auxiliary = done.auxiliary.iter().map(|(name, value)| format!(", `{name}` {value}")).collect::<String>();
    Error::stage(format!(
        "step {} (epoch {}): the loss is {}{auxiliary} and the gradient's norm {}, wanted finite numbers; caption_id of the batch: \
         {}",
        at.step,
        at.epoch,
        done.loss,
        done.gradient_norm,
        captions.join(", ")
    ))
    .hint("try a lower `learning_rate`")
}
