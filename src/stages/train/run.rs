//! The course of a training: epochs, steps, checkpoints, validation.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array};
use serde::{Deserialize, Serialize};

use super::Train;
use super::pairs::{Pair, Pairs};
use super::validate::validate;
use crate::error::{Error, Result};
use crate::kernels::measure::recall::{Retrieval, rsum};
use crate::kernels::order::epoch_order;
use crate::model::device::{to_tch, use_threads};
use crate::model::trained::{DESCRIPTION, Description, PARAMETERS};
use crate::model::training::{Stepped, Training};
use crate::model::vse::Widths;
use crate::stage::{Cx, Run, Stage};
use crate::tables;

/// Epochs in a row with a mean loss at its collapse value after which a person is told. With MAX some six are usual.
const COLLAPSED_EPOCHS: u32 = 10;

/// Where a training stands; with the model and its optimiser, all that a resumed training needs.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Position {
    /// Epoch, from 0.
    epoch: u64,
    /// Batches of the epoch that are done.
    batches: usize,
    /// Steps done, over all epochs.
    step: u64,
    /// Sum of the losses of the epoch so far.
    loss: f64,
    /// What that sum would be if all scores were equal.
    collapsed_loss: f64,
    /// Epochs in a row that ended where all scores are equal.
    collapsed_epochs: u32,
    /// The best epoch so far.
    best: Option<Best>,
}

/// The epoch that becomes the model.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Best {
    epoch: u64,
    step: u64,
    rsum: Option<f64>,
}

/// Rows of `history` that are not written yet. They are written where the training is saved and nowhere else, so that a
/// resumed training writes what is missing and nothing twice.
#[derive(Debug, Default)]
struct History {
    step: Vec<i64>,
    epoch: Vec<i64>,
    pairs: Vec<i64>,
    loss: Vec<f64>,
    gradient_norm: Vec<f64>,
    learning_rate: Vec<f64>,
}

impl Run for Train {
    /// Every epoch visits all training pairs once, in an order that depends on the seed and the epoch alone, `batch` pairs
    /// a step; the last step of an epoch takes what is left, be it one pair (which has no negatives and so no loss).
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        use_threads(cx.threads());
        let device = to_tch(cx.device())?;
        let mut pairs = Pairs::read(self, cx)?;
        let (mut training, mut at) = match cx.state()? {
            Some(bytes) => {
                let (training, text) = Training::from_bytes(&bytes, device)?;
                let at = serde_json::from_str(&text)
                    .map_err(|error| Error::data(format!("a checkpoint with a damaged position: {error}")))?;
                (training, at)
            }
            None => {
                // A training that is resumed has told them before: they are kept with its checkpoint.
                for (subject, message) in pairs.warnings.drain(..) {
                    cx.warn(subject, message);
                }
                (Training::start(self.widths(&pairs), self.seed, device)?, Position::default())
            }
        };
        while at.epoch < u64::from(self.epochs) {
            self.epoch(&pairs, &mut training, &mut at, cx)?;
        }
        cx.put_file("model", PARAMETERS, training.best()?)?;
        cx.put_file("model", DESCRIPTION, self.describe(pairs, &at)?)
    }
}

impl Train {
    /// The rest of an epoch, its validation and its checkpoint.
    fn epoch(&self, pairs: &Pairs, training: &mut Training, at: &mut Position, cx: &mut Cx<'_>) -> Result<()> {
        let order = epoch_order(pairs.train.len(), self.seed, at.epoch);
        let batches = order.len().div_ceil(self.batch);
        let steps = batches as u64 * u64::from(self.epochs);
        let learning_rate = self.learning_rate_of(at.epoch);
        let mut history = History::default();
        cx.progress(at.step, Some(steps));
        for batch in order.chunks(self.batch).skip(at.batches) {
            cx.proceed()?;
            let batch: Vec<&Pair> = batch.iter().map(|&i| &pairs.train[i]).collect();
            let features: Vec<f32> = batch.iter().flat_map(|pair| pairs.feature(pair.image)).copied().collect();
            let words: Vec<&[i64]> = batch.iter().map(|pair| pair.words.as_slice()).collect();
            let done = training.step(&features, &words, &self.loss, self.clip, learning_rate)?;
            if !(done.loss.is_finite() && done.gradient_norm.is_finite()) {
                return Err(diverged(done, at, &batch));
            }
            history.push(at, batch.len(), done, learning_rate);
            at.step += 1;
            at.batches += 1;
            at.loss += done.loss;
            at.collapsed_loss += self.loss.collapsed(batch.len());
            cx.progress(at.step, Some(steps));
            if at.step.is_multiple_of(self.checkpoint_steps) && at.batches < batches {
                history.write(cx)?;
                save(training, at, cx)?;
            }
        }
        self.watch_collapse(at, cx);
        let recalls = if pairs.val.is_empty() { None } else { Some(validate(training.vse(), pairs, cx)?) };
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
        *at = Position {
            epoch: at.epoch + 1,
            step: at.step,
            collapsed_epochs: at.collapsed_epochs,
            best: at.best,
            ..Position::default()
        };
        save(training, at, cx)
    }

