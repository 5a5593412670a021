//! Reads the tables of results and of a training.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};

use super::elements::{Epoch, ResultRow, Results, Step};
use crate::error::{Error, Result};
use crate::kernels::measure::recall::Retrieval;
use crate::stage::Cx;
use crate::tables;
use crate::tables::CUTOFFS;

/// The rows of `summary`, without intervals.
pub(super) fn results(cx: &mut Cx<'_>) -> Result<Results> {
    let Results { mut rows, mut cutoffs } = Results::default();
    while let Some(batch) = cx.next("summary")? {
        cutoffs = tables::summary::cutoffs(&batch.schema());
        if cutoffs.is_empty() {
            return Err(Error::data("`summary` has no recalls, wanted a column such as `i2t_r1`"));
        }
        for row in 0..batch.num_rows() {
            let direction = |name: &str| -> Result<Retrieval> {
                let recall = |k: &usize| number(&batch, &format!("{name}_r{k}"), row);
                // A matching gives sets, in which nothing has a rank.
                let rank = |measure: &str| -> Result<f64> {
                    Ok(optional(&batch, &format!("{name}_{measure}"), row)?.unwrap_or(f64::NAN))
                };
                Ok(Retrieval {
                    recalls: cutoffs.iter().map(recall).collect::<Result<_>>()?,
                    medr: rank("medr")?,
                    meanr: rank("meanr")?,
                })
            };
            rows.push(ResultRow {
                protocol: tables::texts(&batch, "protocol")?.value(row).to_owned(),
                method: method(&batch, row)?,
                transductive: flag(&batch, "transductive", row)?,
                n_images: count(&batch, "n_images", row)?,
                n_captions: count(&batch, "n_captions", row)?,
                directions: [direction("i2t")?, direction("t2i")?],
                rsum: number(&batch, "rsum", row)?,
                hs_sum: number(&batch, "hs_sum", row)?,
                intervals: [0, 1].map(|_| vec![None; cutoffs.len()]),
            });
        }
    }
    Ok(Results { cutoffs, rows })
}

/// Adds the intervals of `metrics` to the rows that they belong to.
pub(super) fn add_intervals(cx: &mut Cx<'_>, Results { cutoffs, rows }: &mut Results) -> Result<()> {
    let mut index: HashMap<(String, String), usize> = HashMap::new();
    for (row, result) in rows.iter().enumerate() {
        index.entry((result.protocol.clone(), result.method.clone())).or_insert(row);
    }
    while let Some(batch) = cx.next("metrics")? {
        let text = |name: &str| tables::texts(&batch, name);
        let protocol = text("protocol")?;
        let relevance = text("relevance")?;
        let (direction, measure, k) = (text("direction")?, text("measure")?, tables::ids(&batch, "k")?);
        for row in 0..batch.num_rows() {
            let direction = ["i2t", "t2i"].iter().position(|name| *name == direction.value(row));
            let cutoff =
                cutoffs.iter().position(|&cutoff| k.is_valid(row) && usize::try_from(k.value(row)) == Ok(cutoff));
            let owner = index.get(&(protocol.value(row).to_owned(), method(&batch, row)?));
            let (Some(direction), Some(cutoff), Some(&owner)) = (direction, cutoff, owner) else { continue };
            if measure.value(row) == "recall" && relevance.is_null(row) {
                let ends = (optional(&batch, "ci95_low", row)?, optional(&batch, "ci95_high", row)?);
                if let (Some(low), Some(high)) = ends {
                    rows[owner].intervals[direction][cutoff] = Some((low, high));
                }
            }
        }
    }
    Ok(())
}

