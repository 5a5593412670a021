//! Plots and drawings of a document, as SVG.

use maud::Markup;

/// A plot.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) title: String,
    pub(super) legend: Vec<Key>,
    pub(super) svg: Markup,
}

/// An entry of a legend, with the colour of a series or none.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) series: Option<Series>,
    pub(super) text: String,
}

pub(super) fn key(series: Series, text: impl Into<String>) -> Key {
    Key { series: Some(series), text: text.into() }
}

/// The series of a plot: two, and what stands behind them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Series {
    A,
    B,
    Muted,
}

/// A drawing of a text; Markdown says it in words.
#[derive(Debug)]
pub(super) struct Drawing {
    pub(super) text: String,
    pub(super) svg: Markup,
    pub(super) words: String,
}
