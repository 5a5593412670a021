//! Plots as SVG whose colours the page decides on.
//!
//! plotters wants a colour for each line; the lines get the stand-ins below, and the style sheet maps those to colours of
//! the light or the dark page.

use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::content::Content;
use super::similarity::Similarity;
use crate::error::{Error, Result};
use crate::kernels::measure::chance::chance;

/// Text and axes: `--ink` of the style sheet.
const INK: RGBColor = RGBColor(0, 0, 1);
/// Grid: `--line`.
const GRID: RGBColor = RGBColor(0, 0, 2);
/// First series: `--a`.
pub(super) const A: RGBColor = RGBColor(0, 0, 3);
/// Second series: `--b`.
pub(super) const B: RGBColor = RGBColor(0, 0, 4);
/// What stands behind: `--muted`.
pub(super) const MUTED: RGBColor = RGBColor(0, 0, 5);

const SIZE: (u32, u32) = (560, 300);
/// Values that span more than this factor are drawn on a logarithmic axis.
const LOG_SPAN: f64 = 20.0;

/// A curve with its colour and width.
pub(super) struct Line {
    pub(super) points: Vec<(f64, f64)>,
    colour: RGBColor,
    width: u32,
}

impl Line {
    pub(super) fn new(points: Vec<(f64, f64)>, colour: RGBColor, width: u32) -> Self {
        Self { points, colour, width }
    }
}

/// How φ is distributed: captions of the image itself, and of other images; percent of pairs on a logarithmic axis.
pub(super) fn similarity(found: &Similarity) -> Result<Option<String>> {
    let [own, others] = found.curves();
    let points = || own.iter().chain(&others);
    if points().count() < 2 {
        return Ok(None);
    }
    // Empty bins lie on the axis.
    let least = points().map(|p| p.1).filter(|&share| share > 0.0).fold(100.0, f64::min) / 2.0;
    let above = |points: &[(f64, f64)]| points.iter().map(|p| (p.0, p.1.max(least))).collect::<Vec<_>>();
    let lines = [Line::new(above(&others), B, 2), Line::new(above(&own), A, 2)];
    let x = span(points().map(|p| p.0).chain([0.0]));
    let lines: Vec<Line> = lines.into_iter().filter(|line| !line.points.is_empty()).collect();
    draw(x.0..x.1, (least..100.0).log_scale().base(10.0), "φ", &lines, &[]).map(Some)
}

/// Which share of queries has its best match among the first k items, for every k.
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
pub(super) fn ranks(content: &Content) -> Result<Option<String>> {
    let [i2t, t2i] = &content.rank_curves;
    let Some(pool) = content.results.first() else { return Ok(None) };
    if i2t.is_empty() || t2i.is_empty() {
        return Ok(None);
    }
    let most = pool.n_captions.max(pool.n_images).max(10);
    let by_chance = (0..=48).filter_map(|step| {
        let k = (most as f64).powf(f64::from(step) / 48.0);
        Some((k, chance_at(pool.n_images, k)?))
    });
    let lines = [
        Line::new(by_chance.collect(), MUTED, 1),
        Line::new(stairs(t2i, most as f64), B, 2),
        Line::new(stairs(i2t, most as f64), A, 2),
    ];
    draw((1.0..most as f64).log_scale().base(base(most as f64)), 0.0..100.0, "k", &lines, &[]).map(Some)
}

/// Recall at `k` of a random order with one match, percent.
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
fn chance_at(items: usize, k: f64) -> Option<f64> {
    chance(items, 1, &[1]).map(|_| (100.0 * k / items as f64).min(100.0))
}

/// A cumulative curve as stairs, from 1 to `most`.
fn stairs(points: &[(f64, f64)], most: f64) -> Vec<(f64, f64)> {
    let mut stairs = Vec::with_capacity(points.len() * 2 + 1);
    let mut height = 0.0;
    if points.first().is_some_and(|first| first.0 > 1.0) {
        stairs.push((1.0, height));
    }
    for &(k, share) in points {
        if k > 1.0 {
            stairs.push((k, height));
        }
        stairs.push((k, share));
        height = share;
    }
    stairs.push((most, height));
    stairs
}

/// Lines over steps, on a logarithmic axis if their values span much; on another one, `least` is seen too.
pub(super) fn draw_steps(x: (f64, f64), lines: &[Line], least: Option<f64>) -> Result<String> {
    let (low, high) = span(lines.iter().flat_map(|line| line.points.iter().map(|p| p.1)));
    if low > 0.0 && high / low > LOG_SPAN {
        return draw(x.0..x.1, (low / 1.1..high * 1.1).log_scale().base(base(high / low)), "step", lines, &[]);
    }
    let low = least.map_or(low, |least| low.min(least));
    draw(x.0..x.1, padded(low.min(high * 0.9), high), "step", lines, &[])
}

/// Base of a logarithmic axis: its powers are what is labelled, and a handful of labels is right.
fn base(span: f64) -> f64 {
    if span < 2000.0 { 2.0 } else { 10.0 }
}

pub(super) fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low < high { (low, high) } else { (low - 0.5, high + 0.5) }
}

pub(super) fn padded(low: f64, high: f64) -> std::ops::Range<f64> {
    let pad = (high - low).max(f64::MIN_POSITIVE) * 0.06;
    (if low >= 0.0 { (low - pad).max(0.0) } else { low - pad })..high + pad
}

pub(super) fn draw<X, Y>(x: X, y: Y, x_name: &str, lines: &[Line], marks: &[(f64, f64)]) -> Result<String>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut svg = String::new();
    plot(&mut svg, x, y, x_name, lines, marks).map_err(|error| Error::internal(format!("a plot failed: {error}")))?;
    Ok(svg)
}

fn plot<X, Y>(
    svg: &mut String,
    x: X,
    y: Y,
    x_name: &str,
    lines: &[Line],
    marks: &[(f64, f64)],
) -> Result<(), Box<dyn std::error::Error>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let area = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .margin_right(16)
        .x_label_area_size(40)
        .y_label_area_size(48)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(("sans-serif", 16, &INK))
        .x_desc(x_name)
        .x_label_formatter(&|value| label(*value))
        .y_label_formatter(&|value| label(*value))
        .x_labels(8)
        .y_labels(6)
        .draw()?;
    for line in lines {
        chart.draw_series(LineSeries::new(line.points.iter().copied(), line.colour.stroke_width(line.width)))?;
    }
    chart.draw_series(marks.iter().map(|&mark| Circle::new(mark, 5, B.filled())))?;
    area.present()?;
    drop(chart);
    drop(area);
    Ok(())
}

/// A number at an axis, as short as it can be.
fn label(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = match value.abs() {
        v if v >= 100.0 || (v >= 1.0 && v.fract() == 0.0) => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        // One digit where it is the whole truth.
        _ => {
            let short = format!("{value:.0e}");
            let exact = short.parse::<f64>().is_ok_and(|short| (short / value - 1.0).abs() < 0.01);
            return if exact { short } else { format!("{value:.1e}") };
        }
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short_and_true() {
        let values = [0.0, 1e-3, 0.00025, 0.1, 12.8, 12.0, 1250.0, 0.5];
        assert_eq!(values.map(label), ["0", "1e-3", "2.5e-4", "0.10", "12.8", "12", "1250", "0.50"]);
    }
}
