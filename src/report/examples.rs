//! Sections of examples: a card per query, with the items that it retrieved. The queries are a sample, stratified by the
//! rank of their best match.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float32Type, Int64Type};

use super::curves::RankHistogram;
use super::document::Span::{Plain, Strong};
use super::document::{Card, CardItem, CardList, CardQuality, PageBlock, PageLabel, Section};
use super::item_labels::ItemLabels;
use super::page_data::{self, DIRECTIONS, ResultRow};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::random::Rng;
use pairloom_stage::StageContext;
use pairloom_tables as tables;

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
        let right = image.map_or(i64::try_from(place + 1) == Ok(query.rank), |image| image == id);
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

/// Ordinal of a rank: `1st`, `22nd`.
fn ordinal(rank: i64) -> String {
    let ending = match (rank % 100, rank % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{rank}{ending}")
}

/// Number of retrieved items shown for a query.
const SHOWN_ITEMS: usize = 5;

/// Ranks of all queries, and a sample of queries with their retrieved items.
#[derive(Debug)]
pub(super) struct SampledRankings {
    /// Ranks of image to text, text to image.
    pub(super) ranks: [RankHistogram; 2],
    pub(super) examples: [Vec<ExampleQuery>; 2],
}

/// Example query.
#[derive(Debug, Clone)]
pub(super) struct ExampleQuery {
    pub(super) id: i64,
    /// Rank of the best match, from 1.
    pub(super) rank: i64,
    pub(super) top: Vec<(i64, f32)>,
}

/// Reads the rankings of the protocol and method of `result`, and samples `count` queries of each direction.
pub(super) fn read(cx: &mut StageContext<'_>, result: &ResultRow, count: usize, seed: u64) -> Result<SampledRankings> {
    let mut ranks = [RankHistogram::default(), RankHistogram::default()];
    let mut reservoirs = [0u64, 1].map(|direction| StratifiedReservoir::new(count, Rng::new(seed, &[direction])));
    while let Some(batch) = cx.read_next("rankings")? {
        let text = |name: &str| tables::text_column(&batch, name);
        let (protocols, directions) = (text("protocol")?, text("direction")?);
        let (query_ids, rank) = (tables::int_column(&batch, "query_id")?, tables::int_column(&batch, "rank")?);
        let list = |name: &str| {
            let column = batch.column_by_name(name).and_then(|column| column.as_list_opt::<i32>());
            column.ok_or_else(|| Error::data(format!("no column `{name}` of lists")))
        };
        let (top_ids, top_scores) = (list("top_ids")?, list("top_scores")?);
        for row in 0..batch.num_rows() {
            let direction = ["i2t", "t2i"].iter().position(|name| *name == directions.value(row));
            // A matching has no ranks.
            let is_selected = rank.is_valid(row)
                && protocols.value(row) == result.protocol
                && page_data::method_of_row(&batch, row)? == result.method;
            let Some(direction) = direction.filter(|_| is_selected) else { continue };
            ranks[direction].add(rank.value(row));
            reservoirs[direction].offer(rank.value(row), || {
                let (ids, scores) = (top_ids.value(row), top_scores.value(row));
                let ids = ids.as_primitive_opt::<Int64Type>().map(|ids| ids.values().to_vec()).unwrap_or_default();
                let scores = scores.as_primitive_opt::<Float32Type>().map(|s| s.values().to_vec()).unwrap_or_default();
                let top = ids.into_iter().zip(scores).take(SHOWN_ITEMS).collect();
                ExampleQuery { id: query_ids.value(row), rank: rank.value(row), top }
            });
        }
    }
    Ok(SampledRankings { ranks, examples: reservoirs.map(StratifiedReservoir::finish) })
}

/// Quality of a query by the rank of its best match: first, among the first ten, or later.
fn quality_of_rank(rank: i64) -> CardQuality {
    match rank {
        ..=1 => CardQuality::Good,
        2..=10 => CardQuality::Middling,
        _ => CardQuality::Bad,
    }
}

/// Stratified reservoir sample: one reservoir per grade (Vitter, "Random sampling with a reservoir", 1985).
struct StratifiedReservoir {
    count: usize,
    sample: Rng,
    /// By grade: number of queries seen, and queries kept.
    classes: [(usize, Vec<ExampleQuery>); 3],
}

impl StratifiedReservoir {
    fn new(count: usize, sample: Rng) -> Self {
        Self { count, sample, classes: Default::default() }
    }

    fn offer(&mut self, rank: i64, query: impl FnOnce() -> ExampleQuery) {
        let (seen, kept) = &mut self.classes[quality_of_rank(rank) as usize];
        *seen += 1;
        if kept.len() < self.count {
            kept.push(query());
        } else if self.count > 0 {
            let place = self.sample.uniform_below(*seen);
            if place < self.count {
                kept[place] = query();
            }
        }
    }

    /// Returns `count` queries, evenly from all grades as far as possible, ordered by rank.
    fn finish(mut self) -> Vec<ExampleQuery> {
        for (_, kept) in &mut self.classes {
            self.sample.shuffle(kept);
        }
        let mut examples = Vec::new();
        while examples.len() < self.count {
            let before = examples.len();
            for (_, kept) in &mut self.classes {
                if examples.len() < self.count {
                    examples.extend(kept.pop());
                }
            }
            if examples.len() == before {
                break;
            }
        }
        examples.sort_by_key(|query| (query.rank, query.id));
        examples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_written_as_ordinals() {
        let names: Vec<String> = [1, 2, 3, 4, 10, 11, 12, 13, 21, 22, 111, 112].map(ordinal).into();
        assert_eq!(
            names,
            ["1st", "2nd", "3rd", "4th", "10th", "11th", "12th", "13th", "21st", "22nd", "111th", "112th"]
        );
    }
}
