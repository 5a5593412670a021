//! Sections of a training and of ranks: the curves, smoothed, recall by cut-off, and the table of validation by epoch.

use std::collections::BTreeMap;

use plotters::coord::combinators::IntoLogRange;

use super::document::Series::{A, B, Muted};
use super::document::{Figure, LegendEntry, PageBlock, PageColumn, PageColumnKind, PageTable, Section, legend_entry};
use super::page_data::{DIRECTIONS, ResultRow, TrainingStep, ValidationEpoch, best_epoch, one_decimal};
use super::plots::{Curve, axis_base, axis_range, draw, draw_steps, padded_range, value_range};
use pairloom_base::error::Result;
use pairloom_tables::DEFAULT_CUTOFFS;

/// Section of all curves that have data.
pub(super) fn section(
    steps: &[TrainingStep],
    epochs: &[ValidationEpoch],
    ranks: Option<Figure>,
) -> Result<Option<Section>> {
    let figures =
        [losses(steps)?, gradient_norms(steps)?, learning_rates(steps)?, validation(epochs)?, recalls(epochs)?, ranks];
    let figures: Vec<_> = figures.into_iter().flatten().collect();
    Ok((!figures.is_empty()).then(|| Section::new("Curves", vec![PageBlock::Figures(figures)])))
}

/// Plots the loss by step, raw and smoothed, and the loss of equal scores where known.
fn losses(history: &[TrainingStep]) -> Result<Option<Figure>> {
    let whole = whole_batches(history);
    let collapsed: Vec<_> = whole.iter().filter_map(|step| Some((step.number, step.collapsed_loss?))).collect();
    let line = || (Curve::new(downsampled(&collapsed), B, 1), legend_entry(B, "if all scores were equal"));
    let beside = (!collapsed.is_empty()).then(line);
    plot_by_step(history, "Training loss", |step| step.loss, beside, None)
}

