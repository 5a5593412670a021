//! Rows of `history` and `validation`, on their way into the tables.

use arrow::array::{Float64Array, Int64Array, StringArray};
use az::SaturatingAs;

use super::position::Position;
use super::validate::Validated;
use crate::error::Result;
use crate::model::step::Stepped;
use crate::stage::Cx;
use crate::tables::{Optional, auxiliary_losses, history, validation};

/// Rows of `history` that are not written yet. They are written where the training is saved and nowhere else, so that a
/// resumed training writes what is missing and nothing twice.
#[derive(Debug, Default)]
pub(super) struct History {
    step: Vec<i64>,
    epoch: Vec<i64>,
    pairs: Vec<i64>,
    loss: Vec<f64>,
    collapsed_loss: Vec<Option<f64>>,
    gradient_norm: Vec<f64>,
    learning_rate: Vec<f64>,
    auxiliary: Vec<AuxiliaryLoss>,
}

/// A row of `auxiliary_losses`.
#[derive(Debug)]
struct AuxiliaryLoss {
    step: i64,
    epoch: i64,
    name: &'static str,
    value: f64,
}

impl History {
    /// Takes a step in.
    pub fn push(&mut self, at: &Position, pairs: usize, done: &Stepped, collapsed: Option<f64>, learning_rate: f64) {
        self.step.push(at.step.saturating_as::<i64>());
        self.epoch.push(at.epoch.saturating_as::<i64>());
        self.pairs.push(pairs.saturating_as::<i64>());
        self.loss.push(done.loss);
        self.collapsed_loss.push(collapsed);
        self.gradient_norm.push(done.gradient_norm);
        self.learning_rate.push(learning_rate);
        let (step, epoch) = (at.step.saturating_as::<i64>(), at.epoch.saturating_as::<i64>());
        let row = |&(name, value): &(&'static str, f64)| AuxiliaryLoss { step, epoch, name, value };
        self.auxiliary.extend(done.auxiliary.iter().map(row));
    }

    /// Writes what is not written.
    pub fn write(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let rows = std::mem::take(self);
        let columns = history::Columns {
            step: rows.step.into(),
            epoch: rows.epoch.into(),
            pairs: rows.pairs.into(),
            loss: rows.loss.into(),
            collapsed_loss: Optional(rows.collapsed_loss.into()),
            gradient_norm: rows.gradient_norm.into(),
            learning_rate: rows.learning_rate.into(),
        };
        cx.write("history", columns.into_batch()?)?;
        if rows.auxiliary.is_empty() {
            return Ok(());
        }
        let auxiliary = || rows.auxiliary.iter();
        let columns = auxiliary_losses::Columns {
            step: Int64Array::from_iter_values(auxiliary().map(|row| row.step)),
            epoch: Int64Array::from_iter_values(auxiliary().map(|row| row.epoch)),
            name: StringArray::from_iter_values(auxiliary().map(|row| row.name)),
            value: Float64Array::from_iter_values(auxiliary().map(|row| row.value)),
        };
        cx.write("auxiliary_losses", columns.into_batch()?)
    }
}

/// Writes how an epoch of `batches` did.
pub(super) fn write_validation(
    at: &Position,
    batches: usize,
    found: &Validated,
    best: bool,
    cx: &mut Cx<'_>,
) -> Result<()> {
    #[expect(clippy::cast_precision_loss, reason = "an epoch has far fewer than 2^53 batches")]
    let loss = at.loss / batches as f64;
    let [i2t, t2i] = [&found.found.i2t.recalls, &found.found.t2i.recalls];
    let number = |value: f64| Float64Array::from(vec![value]);
    let row = validation::Columns {
        epoch: vec![at.epoch.saturating_as::<i64>()].into(),
        step: vec![at.step.saturating_as::<i64>()].into(),
        loss: number(loss),
        i2t_r1: number(i2t[0]),
        i2t_r5: number(i2t[1]),
        i2t_r10: number(i2t[2]),
        t2i_r1: number(t2i[0]),
        t2i_r5: number(t2i[1]),
        t2i_r10: number(t2i[2]),
        rsum: number(found.found.rsum),
        score: number(found.score),
        best: vec![best].into(),
    };
    cx.write("validation", row.into_batch()?)
}
