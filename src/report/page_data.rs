//! Data of a page: results, training steps and validation epochs, their readers, and the formatting of numbers.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type};

use super::document::ColumnGroup;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::measure::hubs::DUPLICATED;
use pairloom_kernels::measure::recall::{RecallSummary, expected_by_chance, rsum};
use pairloom_retrieval::Direction;
use pairloom_stage::StageContext;
use pairloom_tables as tables;
use pairloom_tables::DEFAULT_CUTOFFS;

/// Results, with recalls at `cutoffs`, ascending.
#[derive(Debug, Default)]
pub(super) struct SummaryResults {
    pub(super) cutoffs: Vec<usize>,
    pub(super) rows: Vec<ResultRow>,
}

/// Row of the table of results.
#[derive(Debug, Clone)]
pub(super) struct ResultRow {
    pub(super) protocol: String,
    pub(super) method: String,
    pub(super) transductive: bool,
    pub(super) n_images: usize,
    pub(super) n_captions: usize,
    /// Image to text, text to image.
    pub(super) directions: [RecallSummary; 2],
    pub(super) rsum: f64,
    pub(super) hs_sum: f64,
    /// The same over rows, an image counted once for each of its captions, as papers do; where it was read.
    pub(super) hs_sum_of_rows: Option<f64>,
    /// Items that are the nearest neighbour of no caption, of one, and of at least m, in percent of the rows, by m; where they
    /// were read.
    pub(super) occurrence_rates: Vec<(i64, f64)>,
    /// 95 % confidence intervals of the recalls of each direction, where known.
    pub(super) intervals: [Vec<Option<(f64, f64)>>; 2],
    /// NCS, where it was read.
    pub(super) ncs: Option<NcsSummary>,
}

/// NCS of a graded relevance, in percent, as the published code computes it. NaN where there is none.
#[derive(Debug, Clone)]
pub(super) struct NcsSummary {
    /// NCS at each cut-off, image to text and text to image.
    pub(super) at: [Vec<f64>; 2],
    /// Sum of these.
    pub(super) sum: f64,
    /// The same sum without the query's own matches.
    pub(super) sum_non_gt: f64,
}

impl ResultRow {
    /// Expected results of a random order of the same pool, with captions spread evenly over images. Without a sum of
    /// skewness.
    pub(super) fn chance(&self, cutoffs: &[usize]) -> Option<Self> {
        if self.n_images == 0 {
            return None;
        }
        let captions_each = (self.n_captions + self.n_images / 2) / self.n_images;
        let directions = [
            expected_by_chance(self.n_captions, captions_each, cutoffs)?,
            expected_by_chance(self.n_images, 1, cutoffs)?,
        ];
        Some(Self {
            protocol: "chance".to_owned(),
            method: String::new(),
            transductive: false,
            rsum: rsum(&directions[0], &directions[1]),
            directions,
            hs_sum: f64::NAN,
            hs_sum_of_rows: None,
            occurrence_rates: Vec::new(),
            intervals: Default::default(),
            ncs: None,
            ..*self
        })
    }
}

/// Training step.
#[derive(Debug, Clone)]
pub(super) struct TrainingStep {
    pub(super) number: f64,
    /// Number of pairs in the batch.
    pub(super) pairs: usize,
    pub(super) loss: f64,
    pub(super) gradient_norm: f64,
    pub(super) learning_rate: f64,
    /// Loss of equal scores, where known.
    pub(super) collapsed_loss: Option<f64>,
}

/// Validation after an epoch.
#[derive(Debug, Clone)]
pub(super) struct ValidationEpoch {
    pub(super) number: i64,
    pub(super) loss: f64,
    pub(super) rsum: f64,
    /// Recalls at 1, 5, 10: image to text, text to image.
    pub(super) recalls: [[f64; 3]; 2],
    pub(super) best: bool,
}

/// Returns the epoch whose model was kept: the last one that was the best so far.
pub(super) fn best_epoch(epochs: &[ValidationEpoch]) -> Option<&ValidationEpoch> {
    epochs.iter().rev().find(|epoch| epoch.best)
}

/// Column groups of the two directions.
pub(super) const DIRECTIONS: [ColumnGroup; 2] =
    [ColumnGroup { name: "image → text", short: "i→t" }, ColumnGroup { name: "text → image", short: "t→i" }];

/// Formats a recall or rank with one decimal, as papers do; NaN as a dash.
pub(super) fn one_decimal(value: f64) -> String {
    if value.is_nan() { "–".to_owned() } else { format!("{value:.1}") }
}

