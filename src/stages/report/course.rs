//! Plots of the course of a training.

use super::content::Content;
use super::curves::{smoothed, thinned};
use super::elements::{Epoch, Step};
use super::plots::{A, B, Line, MUTED, draw, draw_steps, padded, span};
use crate::error::Result;

/// The loss of every step, and smoothed; what it would be if all scores were equal, where that is known.
pub(super) fn losses(content: &Content) -> Result<Option<String>> {
    let collapsed =
        content.history.iter().filter_map(|step| Some((step.number, step.collapsed_loss?))).collect::<Vec<_>>();
    let collapsed = Line::new(thinned(&collapsed), B, 1);
    steps(content, |step| step.loss, Some(collapsed).filter(|line| !line.points.is_empty()), None)
}

/// The norm of the gradient at every step, and smoothed.
pub(super) fn gradient_norms(content: &Content) -> Result<Option<String>> {
    steps(content, |step| step.gradient_norm, None, Some(0.0))
}

fn steps(
    content: &Content,
    value: fn(&Step) -> f64,
    beside: Option<Line>,
    least: Option<f64>,
) -> Result<Option<String>> {
    let Some(x) = range(content) else { return Ok(None) };
    let points: Vec<(f64, f64)> = content.history.iter().map(|step| (step.number, value(step))).collect();
    let mut lines = vec![Line::new(thinned(&points), MUTED, 1), Line::new(thinned(&smoothed(&points)), A, 2)];
    lines.extend(beside);
    draw_steps(x, &lines, least).map(Some)
}

/// The learning rate of every step, as stairs.
pub(super) fn learning_rates(content: &Content) -> Result<Option<String>> {
    let ([first, .., last], Some(x)) = (content.history.as_slice(), range(content)) else { return Ok(None) };
    let mut stairs = vec![(first.number, first.learning_rate)];
    for pair in content.history.windows(2).filter(|pair| pair[0].learning_rate != pair[1].learning_rate) {
        stairs.extend(pair.iter().map(|step| (pair[1].number, step.learning_rate)));
    }
    stairs.push((last.number, last.learning_rate));
    draw_steps(x, &[Line::new(stairs, A, 2)], Some(0.0)).map(Some)
}

/// The first and the last step.
fn range(content: &Content) -> Option<(f64, f64)> {
    let [first, .., last] = content.history.as_slice() else { return None };
    Some(span([first.number, last.number].into_iter()))
}

/// rsum by epoch, the epoch that was kept marked.
pub(super) fn validation(content: &Content) -> Result<Option<String>> {
    if content.validation.len() < 2 {
        return Ok(None);
    }
    let points = by_epoch(content, |epoch| epoch.rsum);
    let marks: Vec<(f64, f64)> = content.best_epoch().map(|epoch| (number(epoch), epoch.rsum)).into_iter().collect();
    let (x, y) = (span(points.iter().map(|p| p.0)), span(points.iter().map(|p| p.1)));
    draw(x.0..x.1, padded(y.0, y.1), "epoch", &[Line::new(points, A, 2)], &marks).map(Some)
}

/// The six recalls by epoch: the lower the K, the thicker the line. The epoch that was kept is a line across.
pub(super) fn recalls(content: &Content) -> Result<Option<String>> {
    if content.validation.len() < 2 {
        return Ok(None);
    }
    let mut lines = Vec::new();
    for (direction, colour) in [A, B].into_iter().enumerate() {
        for (cutoff, width) in [4, 2, 1].into_iter().enumerate() {
            lines.push(Line::new(by_epoch(content, |epoch| epoch.recalls[direction][cutoff]), colour, width));
        }
    }
    let x = span(content.validation.iter().map(number));
    let y = padded(0.0, span(lines.iter().flat_map(|line| line.points.iter().map(|p| p.1))).1);
    if let Some(best) = content.best_epoch() {
        lines.insert(0, Line::new(vec![(number(best), y.start), (number(best), y.end)], MUTED, 1));
    }
    draw(x.0..x.1, y, "epoch", &lines, &[]).map(Some)
}

fn by_epoch(content: &Content, value: impl Fn(&Epoch) -> f64) -> Vec<(f64, f64)> {
    content.validation.iter().map(|epoch| (number(epoch), value(epoch))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "epochs are far below 2⁵³")]
fn number(epoch: &Epoch) -> f64 {
    epoch.number as f64
}
