//! The course of a training: epochs, steps, checkpoints, validation.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array};

use super::Train;
use super::corpus::{Corpus, Validation};
use super::history::{History, int, write_validation};
use super::position::{Best, PlanName, Position};
use super::settings::Order;
use super::validate::validate;
use crate::error::{Error, Result};
use crate::kernels::measure::recall::rsum;
use crate::loader::{Allocate, Batch, Loader, Stalls, Start};
use crate::model::device::{to_tch, use_threads};
use crate::model::form::Form;
use crate::model::memory;
use crate::model::trained::{DESCRIPTION, Description, PARAMETERS};
use crate::model::training::{Stepped, Training};
use crate::model::vse::Vse;
use crate::stage::{Cx, Run, Stage};
use crate::tables;

/// Epochs in a row with a mean loss at its collapse value after which a person is told. With MAX some six are usual.
const COLLAPSED_EPOCHS: u32 = 10;

impl Run for Train {
    /// Every epoch visits all training pairs once, in an order that depends on the seed and the epoch alone, `batch` pairs
    /// a step; the last step of an epoch takes what is left, be it one pair (which has no negatives and so no loss).
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        use_threads(cx.threads());
        let device = to_tch(cx.device())?;
        let corpus = Corpus::open(self, cx)?;
        let plan = PlanName::of(self, &corpus);
        let (training, at) = match cx.state()? {
            Some(bytes) => {
                let (training, text) = Training::from_bytes(&bytes, &self.form(&corpus), device)?;
                (training, Position::from_text(&text, &plan)?)
            }
            None => {
                // A training that is resumed has written and told all this before.
                write_plan(self, &corpus, cx)?;
                for (subject, message) in &corpus.warnings {
                    cx.warn(subject, message);
                }
                let vse = Vse::new(self.form(&corpus), self.seed, device)?;
                (Training::start(vse), Position::start(plan))
            }
        };
        let validation = None;
        let allocate = memory::for_device(device);
        let mut course = Course { corpus: &corpus, training, at, validation, allocate, stalls: Stalls::default() };
        while course.at.epoch < u64::from(self.epochs) {
            self.epoch(&mut course, cx)?;
        }
        cx.put_file("model", PARAMETERS, course.training.best()?)?;
        cx.put_file("model", DESCRIPTION, self.describe(&corpus, &course.at)?)
    }
}

/// A training under way.
struct Course<'c> {
    corpus: &'c Corpus,
    training: Training,
    at: Position,
    /// Read when the first epoch ends.
    validation: Option<Validation>,
    allocate: Allocate,
    /// What was waited for in the epochs that are done.
    stalls: Stalls,
}

impl Train {
    /// The rest of an epoch, its validation and its checkpoint.
    fn epoch(&self, course: &mut Course<'_>, cx: &mut Cx<'_>) -> Result<()> {
        let Course { corpus, training, at, validation, allocate, stalls } = course;
        let batches = corpus.plan.batches();
        let steps = batches as u64 * u64::from(self.epochs);
        let learning_rate = self.learning_rate_of(at.epoch);
        let mut history = History::default();
        cx.progress(at.step, Some(steps));
        // Rows of shards are copied much faster than a model learns from them: one thread is plenty.
        let start = Start::alone(at.epoch, at.batches, 1);
        let mut loader = Loader::start(Arc::clone(&corpus.data), Arc::clone(&corpus.plan), start, allocate)?;
        while let Some(batch) = loader.next(|| cx.proceed())? {
            let words: Vec<&[i64]> = (0..batch.len()).map(|i| batch.words(i)).collect();
            let done = training.step(batch.images(), &words, &self.loss, self.clip, learning_rate)?;
            if !(done.loss.is_finite() && done.gradient_norm.is_finite()) {
                return Err(diverged(done, at, &batch));
            }
            history.push(at, batch.len(), done, learning_rate);
            at.step += 1;
            at.batches += 1;
            at.loss += done.loss;
            at.collapsed_loss += self.loss.collapsed(batch.len());
            cx.progress(at.step, Some(steps));
            let mut so_far = *stalls;
            so_far += loader.stalls();
            cx.stalled(so_far);
            if at.step.is_multiple_of(self.checkpoint_steps) && at.batches < batches {
                history.write(cx)?;
                self.save(training, at, cx)?;
            }
        }
        *stalls += loader.stalls();
        drop(loader);
        self.watch_collapse(at, cx);
        let recalls = if corpus.has_validation() {
            if validation.is_none() {
                *validation = Some(corpus.validation(cx)?);
            }
            validation.as_ref().map(|validation| validate(training.vse(), validation, cx)).transpose()?
        } else {
            None
        };
        let rsum = recalls.as_ref().map(|[i2t, t2i]| rsum(i2t, t2i));
        // Of equal epochs the first one wins, as in published code; without a validation split every epoch is the best so
        // far.
        let best = at.best.is_none_or(|best| rsum.is_none() || best.rsum < rsum);
        if best {
            training.keep_best()?;
            at.best = Some(Best { epoch: at.epoch, step: at.step, rsum });
        }
        history.write(cx)?;
        if let Some(recalls) = &recalls {
            write_validation(at, batches, recalls, best, cx)?;
        }
        at.next_epoch();
        self.save(training, at, cx)
    }