/// Plots the gradient norm by step, raw and smoothed.
fn gradient_norms(history: &[TrainingStep]) -> Result<Option<Figure>> {
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
fn learning_rates(history: &[TrainingStep]) -> Result<Option<Figure>> {
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
fn validation(epochs: &[ValidationEpoch]) -> Result<Option<Figure>> {
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
fn recalls(epochs: &[ValidationEpoch]) -> Result<Option<Figure>> {
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

/// Histogram of the ranks of best matches.
#[derive(Debug, Default)]
pub(super) struct RankHistogram(BTreeMap<i64, usize>);

impl RankHistogram {
    pub(super) fn add(&mut self, rank: i64) {
        *self.0.entry(rank.max(1)).or_default() += 1;
    }

    /// Recall by cut-off: (k, percentage of queries with a rank of at most k), for every k where it changes.
    #[expect(clippy::cast_precision_loss, reason = "ranks and queries are far below 2⁵³")]
    pub(super) fn cumulative(&self) -> Vec<(f64, f64)> {
        let all: usize = self.0.values().sum();
        let mut below = 0;
        self.0
            .iter()
            .map(|(&rank, &count)| {
                below += count;
                (rank as f64, 100.0 * below as f64 / all as f64)
            })
            .collect()
    }
}

/// Plots the percentage of queries whose best match is among the first k items, by k.
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub(super) fn rank_figure(ranks: &[RankHistogram; 2], pool: &ResultRow) -> Result<Option<Figure>> {
    let [i2t, t2i] = ranks.each_ref().map(RankHistogram::cumulative);
    if i2t.is_empty() || t2i.is_empty() {
        return Ok(None);
    }
    let most = pool.n_captions.max(pool.n_images).max(10);
    // Text to image: one match in a random order of the images.
    let by_chance = (0..=48).map(|step| {
        let k = (most as f64).powf(f64::from(step) / 48.0);
        (k, (100.0 * k / pool.n_images as f64).min(100.0))
    });
    let lines = [
        Curve::new(by_chance.collect(), Muted, 1),
        Curve::new(step_points(&t2i, most as f64), B, 2),
        Curve::new(step_points(&i2t, most as f64), A, 2),
    ];
    let svg = draw((1.0..most as f64).log_scale().base(axis_base(most as f64)), 0.0..100.0, "k", &lines, &[])?;
    let legend =
        vec![legend_entry(A, DIRECTIONS[0].name), legend_entry(B, DIRECTIONS[1].name), legend_entry(Muted, "chance")];
    Ok(Some(Figure { title: "Queries with a match among the first k items, percent".to_owned(), legend, svg }))
}

/// Points of a cumulative curve as a step function from 1 to `most`.
fn step_points(points: &[(f64, f64)], most: f64) -> Vec<(f64, f64)> {
    let mut steps = Vec::with_capacity(points.len() * 2 + 1);
    let mut height = 0.0;
    if points.first().is_some_and(|first| first.0 > 1.0) {
        steps.push((1.0, height));
    }
    for &(k, share) in points {
        if k > 1.0 {
            steps.push((k, height));
        }
        steps.push((k, share));
        height = share;
    }
    steps.push((most, height));
    steps
}

/// Maximum number of points of a drawn curve.
const MAX_POINTS: usize = 400;
/// Number of smoothing windows in a curve.
const WINDOWS: usize = 40;

/// Downsamples a curve to at most [`MAX_POINTS`] points: the means of consecutive points.
fn downsampled(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let size = points.len().div_ceil(MAX_POINTS).max(1);
    let mean =
        |group: &[(f64, f64)], get: fn(&(f64, f64)) -> f64| group.iter().map(get).sum::<f64>() / point_count(group);
    points.chunks(size).map(|group| (mean(group, |p| p.0), mean(group, |p| p.1))).collect()
}

/// Smooths a curve by the mean of a window around each point. The window is centred, so unlike a running average the
/// result does not lag. Points without a whole window, at both ends, are left out.
fn smoothed(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let half = points.len() / WINDOWS / 2;
    let width = 2 * half + 1;
    let sums: Vec<f64> = std::iter::once(0.0)
        .chain(points.iter().scan(0.0, |sum, point| {
            *sum += point.1;
            Some(*sum)
        }))
        .collect();
    let windows = points.windows(width).zip(sums.iter().zip(sums.iter().skip(width)));
    windows.map(|(window, (before, end))| (window[half].0, (end - before) / point_count(window))).collect()
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2⁵³")]
fn point_count(points: &[(f64, f64)]) -> f64 {
    points.len() as f64
}

/// Section of validation, if there was one.
pub(super) fn validation_section(epochs: &[ValidationEpoch]) -> Option<Section> {
    let mut table = PageTable::new(&[], &["epoch", "mean loss"]);
    for group in DIRECTIONS {
        table.group(group, DEFAULT_CUTOFFS.map(|k| format!("R@{k}")));
    }
    table
        .columns
        .extend([PageColumn::number("rsum"), PageColumn { kind: PageColumnKind::Text, ..PageColumn::number("") }]);
    let kept = best_epoch(epochs).map(|epoch| epoch.number);
    for epoch in epochs {
        let mut cells = vec![epoch.number.to_string(), format!("{:.4}", epoch.loss)];
        cells.extend(epoch.recalls.iter().flatten().chain([&epoch.rsum]).map(|&value| one_decimal(value)));
        cells.push(if Some(epoch.number) == kept { "kept" } else { "" }.to_owned());
        table.push(cells);
    }
    (!epochs.is_empty()).then(|| Section::new("Validation", vec![PageBlock::Table(table)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cumulative_counts_of_ranks_are_recalls() {
        let mut ranks = RankHistogram::default();
        for rank in [1, 1, 5, 10] {
            ranks.add(rank);
        }
        assert_eq!(ranks.cumulative(), [(1.0, 50.0), (5.0, 75.0), (10.0, 100.0)]);
    }

    #[test]
    fn downsampling_averages_consecutive_points() {
        let points: Vec<(f64, f64)> = (0..1000).map(|i| (f64::from(i), f64::from(i % 7))).collect();
        let thin = downsampled(&points);
        assert_eq!(thin.len(), 334);
        assert_eq!(thin[0], (1.0, 1.0));
        assert_eq!(downsampled(&points[..3]), points[..3]);
        assert_eq!(downsampled(&[]), []);
    }

    #[test]
    fn smoothing_is_centred_and_keeps_straight_lines() {
        // Windows of 13 points.
        let line: Vec<(f64, f64)> = (0..500).map(|i| (f64::from(i), 3.0 - 0.5 * f64::from(i))).collect();
        let smooth = smoothed(&line);
        assert!(smooth.iter().zip(&line[6..494]).all(|(got, expected)| (got.1 - expected.1).abs() < 1e-9));
        assert_eq!((smooth.len(), smooth[0].0, smooth[487].0), (488, 6.0, 493.0));
        // A step from 0 to 1 at 250: 249 sees 6 of its 13 points above.
        let step: Vec<(f64, f64)> = (0..500).map(|i| (f64::from(i), f64::from(i / 250))).collect();
        let smooth = smoothed(&step);
        assert!((smooth[243].1 - 6.0 / 13.0).abs() < 1e-12 && (smooth[244].1 - 7.0 / 13.0).abs() < 1e-12);
        assert!(smooth[237].1.abs() < 1e-12 && (smooth[250].1 - 1.0).abs() < 1e-12);
        assert_eq!(smoothed(&[]), []);
    }
}
