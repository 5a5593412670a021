//! Document model of a page, rendered as HTML and as Markdown.

use super::card::Card;
use super::figure::{Drawing, Figure};
use super::settings_card::SettingsCard;
use super::table::{Cell, PageTable};
use super::text::Span;

/// Page.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) title: String,
    /// Blocks before the first section.
    pub(super) intro: Vec<PageBlock>,
    pub(super) sections: Vec<Section>,
}

/// Section of a page.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) title: String,
    pub(super) blocks: Vec<PageBlock>,
}

impl Section {
    pub(super) fn new(title: impl Into<String>, blocks: Vec<PageBlock>) -> Self {
        Self { title: title.into(), blocks }
    }
}

/// Block of a section.
#[derive(Debug)]
pub(super) enum PageBlock {
    /// Opening sentence of a page.
    Intro(Vec<Span>),
    /// Key figures in large print: name and value.
    Numbers(Vec<(String, Cell)>),
    /// Heading within a section.
    Heading(String),
    Table(PageTable),
    Note(String),
    /// Plots, which Markdown omits, as all figures.
    Figures(Vec<Figure>),
    /// Plot over the whole width.
    WideFigure(Figure),
    Drawings(Vec<Drawing>),
    Cards(Vec<Card>),
    Settings(Vec<SettingsCard>),
}
