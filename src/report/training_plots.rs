//! Plots of a training: loss, gradient norm, learning rate, validation.

use super::figure::Series::{A, B, Muted};
use super::figure::{Figure, LegendEntry, legend_entry};
use super::page_data::{DIRECTIONS, TrainingStep, ValidationEpoch, best_epoch, one_decimal};
use super::plots::{Curve, axis_range, draw, draw_steps, padded_range, value_range};
use super::smoothing::{downsampled, smoothed};
use pairloom_base::error::Result;

/// Plots the loss by step, raw and smoothed, and the loss of equal scores where known.
pub(super) fn losses(history: &[TrainingStep]) -> Result<Option<Figure>> {
    let whole = whole_batches(history);
    let collapsed: Vec<_> = whole.iter().filter_map(|step| Some((step.number, step.collapsed_loss?))).collect();
    let line = || (Curve::new(downsampled(&collapsed), B, 1), legend_entry(B, "if all scores were equal"));
    let beside = (!collapsed.is_empty()).then(line);
    plot_by_step(history, "Training loss", |step| step.loss, beside, None)
}

/// Plots the gradient norm by step, raw and smoothed.
pub(super) fn gradient_norms(history: &[TrainingStep]) -> Result<Option<Figure>> {
    plot_by_step(history, "Norm of the gradient, before clipping", |step| step.gradient_norm, None, Some(0.0))
}

fn plot_by_step(
    history: &[TrainingStep],
    title: &str,
    value: fn(&TrainingStep) -> f64,
    beside: Option<(Curve, LegendEntry)>,
    least: Option<f64>,
) -> Result<Option<Figure>> {
    let Some(x) = step_range(history) else { return Ok(None) };
    let whole = whole_batches(history);
    let points = whole.iter().map(|step| (step.number, value(step))).filter(|point| point.1.is_finite());
    let points: Vec<(f64, f64)> = points.collect();
    let mut lines = vec![Curve::new(downsampled(&points), Muted, 1), Curve::new(downsampled(&smoothed(&points)), A, 2)];
    let mut legend = vec![legend_entry(Muted, "each step (means of neighbours)"), legend_entry(A, "smoothed")];
    if let Some((line, key)) = beside {
        lines.push(line);
        legend.push(key);
    }
    if whole.len() < history.len() {
        legend.push(LegendEntry { series: None, text: "without the smaller last batches of epochs".to_owned() });
    }
    Ok(Some(Figure { title: title.to_owned(), legend, svg: draw_steps(x, &lines, least)? }))
}

/// Steps on whole batches, those of the most pairs. A loss that is summed over the batch shrinks with it, and so does
/// its gradient, so the smaller last batch of each epoch would be a spike. All steps, if fewer than two are whole.
fn whole_batches(history: &[TrainingStep]) -> Vec<&TrainingStep> {
    let most = history.iter().map(|step| step.pairs).max().unwrap_or(0);
    let whole: Vec<&TrainingStep> = history.iter().filter(|step| step.pairs == most).collect();
    if whole.len() < 2 { history.iter().collect() } else { whole }
}

/// Plots the learning rate by step, as a step function.
pub(super) fn learning_rates(history: &[TrainingStep]) -> Result<Option<Figure>> {
    let ([first, .., last], Some(x)) = (history, step_range(history)) else { return Ok(None) };
    let mut stairs = vec![(first.number, first.learning_rate)];
    for pair in history.windows(2).filter(|pair| pair[0].learning_rate != pair[1].learning_rate) {
        stairs.extend(pair.iter().map(|step| (pair[1].number, step.learning_rate)));
    }
    stairs.push((last.number, last.learning_rate));
    let svg = draw_steps(x, &[Curve::new(stairs, A, 2)], Some(0.0))?;
    Ok(Some(Figure { title: "Learning rate".to_owned(), legend: Vec::new(), svg }))
}

/// Range of the step numbers.
fn step_range(history: &[TrainingStep]) -> Option<(f64, f64)> {
    let [first, .., last] = history else { return None };
    Some(value_range([first.number, last.number].into_iter()))
}

/// Plots rsum by epoch, with a mark at the kept epoch.
pub(super) fn validation(epochs: &[ValidationEpoch]) -> Result<Option<Figure>> {
    if epochs.len() < 2 {
        return Ok(None);
    }
    let points = by_epoch(epochs, |epoch| epoch.rsum);
    let best = best_epoch(epochs);
    let text = |best: &ValidationEpoch| {
        format!("best: {} after epoch {} (mean loss {:.3})", one_decimal(best.rsum), best.number, best.loss)
    };
    let legend = best.map(|best| legend_entry(B, text(best))).into_iter().collect();
    let marks: Vec<(f64, f64)> = best.map(|epoch| (number(epoch), epoch.rsum)).into_iter().collect();
    let (x, y) = (value_range(points.iter().map(|p| p.0)), axis_range(points.iter().map(|p| p.1)));
    let svg = draw(x.0..x.1, padded_range(y.0, y.1), "epoch", &[Curve::new(points, A, 2)], &marks)?;
    Ok(Some(Figure { title: "Validation rsum".to_owned(), legend, svg }))
}

/// Plots the six recalls by epoch, with thicker lines for lower K and a vertical line at the kept epoch.
pub(super) fn recalls(epochs: &[ValidationEpoch]) -> Result<Option<Figure>> {
    if epochs.len() < 2 {
        return Ok(None);
    }
    let mut lines = Vec::new();
    for (direction, series) in [A, B].into_iter().enumerate() {
        for (cutoff, width) in [4, 2, 1].into_iter().enumerate() {
            lines.push(Curve::new(by_epoch(epochs, |epoch| epoch.recalls[direction][cutoff]), series, width));
        }
    }
    let x = value_range(epochs.iter().map(number));
    let y = padded_range(0.0, axis_range(lines.iter().flat_map(|line| line.points.iter().map(|p| p.1))).1);
    let mut legend = vec![legend_entry(A, DIRECTIONS[0].name), legend_entry(B, DIRECTIONS[1].name)];
    legend.push(LegendEntry { series: None, text: "from thick to thin: R@1, R@5, R@10".to_owned() });
    if let Some(best) = best_epoch(epochs) {
        lines.insert(0, Curve::new(vec![(number(best), y.start), (number(best), y.end)], Muted, 1));
        legend.push(legend_entry(Muted, "the epoch that was kept"));
    }
    let svg = draw(x.0..x.1, y, "epoch", &lines, &[])?;
    Ok(Some(Figure { title: "Validation recall, percent".to_owned(), legend, svg }))
}

fn by_epoch(epochs: &[ValidationEpoch], value: impl Fn(&ValidationEpoch) -> f64) -> Vec<(f64, f64)> {
    epochs.iter().map(|epoch| (number(epoch), value(epoch))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "epochs are far below 2⁵³")]
fn number(epoch: &ValidationEpoch) -> f64 {
    epoch.number as f64
}