    fn save(&self, training: &Training, at: &Position, cx: &mut Cx<'_>) -> Result<()> {
        cx.save(training.to_bytes(at.to_text()?)?, self.checkpoints)
    }

    /// `learning_rate` · `decay` ^ ⌊epoch / `decay_epochs`⌋.
    fn learning_rate_of(&self, epoch: u64) -> f64 {
        let times = i32::try_from(epoch / u64::from(self.decay_epochs.max(1))).unwrap_or(i32::MAX);
        self.learning_rate * self.decay.powi(times)
    }

    fn form(&self, corpus: &Corpus) -> Form {
        Form::vse(corpus.width, corpus.vocabulary.words().len(), self.word, self.embedding)
    }

    fn watch_collapse(&self, at: &mut Position, cx: &mut Cx<'_>) {
        let collapsed = at.collapsed_loss > 0.0 && (at.loss / at.collapsed_loss - 1.0).abs() < 0.01;
        at.collapsed_epochs = if collapsed { at.collapsed_epochs + 1 } else { 0 };
        let last = at.epoch + 1 == u64::from(self.epochs);
        if at.collapsed_epochs == COLLAPSED_EPOCHS || (collapsed && last && at.collapsed_epochs < COLLAPSED_EPOCHS) {
            cx.warn(
                format!("epoch {}", at.epoch),
                format!(
                    "the loss has been for {} epochs what it is when all scores are equal; with `max` that is usual at \
                     first and ends after some thousand steps, or never: more epochs, a lower `learning_rate`, a smaller \
                     `batch` or the loss `sum` may help",
                    at.collapsed_epochs
                ),
            );
        }
    }

    fn describe(&self, corpus: &Corpus, at: &Position) -> Result<Vec<u8>> {
        let best = at.best.ok_or_else(|| Error::internal("a training ended without an epoch"))?;
        let description = Description {
            family: "vse++".to_owned(),
            form: self.form(corpus),
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
    let numbers = |value: &dyn Fn(usize) -> i64| -> ArrayRef {
        Arc::new(Int64Array::from_iter_values((0..sets.len()).map(value)))
    };
    let window = match stage.order {
        Order::Global => None,
        Order::Windows(shards) => Some(int(shards as u64)),
    };
    let columns = vec![
        numbers(&|set| int(set as u64)),
        numbers(&|set| int(sets[set].shards.iter().sum::<usize>() as u64)),
        numbers(&|set| int(sets[set].shards.len() as u64)),
        Arc::new(Float64Array::from_iter_values(sets.iter().map(|set| set.weight))),
        Arc::new(Int64Array::from(vec![window; sets.len()])),
        numbers(&|_| int(stage.batch as u64)),
        numbers(&|_| stage.seed.cast_signed()),
    ];
    cx.write("plan", tables::batch(&tables::plan::table().schema(), columns)?)?;
    let samples = corpus.samples.batch()?;
    for start in (0..samples.num_rows()).step_by(BLOCK) {
        cx.write("samples", samples.slice(start, BLOCK.min(samples.num_rows() - start)))?;
    }
    Ok(())
}

fn diverged(done: Stepped, at: &Position, batch: &Batch) -> Error {
    let shown = batch.captions().iter().take(20).map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let more = if batch.len() > 20 { format!(" and {} more", batch.len() - 20) } else { String::new() };
    Error::stage(format!(
        "step {} (epoch {}): the loss is {} and the gradient's norm {}, wanted finite numbers; caption_id of the batch: \
         {shown}{more}",
        at.step, at.epoch, done.loss, done.gradient_norm
    ))
    .hint("try a lower `learning_rate`")
}
