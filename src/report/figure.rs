//! Plots and drawings of a document, as SVG.

use maud::Markup;

/// Plot.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) legend: Vec<LegendEntry>,
    pub(super) svg: Markup,
}

/// Entry of a legend, with the colour of a series or without one.
#[derive(Debug)]
pub(super) struct LegendEntry {
    pub(super) series: Option<Series>,
    pub(super) text: String,
}

pub(super) fn legend_entry(series: Series, text: impl Into<String>) -> LegendEntry {
    LegendEntry { series: Some(series), text: text.into() }
}

/// Series of a plot: two main ones, a muted one in the background, and those of many rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Series {
    A,
    B,
    Muted,
    /// Row of a sweep, by its number. Colours repeat after seven rows, with other dashes.
    Row(usize),
}

/// Drawing of a scene graph under its caption. Markdown shows `plain_text` instead.
#[derive(Debug)]
pub(super) struct Drawing {
    pub(super) text: String,
    pub(super) svg: Markup,
    pub(super) plain_text: String,
}
