//! Plots as SVG, with colours from the style sheet of the page.
//!
//! plotters needs an RGB colour for each line. The plots use the placeholder colours below, which the style sheet
//! replaces by those of the light or dark theme.

use az::SaturatingAs;
use maud::{Markup, PreEscaped};
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::document::Series;
use pairloom_base::error::{Error, Result};

/// Text and axes: `--ink` of the style sheet.
const INK: RGBColor = RGBColor(0, 0, 1);
/// Grid: `--line`.
const GRID: RGBColor = RGBColor(0, 0, 2);
const SIZE: (u32, u32) = (560, 300);
/// Size of a plot over the whole width of a page.
pub(super) const WIDE: (u32, u32) = (1120, 460);
/// Number of colours of rows in the style sheet.
const ROW_COLOURS: usize = 7;
/// Number of patterns of dashes of rows in the style sheet.
const ROW_DASHES: usize = 4;
/// Ratio of largest to smallest value above which the axis is logarithmic.
const LOG_SPAN: f64 = 20.0;
/// Smallest range of values that is drawn to scale, relative to their magnitude. A smaller one is a constant with
/// noise.
const CONSTANT_SPAN: f64 = 0.02;

/// Curve with its colour and width.
pub(super) struct Curve {
    pub(super) points: Vec<(f64, f64)>,
    series: Series,
    width: u32,
}

impl Curve {
    pub(super) fn new(points: Vec<(f64, f64)>, series: Series, width: u32) -> Self {
        Self { points, series, width }
    }
}

/// Placeholder colour of a series: `--a`, `--b`, `--muted`; of a row, the number of its dashes and of its colour.
fn colour(series: Series) -> RGBColor {
    match series {
        Series::A => RGBColor(0, 0, 3),
        Series::B => RGBColor(0, 0, 4),
        Series::Muted => RGBColor(0, 0, 5),
        Series::Row(number) => {
            let dashes = number / ROW_COLOURS % ROW_DASHES;
            RGBColor(1, dashes.saturating_as::<u8>() + 1, (number % ROW_COLOURS).saturating_as::<u8>() + 1)
        }
    }
}

/// Placeholder colour of a series in SVG.
pub(super) fn stroke(series: Series) -> String {
    let RGBColor(red, green, blue) = colour(series);
    format!("#{red:02X}{green:02X}{blue:02X}")
}

/// Draws curves by step. The y axis is logarithmic if the values span more than [`LOG_SPAN`]; a linear axis includes
/// `least`.
pub(super) fn draw_steps(x: (f64, f64), lines: &[Curve], least: Option<f64>) -> Result<Markup> {
    let (low, high) = axis_range(lines.iter().flat_map(|line| line.points.iter().map(|p| p.1)));
    if low > 0.0 && high / low > LOG_SPAN {
        return draw(x.0..x.1, (low / 1.1..high * 1.1).log_scale().base(axis_base(high / low)), "step", lines, &[]);
    }
    let low = least.map_or(low, |least| low.min(least));
    draw(x.0..x.1, padded_range(low.min(high * 0.9), high), "step", lines, &[])
}

/// Base of a logarithmic axis. Labels are at its powers, so the base is chosen for a handful of labels.
pub(super) fn axis_base(span: f64) -> f64 {
    if span < 2000.0 { 2.0 } else { 10.0 }
}

pub(super) fn value_range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low < high { (low, high) } else { (low - 0.5, high + 0.5) }
}

/// Range of an axis for these values: from the lowest to the highest. For nearly equal values it is wider, with them in
/// the middle, so that a constant looks like one.
pub(super) fn axis_range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    let magnitude = low.abs().max(high.abs());
    if high - low > CONSTANT_SPAN * magnitude {
        return (low, high);
    }
    if magnitude == 0.0 || !magnitude.is_finite() {
        return (0.0, 1.0);
    }
    let (middle, half) = (f64::midpoint(low, high), 0.2 * magnitude);
    (middle - half, middle + half)
}

pub(super) fn padded_range(low: f64, high: f64) -> std::ops::Range<f64> {
    let pad = (high - low).max(f64::MIN_POSITIVE) * 0.06;
    (if low >= 0.0 { (low - pad).max(0.0) } else { low - pad })..high + pad
}

