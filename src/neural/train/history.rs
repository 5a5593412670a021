//! What a training says as it runs: rows of `history`, `auxiliary_losses`, `loss_scalars` and `validation`, and warnings of
//! collapse, a vanished gradient, and a falling validation score.

use arrow::array::{Float64Array, Int64Array, StringArray};
use az::SaturatingAs;

use super::position::TrainingPosition;
use super::validate::ValidationResult;
use pairloom_base::error::Result;
use pairloom_model::step::StepResult;
use pairloom_spec::stages::train::Train;
use pairloom_stage::StageContext;
use pairloom_tables::{Nullable, auxiliary_losses, history, loss_scalars, validation};

/// Buffer of rows of `history`, `auxiliary_losses` and `loss_scalars`. It is written only just before a checkpoint is saved, so a
/// resumed training neither misses a row nor writes one twice.
#[derive(Debug, Default)]
pub(super) struct HistoryBuffer {
    step: Vec<i64>,
    epoch: Vec<i64>,
    pairs: Vec<i64>,
    loss: Vec<f64>,
    collapsed_loss: Vec<Option<f64>>,
    gradient_norm: Vec<f64>,
    learning_rate: Vec<f64>,
    auxiliary: Vec<NamedValueRow>,
    scalars: Vec<NamedValueRow>,
}

/// Row of `auxiliary_losses` or `loss_scalars`.
#[derive(Debug)]
struct NamedValueRow {
    step: i64,
    epoch: i64,
    name: String,
    value: f64,
}

impl HistoryBuffer {
    /// Adds the rows of a step.
    pub fn push(
        &mut self,
        position: &TrainingPosition,
        pairs: usize,
        result: &StepResult,
        collapsed: Option<f64>,
        learning_rate: f64,
    ) {
        self.step.push(position.step.saturating_as::<i64>());
        self.epoch.push(position.epoch.saturating_as::<i64>());
        self.pairs.push(pairs.saturating_as::<i64>());
        self.loss.push(result.loss);
        self.collapsed_loss.push(collapsed);
        self.gradient_norm.push(result.gradient_norm);
        self.learning_rate.push(learning_rate);
        let (step, epoch) = (position.step.saturating_as::<i64>(), position.epoch.saturating_as::<i64>());
        let row = |name: &str, value: f64| NamedValueRow { step, epoch, name: name.to_owned(), value };
        self.auxiliary.extend(result.auxiliary.iter().map(|(name, value)| row(name, *value)));
        self.scalars.extend(result.scalars.iter().map(|(name, value)| row(name, *value)));
    }

    /// Writes the buffered rows and empties the buffer.
    pub fn write(&mut self, cx: &mut StageContext<'_>) -> Result<()> {
        let rows = std::mem::take(self);
        let columns = history::TableColumns {
            step: rows.step.into(),
            epoch: rows.epoch.into(),
            pairs: rows.pairs.into(),
            loss: rows.loss.into(),
            collapsed_loss: Nullable(rows.collapsed_loss.into()),
            gradient_norm: rows.gradient_norm.into(),
            learning_rate: rows.learning_rate.into(),
        };
        cx.write("history", columns.into_batch()?)?;
        if !rows.auxiliary.is_empty() {
            let (step, epoch, name, value) = columns_of(&rows.auxiliary);
            let columns = auxiliary_losses::TableColumns { step, epoch, name, value };
            cx.write("auxiliary_losses", columns.into_batch()?)?;
        }
        if !rows.scalars.is_empty() {
            let (step, epoch, name, value) = columns_of(&rows.scalars);
            cx.write("loss_scalars", loss_scalars::TableColumns { step, epoch, name, value }.into_batch()?)?;
        }
        Ok(())
    }
}

/// Columns of rows: step, epoch, name, value.
fn columns_of(rows: &[NamedValueRow]) -> (Int64Array, Int64Array, StringArray, Float64Array) {
    (
        Int64Array::from_iter_values(rows.iter().map(|row| row.step)),
        Int64Array::from_iter_values(rows.iter().map(|row| row.epoch)),
        StringArray::from_iter_values(rows.iter().map(|row| row.name.as_str())),
        Float64Array::from_iter_values(rows.iter().map(|row| row.value)),
    )
}

