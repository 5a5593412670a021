//! A page as a document of blocks: described once, rendered as HTML and as Markdown.

use super::card::Card;
use super::figure::{Drawing, Figure};
use super::table::{Cell, Table};
use super::text::Span;

/// A page.
#[derive(Debug)]
pub(super) struct Document {
    pub(super) title: String,
    /// Blocks above the first section.
    pub(super) lead: Vec<Block>,
    pub(super) sections: Vec<Section>,
}

/// A part of the page with a title.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) title: String,
    pub(super) blocks: Vec<Block>,
}

impl Section {
    pub(super) fn new(title: impl Into<String>, blocks: Vec<Block>) -> Self {
        Self { title: title.into(), blocks }
    }
}

/// An element of a section.
#[derive(Debug)]
pub(super) enum Block {
    /// The sentence that opens a page.
    Lead(Vec<Span>),
    /// Numbers in large print, each with its name.
    Numbers(Vec<(String, Cell)>),
    /// A title within a section.
    Heading(String),
    Table(Table),
    Note(String),
    /// Plots, which Markdown leaves out.
    Figures(Vec<Figure>),
    Drawings(Vec<Drawing>),
    Cards(Vec<Card>),
}
