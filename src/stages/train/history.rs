//! Rows of `history` and `validation`, on their way into the tables.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array};

use super::position::Position;
use super::validate::Validated;
use crate::error::Result;
use crate::model::step::Stepped;
use crate::stage::Cx;
use crate::tables;

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
}

impl History {
    /// Takes a step in.
    pub fn push(&mut self, at: &Position, pairs: usize, done: Stepped, collapsed: Option<f64>, learning_rate: f64) {
        self.step.push(int(at.step));
        self.epoch.push(int(at.epoch));
        self.pairs.push(int(pairs as u64));
        self.loss.push(done.loss);
        self.collapsed_loss.push(collapsed);
        self.gradient_norm.push(done.gradient_norm);
        self.learning_rate.push(learning_rate);
    }

    /// Writes what is not written.
    pub fn write(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let rows = std::mem::take(self);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(rows.step)),
            Arc::new(Int64Array::from(rows.epoch)),
            Arc::new(Int64Array::from(rows.pairs)),
            Arc::new(Float64Array::from(rows.loss)),
            Arc::new(Float64Array::from(rows.collapsed_loss)),
            Arc::new(Float64Array::from(rows.gradient_norm)),
            Arc::new(Float64Array::from(rows.learning_rate)),
        ];
        cx.write("history", tables::batch(&tables::history::table().schema(), columns)?)
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
    let mut columns: Vec<ArrayRef> =
        vec![Arc::new(Int64Array::from(vec![int(at.epoch)])), Arc::new(Int64Array::from(vec![int(at.step)]))];
    let [i2t, t2i] = &found.recalls;
    for value in [loss, i2t.r1, i2t.r5, i2t.r10, t2i.r1, t2i.r5, t2i.r10, found.rsum(), found.score] {
        columns.push(Arc::new(Float64Array::from(vec![value])));
    }
    columns.push(Arc::new(BooleanArray::from(vec![best])));
    cx.write("validation", tables::batch(&tables::validation::table().schema(), columns)?)
}

pub(super) fn int(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