/// Writes the row of `validation` of an epoch with this mean loss.
pub(super) fn write_validation(
    position: &TrainingPosition,
    loss: f64,
    validated: &ValidationResult,
    best: bool,
    cx: &mut StageContext<'_>,
) -> Result<()> {
    let [i2t, t2i] = [&validated.summary.i2t.recalls, &validated.summary.t2i.recalls];
    let number = |value: f64| Float64Array::from(vec![value]);
    let row = validation::TableColumns {
        epoch: vec![position.epoch.saturating_as::<i64>()].into(),
        step: vec![position.step.saturating_as::<i64>()].into(),
        loss: number(loss),
        i2t_r1: number(i2t[0]),
        i2t_r5: number(i2t[1]),
        i2t_r10: number(i2t[2]),
        t2i_r1: number(t2i[0]),
        t2i_r5: number(t2i[1]),
        t2i_r10: number(t2i[2]),
        rsum: number(validated.summary.rsum),
        selection_score: number(validated.score),
        best: vec![best].into(),
    };
    cx.write("validation", row.into_batch()?)
}

/// Consecutive collapsed epochs (mean loss equal to that of equal scores) before a warning. With MAX, about six are
/// usual.
const COLLAPSED_EPOCHS: u32 = 10;

/// Gradient norm below which the gradient counts as vanished. Adam's steps do not shrink with the gradient, but below
/// this norm they are dominated by rounding and its ε = 1e-8.
const VANISHED_GRADIENT: f64 = 1e-7;

/// Consecutive epochs with a lower validation score than the epoch before, before a warning.
const FALLEN_EPOCHS: u32 = 3;

/// Warns if the mean loss of consecutive epochs is that of equal scores (collapse).
pub(super) fn warn_of_collapse(stage: &Train, position: &mut TrainingPosition, cx: &mut StageContext<'_>) {
    let collapsed = position.collapsed_loss > 0.0 && (position.loss / position.collapsed_loss - 1.0).abs() < 0.01;
    position.collapsed_epochs = if collapsed { position.collapsed_epochs + 1 } else { 0 };
    let last = position.epoch + 1 == u64::from(stage.epochs);
    if position.collapsed_epochs == COLLAPSED_EPOCHS
        || (collapsed && last && position.collapsed_epochs < COLLAPSED_EPOCHS)
    {
        let epochs = match position.collapsed_epochs {
            1 => "in the last epoch".to_owned(),
            epochs => format!("for {epochs} epochs"),
        };
        cx.warn(
            format!("epoch {}", position.epoch),
            format!(
                "the loss has been that of equal scores {epochs}; with the hardest negative (`max`) this is usual at first, \
                 and ends after some thousand steps or never; with other losses the model has hardly been trained: \
                 `warm_up = {{ epochs = 1 }}`, more epochs, a lower \
                 `learning_rate` or a smaller `batch_size` may help"
            ),
        );
    }
}

/// Warns if the gradient was almost zero in all steps of the epoch.
pub(super) fn warn_of_vanished_gradient(position: &TrainingPosition, cx: &mut StageContext<'_>) {
    if position.gradient < VANISHED_GRADIENT {
        let gradient = position.gradient;
        cx.warn(
            format!("epoch {}", position.epoch),
            format!(
                "the norm of the gradient was at most {gradient:.0e} in all steps: the model no longer changes. The official \
                 variant of `hal` has no gradient where all scores are below 0; `warm_up = {{ epochs = 1 }}` \
                 avoids this"
            ),
        );
    }
}

/// Warns if the validation score fell in consecutive epochs.
pub(super) fn warn_of_falling_score(score: f64, position: &mut TrainingPosition, cx: &mut StageContext<'_>) {
    position.fallen_epochs =
        if position.score.is_some_and(|before| score < before) { position.fallen_epochs + 1 } else { 0 };
    if position.fallen_epochs == 0 {
        position.risen_to = score;
    }
    position.score = Some(score);
    if position.fallen_epochs == FALLEN_EPOCHS {
        let best = position.best.and_then(|best| Some((best.epoch, best.score?)));
        let best =
            best.map_or(String::new(), |(epoch, score)| format!("; the best epoch so far is {epoch}, with {score:.1}"));
        let from = position.risen_to;
        let message = format!(
            "the score on the validation split has fallen for {FALLEN_EPOCHS} epochs, from {from:.1} to {score:.1}{best}"
        );
        cx.warn(format!("epoch {}", position.epoch), message);
    }
}