/// Draws curves and marks.
pub(super) fn draw(x: impl Axis, y: impl Axis, x_name: &str, lines: &[Curve], marks: &[(f64, f64)]) -> Result<Markup> {
    draw_sized(SIZE, x, y, x_name, lines, marks)
}

/// Draws curves and marks in a plot of a size.
pub(super) fn draw_sized(
    size: (u32, u32),
    x: impl Axis,
    y: impl Axis,
    x_name: &str,
    lines: &[Curve],
    marks: &[(f64, f64)],
) -> Result<Markup> {
    fn failed(error: impl std::fmt::Display) -> Error {
        Error::internal(format!("a plot failed: {error}"))
    }
    let range = |value: fn(&(f64, f64)) -> f64| axis_range(lines.iter().flat_map(|line| line.points.iter().map(value)));
    let ((first, last), (low, high)) = (range(|point| point.0), range(|point| point.1));
    // Steps and epochs are whole numbers, so there are no labels in between.
    let x_labels =
        if matches!(x_name, "step" | "epoch") { (last - first + 1.0).clamp(1.0, 8.0).saturating_as() } else { 8 };
    let noise = 1e-9 * low.abs().max(high.abs());
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, size).into_drawing_area();
    let mut chart = ChartBuilder::on(&area)
        .margin(8)
        .margin_right(16)
        .x_label_area_size(46)
        .y_label_area_size(48)
        .build_cartesian_2d(x, y)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(GRID)
        .axis_style(INK)
        .label_style(("sans-serif", 16, &INK))
        .x_desc(x_name)
        .x_label_formatter(&|value| label(*value))
        .y_label_formatter(&|value| label(if value.abs() < noise { 0.0 } else { *value }))
        .x_labels(x_labels)
        .y_labels(6)
        .draw()
        .map_err(failed)?;
    for line in lines {
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), colour(line.series).stroke_width(line.width)))
            .map_err(failed)?;
    }
    chart.draw_series(marks.iter().map(|&mark| Circle::new(mark, 5, colour(Series::B).filled()))).map_err(failed)?;
    area.present().map_err(failed)?;
    drop(chart);
    drop(area);
    Ok(PreEscaped(svg))
}

/// Axis with numeric labels.
pub(super) trait Axis: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>> {}
impl<T: AsRangedCoord<Value = f64, CoordDescType: ValueFormatter<f64>>> Axis for T {}

/// Short label of a number at an axis.
fn label(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = match value.abs() {
        v if v >= 100.0 || (v >= 1.0 && v.fract() == 0.0) => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        // One digit where that is exact.
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
    fn noise_of_a_constant_is_not_magnified() {
        let close = |values: &[f64], expected: (f64, f64)| {
            let (low, high) = axis_range(values.iter().copied());
            assert!((low - expected.0).abs() < 1e-9 && (high - expected.1).abs() < 1e-9, "{values:?}: {low} to {high}");
        };
        close(&[1e-4, 1e-4], (0.8e-4, 1.2e-4));
        close(&[51.2, 51.2 + 1e-12], (40.96, 61.44));
        close(&[-3.0], (-3.6, -2.4));
        close(&[0.0, 0.0], (0.0, 1.0));
        close(&[], (0.0, 1.0));
        close(&[50.0, 51.2], (50.0, 51.2));
        close(&[-1.0, 1.0], (-1.0, 1.0));
    }

    #[test]
    fn rows_differ_in_colour_or_dashes() {
        assert_eq!([0, 6, 7, 27].map(|row| stroke(Series::Row(row))), ["#010101", "#010107", "#010201", "#010407"]);
        assert_eq!(stroke(Series::Row(28)), stroke(Series::Row(0)));
    }

    #[test]
    fn labels_are_short_and_exact() {
        let values = [0.0, 1e-3, 0.00025, 0.1, 12.8, 12.0, 1250.0, 0.5];
        assert_eq!(values.map(label), ["0", "1e-3", "2.5e-4", "0.10", "12.8", "12", "1250", "0.50"]);
    }
}
