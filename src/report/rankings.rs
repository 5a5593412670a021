//! Sample of example queries, stratified by the rank of their best match.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float32Type, Int64Type};

use super::card::CardQuality;
use super::page_data::ResultRow;
use super::ranks::RankHistogram;
use super::read;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::random::Rng;
use pairloom_stage::StageContext;
use pairloom_tables as tables;

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
    /// Rank of the best match, from 0.
    pub(super) rank: i64,
    pub(super) top: Vec<(i64, f32)>,
}

/// Reads the rankings of the protocol and method of `result`, and samples `count` queries of each direction.
///
/// # Errors
/// A column is missing.
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
                && read::method(&batch, row)? == result.method;
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
pub(super) fn quality_of_rank(rank: i64) -> CardQuality {
    match rank {
        ..=0 => CardQuality::Good,
        1..=9 => CardQuality::Middling,
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