/// Recalls of `relaxed_greedy` over its λ, on the scores themselves, of the first protocol.
pub(super) fn relaxations(results: &[ResultRow]) -> Vec<(f64, [Vec<f64>; 2])> {
    let Some(first) = results.first() else { return Vec::new() };
    let lambda =
        |row: &ResultRow| -> Option<f64> { row.method.strip_prefix("relaxed_greedy, lambda = ")?.parse().ok() };
    let of_first = results.iter().filter(|row| row.protocol == first.protocol);
    let recalls = |row: &ResultRow| row.directions.each_ref().map(|direction| direction.recalls.clone());
    let mut all: Vec<_> = of_first.filter_map(|row| Some((lambda(row)?, recalls(row)))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// A method with its free numbers, as pages call it.
pub(super) fn method(batch: &RecordBatch, row: usize) -> Result<String> {
    let (method, parameters) = (tables::texts(batch, "method")?, tables::texts(batch, "parameters")?);
    let name = method.value(row).to_owned();
    Ok(if parameters.is_null(row) { name } else { format!("{name}, {}", parameters.value(row)) })
}

/// The rows of `history`; without those whose loss is no number.
pub(super) fn history(cx: &mut Cx<'_>) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    while let Some(batch) = cx.next("history")? {
        let numbers = tables::ids(&batch, "step")?;
        for row in 0..batch.num_rows() {
            let loss = number(&batch, "loss", row)?;
            if loss.is_finite() {
                #[expect(clippy::cast_precision_loss, reason = "steps are far below 2⁵³")]
                steps.push(Step {
                    number: numbers.value(row) as f64,
                    loss,
                    gradient_norm: number(&batch, "gradient_norm", row)?,
                    learning_rate: number(&batch, "learning_rate", row)?,
                    collapsed_loss: optional(&batch, "collapsed_loss", row)?,
                });
            }
        }
    }
    Ok(steps)
}

/// The rows of `validation`.
pub(super) fn validation(cx: &mut Cx<'_>) -> Result<Vec<Epoch>> {
    let mut epochs = Vec::new();
    while let Some(batch) = cx.next("validation")? {
        for row in 0..batch.num_rows() {
            let recalls = |direction: &str| -> Result<[f64; 3]> {
                let [one, five, ten] = CUTOFFS.map(|k| number(&batch, &format!("{direction}_r{k}"), row));
                Ok([one?, five?, ten?])
            };
            epochs.push(Epoch {
                number: tables::ids(&batch, "epoch")?.value(row),
                loss: number(&batch, "loss", row)?,
                rsum: number(&batch, "rsum", row)?,
                recalls: [recalls("i2t")?, recalls("t2i")?],
                best: flag(&batch, "best", row)?,
            });
        }
    }
    Ok(epochs)
}

fn column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| Error::data(format!("no column `{name}`")))
}

pub(super) fn optional(batch: &RecordBatch, name: &str, row: usize) -> Result<Option<f64>> {
    let column = column(batch, name)?;
    let values = column.as_primitive_opt::<Float64Type>().ok_or_else(|| wrong(name, "Float64", column))?;
    Ok(values.is_valid(row).then(|| values.value(row)))
}

fn number(batch: &RecordBatch, name: &str, row: usize) -> Result<f64> {
    optional(batch, name, row)?.ok_or_else(|| Error::data(format!("column `{name}` has no value in row {row}")))
}

fn flag(batch: &RecordBatch, name: &str, row: usize) -> Result<bool> {
    let column = column(batch, name)?;
    Ok(column.as_boolean_opt().ok_or_else(|| wrong(name, "Boolean", column))?.value(row))
}

pub(super) fn count(batch: &RecordBatch, name: &str, row: usize) -> Result<usize> {
    let column = column(batch, name)?;
    let value = column.as_primitive_opt::<Int64Type>().ok_or_else(|| wrong(name, "Int64", column))?.value(row);
    usize::try_from(value).map_err(|_| Error::data(format!("column `{name}` has {value} in row {row}, wanted a count")))
}

fn wrong(name: &str, wanted: &str, got: &ArrayRef) -> Error {
    Error::data(format!("column `{name}` is {}, wanted {wanted}", got.data_type()))
}
