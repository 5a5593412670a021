//! Card of a document: a text or image, a sentence on its result, and lists of related items.

use super::text::{PageLabel, Span};

/// Card.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) quality: CardQuality,
    pub(super) heading: PageLabel,
    pub(super) result: Vec<Span>,
    pub(super) lists: Vec<CardList>,
}

/// Quality that a card shows, which decides its colour.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum CardQuality {
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
