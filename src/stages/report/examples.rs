//! Examples: queries with what they found, one card each.

use super::card::{Card, Item, List};
use super::document::{Block, Section};
use super::elements::DIRECTIONS;
use super::rankings::{Query, Rankings, grade};
use super::text::Label;
use super::text::Span::{Plain, Strong};
use super::things::Things;
use crate::error::Result;
use crate::stage::Cx;

/// The sections of the two directions, as far as there are queries.
///
/// # Errors
/// A table cannot be read. A picture that cannot be shown is a warning.
pub(super) fn sections(cx: &mut Cx<'_>, rankings: &Rankings, things: &mut Things) -> Result<Vec<Section>> {
    let [i2t, t2i] = &rankings.picked;
    let found =
        |queries: &[Query]| queries.iter().flat_map(|query| query.top.clone()).map(|top| top.0).collect::<Vec<_>>();
    let ids = |queries: &[Query]| queries.iter().map(|query| query.id).collect::<Vec<_>>();
    let captions = found(i2t).into_iter().chain(ids(t2i)).collect();
    things.read_captions(cx, &captions, &ids(i2t).into_iter().collect())?;
    let right = ids(t2i).into_iter().filter_map(|id| things.image_of(id));
    let images = ids(i2t).into_iter().chain(found(t2i)).chain(right).collect();
    things.read_images(cx, &images)?;
    let cards: [Vec<Card>; 2] = [
        i2t.iter().map(|query| of_image(query, things)).collect(),
        t2i.iter().map(|query| of_caption(query, things)).collect(),
    ];
    let sections = DIRECTIONS.iter().zip(cards).filter(|(_, cards)| !cards.is_empty());
    Ok(sections
        .map(|(direction, cards)| Section::new(format!("Examples: {}", direction.name), vec![Block::Cards(cards)]))
        .collect())
}

/// An image that looked for captions.
fn of_image(query: &Query, things: &Things) -> Card {
    let item = |id: i64, score| Item { label: things.caption(id), score, right: things.image_of(id) == Some(query.id) };
    let found = query.top.iter().map(|&(id, score)| item(id, Some(score))).collect();
    let right = things.captions_of(query.id).iter().map(|&id| item(id, None)).collect();
    card(query.rank, things.image(query.id), found, right)
}

/// A caption that looked for images.
fn of_caption(query: &Query, things: &Things) -> Card {
    let image = things.image_of(query.id);
    let item = |(place, &(id, score)): (usize, &(i64, f32))| {
        // Without captions the rank alone tells which image is right.
        let right = image.map_or(i64::try_from(place) == Ok(query.rank), |image| image == id);
        Item { label: things.image(id), score: Some(score), right }
    };
    let found = query.top.iter().enumerate().map(item).collect();
    let right = image.map(|id| Item { label: things.image(id), score: None, right: true });
    card(query.rank, things.caption(query.id), found, right.into_iter().collect())
}

/// The card of a query; it tells what would have been right when nothing that was found is.
fn card(rank: i64, heading: Label, found: Vec<Item>, right: Vec<Item>) -> Card {
    let missed = !right.is_empty() && !found.iter().any(|item| item.right);
    let mut lists = vec![List { title: None, ordered: true, items: found }];
    lists.extend(missed.then_some(List { title: Some("Right would have been"), ordered: false, items: right }));
    let verdict = vec![Plain("best match in ".to_owned()), Strong(place(rank)), Plain(" place".to_owned())];
    Card { grade: grade(rank), heading, verdict, lists }
}

/// A name for a place that counts from 0: `1st`, `22nd`.
fn place(rank: i64) -> String {
    let number = rank.saturating_add(1);
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_as_people_do() {
        let names: Vec<String> = [0, 1, 2, 3, 9, 10, 11, 12, 20, 21, 110, 111].map(place).into();
        assert_eq!(
            names,
            ["1st", "2nd", "3rd", "4th", "10th", "11th", "12th", "13th", "21st", "22nd", "111th", "112th"]
        );
    }
}