/// Reads the table `input`, a `summary`, without confidence intervals.
pub(super) fn read_results(cx: &mut StageContext<'_>, input: &str) -> Result<SummaryResults> {
    let SummaryResults { mut rows, mut cutoffs } = SummaryResults::default();
    while let Some(batch) = cx.read_next(input)? {
        cutoffs = tables::summary::cutoffs(&batch.schema());
        if cutoffs.is_empty() {
            return Err(Error::data(format!("`{input}` has no recalls, expected a column such as `i2t_r1`")));
        }
        for row in 0..batch.num_rows() {
            let direction = |name: &str| -> Result<RecallSummary> {
                let recall = |k: &usize| number(&batch, &format!("{name}_r{k}"), row);
                // A matching has no ranks.
                let rank = |measure: &str| -> Result<f64> {
                    Ok(optional(&batch, &format!("{name}_{measure}"), row)?.unwrap_or(f64::NAN))
                };
                Ok(RecallSummary {
                    recalls: cutoffs.iter().map(recall).collect::<Result<_>>()?,
                    medr: rank("medr")?,
                    meanr: rank("meanr")?,
                })
            };
            rows.push(ResultRow {
                protocol: tables::text_column(&batch, "protocol")?.value(row).to_owned(),
                method: method_of_row(&batch, row)?,
                transductive: flag(&batch, "transductive", row)?,
                n_images: count(&batch, "n_images", row)?,
                n_captions: count(&batch, "n_captions", row)?,
                directions: [direction("i2t")?, direction("t2i")?],
                rsum: number(&batch, "rsum", row)?,
                hs_sum: number(&batch, "hs_sum", row)?,
                hs_sum_of_rows: None,
                occurrence_rates: Vec::new(),
                intervals: [0, 1].map(|_| vec![None; cutoffs.len()]),
                ncs: None,
            });
        }
    }
    Ok(SummaryResults { cutoffs, rows })
}

