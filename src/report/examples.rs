//! Sections of examples: a card per query, with the items that it retrieved.

use super::card::{Card, CardItem, CardList};
use super::document::{PageBlock, Section};
use super::item_labels::ItemLabels;
use super::page_data::DIRECTIONS;
use super::rankings::{ExampleQuery, SampledRankings, quality_of_rank};
use super::text::PageLabel;
use super::text::Span::{Plain, Strong};
use pairloom_base::error::Result;
use pairloom_stage::StageContext;

/// Sections of the directions that have example queries.
///
/// # Errors
/// A table cannot be read. An image that cannot be decoded is a warning.
pub(super) fn sections(
    cx: &mut StageContext<'_>,
    rankings: &SampledRankings,
    labels: &mut ItemLabels,
) -> Result<Vec<Section>> {
    let [i2t, t2i] = &rankings.examples;
    let found = |queries: &[ExampleQuery]| {
        queries.iter().flat_map(|query| query.top.clone()).map(|top| top.0).collect::<Vec<_>>()
    };
    let ids = |queries: &[ExampleQuery]| queries.iter().map(|query| query.id).collect::<Vec<_>>();
    let captions = found(i2t).into_iter().chain(ids(t2i)).collect();
    labels.read_captions(cx, &captions, &ids(i2t).into_iter().collect())?;
    let right = ids(t2i).into_iter().filter_map(|id| labels.image_of_caption(id));
    let images = ids(i2t).into_iter().chain(found(t2i)).chain(right).collect();
    labels.read_images(cx, &images)?;
    let cards: [Vec<Card>; 2] = [
        i2t.iter().map(|query| image_card(query, labels)).collect(),
        t2i.iter().map(|query| caption_card(query, labels)).collect(),
    ];
    let sections = DIRECTIONS.iter().zip(cards).filter(|(_, cards)| !cards.is_empty());
    Ok(sections
        .map(|(direction, cards)| Section::new(format!("Examples: {}", direction.name), vec![PageBlock::Cards(cards)]))
        .collect())
}

/// Card of an image query.
fn image_card(query: &ExampleQuery, labels: &ItemLabels) -> Card {
    let item = |id: i64, score| CardItem {
        label: labels.caption(id),
        score,
        is_match: labels.image_of_caption(id) == Some(query.id),
    };
    let found = query.top.iter().map(|&(id, score)| item(id, Some(score))).collect();
    let right = labels.captions_of_image(query.id).iter().map(|&id| item(id, None)).collect();
    card(query.rank, labels.image(query.id), found, right)
}

/// Card of a caption query.
fn caption_card(query: &ExampleQuery, labels: &ItemLabels) -> Card {
    let image = labels.image_of_caption(query.id);
    let item = |(place, &(id, score)): (usize, &(i64, f32))| {
        // Without the table `captions`, the matching image is known only by its rank.
        let right = image.map_or(i64::try_from(place) == Ok(query.rank), |image| image == id);
        CardItem { label: labels.image(id), score: Some(score), is_match: right }
    };
    let found = query.top.iter().enumerate().map(item).collect();
    let right = image.map(|id| CardItem { label: labels.image(id), score: None, is_match: true });
    card(query.rank, labels.caption(query.id), found, right.into_iter().collect())
}

/// Card of a query. It lists the matches if none of them was retrieved.
fn card(rank: i64, heading: PageLabel, found: Vec<CardItem>, matches: Vec<CardItem>) -> Card {
    let missed = !matches.is_empty() && !found.iter().any(|item| item.is_match);
    let mut lists = vec![CardList { title: None, ordered: true, items: found }];
    lists.extend(missed.then_some(CardList {
        title: Some("Matches that were not retrieved"),
        ordered: false,
        items: matches,
    }));
    let verdict = vec![Plain("best match in ".to_owned()), Strong(ordinal(rank)), Plain(" place".to_owned())];
    Card { quality: quality_of_rank(rank), heading, result: verdict, lists }
}

/// Ordinal of a rank from 0: `1st`, `22nd`.
fn ordinal(rank: i64) -> String {
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
    fn ranks_are_written_as_ordinals() {
        let names: Vec<String> = [0, 1, 2, 3, 9, 10, 11, 12, 20, 21, 110, 111].map(ordinal).into();
        assert_eq!(
            names,
            ["1st", "2nd", "3rd", "4th", "10th", "11th", "12th", "13th", "21st", "22nd", "111th", "112th"]
        );
    }
}