    /// `learning_rate` · `decay` ^ ⌊epoch / `decay_epochs`⌋.
    fn learning_rate_of(&self, epoch: u64) -> f64 {
        let times = i32::try_from(epoch / u64::from(self.decay_epochs.max(1))).unwrap_or(i32::MAX);
        self.learning_rate * self.decay.powi(times)
    }

    fn widths(&self, pairs: &Pairs) -> Widths {
        Widths { image: pairs.width, word: self.word, joint: self.embedding, words: pairs.vocabulary.words().len() }
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

    fn describe(&self, pairs: Pairs, at: &Position) -> Result<Vec<u8>> {
        let best = at.best.ok_or_else(|| Error::internal("a training ended without an epoch"))?;
        let description = Description {
            form: "vse++".to_owned(),
            image: pairs.width,
            word: self.word,
            embedding: self.embedding,
            epoch: best.epoch,
            step: best.step,
            rsum: best.rsum,
            tokenizer: self.tokenizer,
            settings: self.settings(),
            vocabulary: pairs.vocabulary.words().to_vec(),
        };
        serde_json::to_vec_pretty(&description)
            .map_err(|error| Error::internal(format!("cannot describe a model: {error}")))
    }
}

fn save(training: &Training, at: &Position, cx: &mut Cx<'_>) -> Result<()> {
    let text = serde_json::to_string(at).map_err(|error| Error::internal(format!("cannot save: {error}")))?;
    cx.save(training.to_bytes(text)?)
}

fn diverged(done: Stepped, at: &Position, batch: &[&Pair]) -> Error {
    let shown = batch.iter().take(20).map(|pair| pair.caption.to_string()).collect::<Vec<_>>().join(", ");
    let more = if batch.len() > 20 { format!(" and {} more", batch.len() - 20) } else { String::new() };
    Error::stage(format!(
        "step {} (epoch {}): the loss is {} and the gradient's norm {}, wanted finite numbers; caption_id of the batch: \
         {shown}{more}",
        at.step, at.epoch, done.loss, done.gradient_norm
    ))
    .hint("try a lower `learning_rate`")
}

impl History {
    fn push(&mut self, at: &Position, pairs: usize, done: Stepped, learning_rate: f64) {
        self.step.push(int(at.step));
        self.epoch.push(int(at.epoch));
        self.pairs.push(int(pairs as u64));
        self.loss.push(done.loss);
        self.gradient_norm.push(done.gradient_norm);
        self.learning_rate.push(learning_rate);
    }

    fn write(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let rows = std::mem::take(self);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(rows.step)),
            Arc::new(Int64Array::from(rows.epoch)),
            Arc::new(Int64Array::from(rows.pairs)),
            Arc::new(Float64Array::from(rows.loss)),
            Arc::new(Float64Array::from(rows.gradient_norm)),
            Arc::new(Float64Array::from(rows.learning_rate)),
        ];
        cx.write("history", tables::batch(&tables::history::table().schema(), columns)?)
    }
}

fn write_validation(
    at: &Position,
    batches: usize,
    [i2t, t2i]: &[Retrieval; 2],
    best: bool,
    cx: &mut Cx<'_>,
) -> Result<()> {
    #[expect(clippy::cast_precision_loss, reason = "an epoch has far fewer than 2^53 batches")]
    let loss = at.loss / batches as f64;
    let mut columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![int(at.epoch)])), Arc::new(Int64Array::from(vec![int(at.step)]))];
    for value in [loss, i2t.r1, i2t.r5, i2t.r10, t2i.r1, t2i.r5, t2i.r10, rsum(i2t, t2i)] {
        columns.push(Arc::new(Float64Array::from(vec![value])));
    }
    columns.push(Arc::new(BooleanArray::from(vec![best])));
    cx.write("validation", tables::batch(&tables::validation::table().schema(), columns)?)
}

fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
