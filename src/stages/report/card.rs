//! A card of a document: a text or picture, a verdict on it, and lists of what belongs to it.

use super::text::{Label, Span};

/// A card.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) grade: Grade,
    pub(super) heading: Label,
    pub(super) verdict: Vec<Span>,
    pub(super) lists: Vec<List>,
}

/// The colour of a card.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Grade {
    Good,
    Middling,
    Bad,
}

/// A list, with a title where it needs one.
#[derive(Debug)]
pub(super) struct List {
    pub(super) title: Option<&'static str>,
    pub(super) ordered: bool,
    pub(super) items: Vec<Item>,
}

/// An item; those that are right are marked.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) label: Label,
    pub(super) score: Option<f32>,
    pub(super) right: bool,
}
