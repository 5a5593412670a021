//! Card of a document: a text or image, a verdict on it, and lists of related items.

use super::text::{PageLabel, Span};

/// Card.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) grade: Grade,
    pub(super) heading: PageLabel,
    pub(super) verdict: Vec<Span>,
    pub(super) lists: Vec<CardList>,
}

/// Grade of a card, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Grade {
    Good,
    Middling,
    Bad,
}

/// List with an optional title.
#[derive(Debug)]
pub(super) struct CardList {
    pub(super) title: Option<&'static str>,
    pub(super) ordered: bool,
    pub(super) items: Vec<CardItem>,
}

/// List item; correct items are marked.
#[derive(Debug)]
pub(super) struct CardItem {
    pub(super) label: PageLabel,
    pub(super) score: Option<f32>,
    pub(super) is_match: bool,
}