/// Adds the confidence intervals in `metrics` to the results.
pub(super) fn add_intervals(
    cx: &mut StageContext<'_>,
    SummaryResults { cutoffs, rows }: &mut SummaryResults,
) -> Result<()> {
    let mut index: HashMap<(String, String), usize> = HashMap::new();
    for (row, result) in rows.iter().enumerate() {
        index.entry((result.protocol.clone(), result.method.clone())).or_insert(row);
    }
    while let Some(batch) = cx.read_next("metrics")? {
        let text = |name: &str| tables::text_column(&batch, name);
        let protocol = text("protocol")?;
        let relevance = text("relevance")?;
        let (direction, measure, k) = (text("direction")?, text("measure")?, tables::int_column(&batch, "k")?);
        for row in 0..batch.num_rows() {
            let direction = ["i2t", "t2i"].iter().position(|name| *name == direction.value(row));
            let cutoff =
                cutoffs.iter().position(|&cutoff| k.is_valid(row) && usize::try_from(k.value(row)) == Ok(cutoff));
            let owner = index.get(&(protocol.value(row).to_owned(), method_of_row(&batch, row)?));
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

/// Adds NCS, and hs-sum and k-occurrences over rows, of the table `input`, a `metrics`, to the results. Returns the relevances
/// that it has NCS of; only NCS of `relevance`, or of the first of them, is added.
pub(super) fn add_metrics(
    cx: &mut StageContext<'_>,
    input: &str,
    relevance: Option<&str>,
    SummaryResults { cutoffs, rows }: &mut SummaryResults,
) -> Result<Vec<String>> {
    let mut relevances: Vec<String> = Vec::new();
    while let Some(batch) = cx.read_next(input)? {
        let text = |name: &str| tables::text_column(&batch, name);
        let (protocol, direction, measure) = (text("protocol")?, text("direction")?, text("measure")?);
        let (relevance_names, variant, k) = (text("relevance")?, text("variant")?, tables::int_column(&batch, "k")?);
        for row in 0..batch.num_rows() {
            if variant.is_valid(row) && variant.value(row) == DUPLICATED {
                let method = method_of_row(&batch, row)?;
                let is_owner =
                    |result: &&mut ResultRow| result.protocol == protocol.value(row) && result.method == method;
                let Some(owner) = rows.iter_mut().find(is_owner) else { continue };
                let value = number(&batch, "value", row)?;
                match measure.value(row) {
                    "hs_sum" => owner.hs_sum_of_rows = Some(value),
                    "k_occurrence_rate" if direction.value(row) == Direction::TextToImage.name() => {
                        owner.occurrence_rates.push((tables::int_column(&batch, "m")?.value(row), value));
                    }
                    _ => {}
                }
                continue;
            }
            // Sums over other cut-offs are called `official at 1, 3, 20`.
            let is_official = variant.is_valid(row)
                && (variant.value(row) == "official" || variant.value(row).starts_with("official at "));
            if !["ncs", "nsum"].contains(&measure.value(row)) || relevance_names.is_null(row) || !is_official {
                continue;
            }
            if !relevances.iter().any(|known| known == relevance_names.value(row)) {
                relevances.push(relevance_names.value(row).to_owned());
            }
            if relevance_names.value(row) != relevance.unwrap_or(&relevances[0]) {
                continue;
            }
            let method = method_of_row(&batch, row)?;
            let is_owner = |result: &&mut ResultRow| result.protocol == protocol.value(row) && result.method == method;
            let Some(owner) = rows.iter_mut().find(is_owner) else { continue };
            let none = || NcsSummary {
                at: [0, 1].map(|_| vec![f64::NAN; cutoffs.len()]),
                sum: f64::NAN,
                sum_non_gt: f64::NAN,
            };
            let ncs = owner.ncs.get_or_insert_with(none);
            let (value, is_with_own) = (number(&batch, "value", row)?, flag(&batch, "ground_truth", row)?);
            let direction = Direction::BOTH.iter().position(|known| known.name() == direction.value(row));
            let cutoff =
                cutoffs.iter().position(|&known| k.is_valid(row) && usize::try_from(k.value(row)) == Ok(known));
            match (measure.value(row), is_with_own, direction, cutoff) {
                ("nsum", true, ..) => ncs.sum = value,
                ("nsum", false, ..) => ncs.sum_non_gt = value,
                ("ncs", true, Some(direction), Some(cutoff)) => ncs.at[direction][cutoff] = value,
                _ => {}
            }
        }
    }
    Ok(relevances)
}

/// Recalls of `relaxed_greedy` on uncorrected scores in the first protocol, by λ: (λ, recalls of both directions).
pub(super) fn relaxations(results: &[ResultRow]) -> Vec<(f64, [Vec<f64>; 2])> {
    let Some(first) = results.first() else { return Vec::new() };
    let lambda =
        |row: &ResultRow| -> Option<f64> { row.method.strip_prefix("relaxed_greedy, lambda = ")?.parse().ok() };
    let first_protocol = results.iter().filter(|row| row.protocol == first.protocol);
    let recalls = |row: &ResultRow| row.directions.each_ref().map(|direction| direction.recalls.clone());
    let mut all: Vec<_> = first_protocol.filter_map(|row| Some((lambda(row)?, recalls(row)))).collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

/// Name of a method with its parameters.
pub(super) fn method_of_row(batch: &RecordBatch, row: usize) -> Result<String> {
    let (method, parameters) = (tables::text_column(batch, "method")?, tables::text_column(batch, "parameters")?);
    let name = method.value(row).to_owned();
    Ok(if parameters.is_null(row) { name } else { format!("{name}, {}", parameters.value(row)) })
}

/// Reads the rows of `history` with a finite loss.
pub(super) fn read_history(cx: &mut StageContext<'_>) -> Result<Vec<TrainingStep>> {
    let mut steps = Vec::new();
    while let Some(batch) = cx.read_next("history")? {
        let numbers = tables::int_column(&batch, "step")?;
        for row in 0..batch.num_rows() {
            let loss = number(&batch, "loss", row)?;
            if loss.is_finite() {
                #[expect(clippy::cast_precision_loss, reason = "steps are far below 2⁵³")]
                steps.push(TrainingStep {
                    number: numbers.value(row) as f64,
                    pairs: count(&batch, "pairs", row)?,
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

/// Reads the table `input`, a `validation`.
pub(super) fn read_validation(cx: &mut StageContext<'_>, input: &str) -> Result<Vec<ValidationEpoch>> {
    let mut epochs = Vec::new();
    while let Some(batch) = cx.read_next(input)? {
        for row in 0..batch.num_rows() {
            let recalls = |direction: &str| -> Result<[f64; 3]> {
                let [one, five, ten] = DEFAULT_CUTOFFS.map(|k| number(&batch, &format!("{direction}_r{k}"), row));
                Ok([one?, five?, ten?])
            };
            epochs.push(ValidationEpoch {
                number: tables::int_column(&batch, "epoch")?.value(row),
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
    let values = column.as_primitive_opt::<Float64Type>().ok_or_else(|| wrong_type(name, "Float64", column))?;
    Ok(values.is_valid(row).then(|| values.value(row)))
}

fn number(batch: &RecordBatch, name: &str, row: usize) -> Result<f64> {
    optional(batch, name, row)?.ok_or_else(|| Error::data(format!("column `{name}` has no value in row {row}")))
}

fn flag(batch: &RecordBatch, name: &str, row: usize) -> Result<bool> {
    let column = column(batch, name)?;
    Ok(column.as_boolean_opt().ok_or_else(|| wrong_type(name, "Boolean", column))?.value(row))
}

pub(super) fn count(batch: &RecordBatch, name: &str, row: usize) -> Result<usize> {
    let column = column(batch, name)?;
    let value = column.as_primitive_opt::<Int64Type>().ok_or_else(|| wrong_type(name, "Int64", column))?.value(row);
    usize::try_from(value)
        .map_err(|_| Error::data(format!("column `{name}` has {value} in row {row}, expected a count")))
}

fn wrong_type(name: &str, expected: &str, got: &ArrayRef) -> Error {
    Error::data(format!("column `{name}` is {}, expected {expected}", got.data_type()))
}
