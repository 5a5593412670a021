//! Plots of the course of a training.

use super::elements::{DIRECTIONS, Epoch, Step, kept, tenth};
use super::figure::Series::{A, B, Muted};
use super::figure::{Figure, Key, key};
use super::plots::{Line, draw, draw_steps, padded, span};
use super::smoothing::{smoothed, thinned};
use crate::error::Result;

/// The loss of every step, and smoothed; that of equal scores, where it is known.
pub(super) fn losses(history: &[Step]) -> Result<Option<Figure>> {
    let collapsed: Vec<_> = history.iter().filter_map(|step| Some((step.number, step.collapsed_loss?))).collect();
    let line = || (Line::new(thinned(&collapsed), B, 1), key(B, "if all scores were equal"));
    let beside = (!collapsed.is_empty()).then(line);
    steps(history, "Training loss", |step| step.loss, beside, None)
}

/// The norm of the gradient at every step, and smoothed.
pub(super) fn gradient_norms(history: &[Step]) -> Result<Option<Figure>> {
    steps(history, "Norm of the gradient, before clipping", |step| step.gradient_norm, None, Some(0.0))
}

fn steps(
    history: &[Step],
    title: &str,
    value: fn(&Step) -> f64,
    beside: Option<(Line, Key)>,
    least: Option<f64>,
) -> Result<Option<Figure>> {
    let Some(x) = range(history) else { return Ok(None) };
    let points: Vec<(f64, f64)> = history.iter().map(|step| (step.number, value(step))).collect();
    let mut lines = vec![Line::new(thinned(&points), Muted, 1), Line::new(thinned(&smoothed(&points)), A, 2)];
    let mut legend = vec![key(Muted, "each step (means of neighbours)"), key(A, "smoothed")];
    if let Some((line, key)) = beside {
        lines.push(line);
        legend.push(key);
    }
    Ok(Some(Figure { title: title.to_owned(), legend, svg: draw_steps(x, &lines, least)? }))
}

/// The learning rate of every step, as stairs.
pub(super) fn learning_rates(history: &[Step]) -> Result<Option<Figure>> {
    let ([first, .., last], Some(x)) = (history, range(history)) else { return Ok(None) };
    let mut stairs = vec![(first.number, first.learning_rate)];
    for pair in history.windows(2).filter(|pair| pair[0].learning_rate != pair[1].learning_rate) {
        stairs.extend(pair.iter().map(|step| (pair[1].number, step.learning_rate)));
    }
    stairs.push((last.number, last.learning_rate));
    let svg = draw_steps(x, &[Line::new(stairs, A, 2)], Some(0.0))?;
    Ok(Some(Figure { title: "Learning rate".to_owned(), legend: Vec::new(), svg }))
}

/// The first and the last step.
fn range(history: &[Step]) -> Option<(f64, f64)> {
    let [first, .., last] = history else { return None };
    Some(span([first.number, last.number].into_iter()))
}

/// rsum by epoch, the epoch that was kept marked.
pub(super) fn validation(epochs: &[Epoch]) -> Result<Option<Figure>> {
    if epochs.len() < 2 {
        return Ok(None);
    }
    let points = by_epoch(epochs, |epoch| epoch.rsum);
    let best = kept(epochs);
    let text =
        |best: &Epoch| format!("best: {} after epoch {} (mean loss {:.3})", tenth(best.rsum), best.number, best.loss);
    let legend = best.map(|best| key(B, text(best))).into_iter().collect();
    let marks: Vec<(f64, f64)> = best.map(|epoch| (number(epoch), epoch.rsum)).into_iter().collect();
    let (x, y) = (span(points.iter().map(|p| p.0)), span(points.iter().map(|p| p.1)));
    let svg = draw(x.0..x.1, padded(y.0, y.1), "epoch", &[Line::new(points, A, 2)], &marks)?;
    Ok(Some(Figure { title: "Validation rsum".to_owned(), legend, svg }))
}

/// The six recalls by epoch: the lower the K, the thicker the line. The epoch that was kept is a line across.
pub(super) fn recalls(epochs: &[Epoch]) -> Result<Option<Figure>> {
    if epochs.len() < 2 {
        return Ok(None);
    }
    let mut lines = Vec::new();
    for (direction, series) in [A, B].into_iter().enumerate() {
        for (cutoff, width) in [4, 2, 1].into_iter().enumerate() {
            lines.push(Line::new(by_epoch(epochs, |epoch| epoch.recalls[direction][cutoff]), series, width));
        }
    }
    let x = span(epochs.iter().map(number));
    let y = padded(0.0, span(lines.iter().flat_map(|line| line.points.iter().map(|p| p.1))).1);
    let mut legend = vec![key(A, DIRECTIONS[0].name), key(B, DIRECTIONS[1].name)];
    legend.push(Key { series: None, text: "from thick to thin: R@1, R@5, R@10".to_owned() });
    if let Some(best) = kept(epochs) {
        lines.insert(0, Line::new(vec![(number(best), y.start), (number(best), y.end)], Muted, 1));
        legend.push(key(Muted, "the epoch that was kept"));
    }
    let svg = draw(x.0..x.1, y, "epoch", &lines, &[])?;
    Ok(Some(Figure { title: "Validation recall, percent".to_owned(), legend, svg }))
}

fn by_epoch(epochs: &[Epoch], value: impl Fn(&Epoch) -> f64) -> Vec<(f64, f64)> {
    epochs.iter().map(|epoch| (number(epoch), value(epoch))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "epochs are far below 2⁵³")]
fn number(epoch: &Epoch) -> f64 {
    epoch.number as f64
}
