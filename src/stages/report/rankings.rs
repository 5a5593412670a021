//! Queries that stand for many: drawn evenly from the good, the middling and the bad.

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float32Type, Int64Type};

use super::card::Grade;
use super::elements::ResultRow;
use super::ranks::Ranks;
use super::read;
use crate::error::{Error, Result};
use crate::kernels::sample::Sample;
use crate::stage::Cx;
use crate::tables;

/// Items shown of what a query found.
const SHOWN: usize = 5;

/// The counts of all ranks, and some queries whole.
#[derive(Debug)]
pub(super) struct Rankings {
    /// Ranks of image to text, text to image.
    pub(super) ranks: [Ranks; 2],
    pub(super) picked: [Vec<Query>; 2],
}

/// A query of the rankings.
#[derive(Debug, Clone)]
pub(super) struct Query {
    pub(super) id: i64,
    /// Place of the best match, from 0.
    pub(super) rank: i64,
    pub(super) top: Vec<(i64, f32)>,
}

/// Reads the rankings of a row of the results once, and keeps `count` queries of each direction.
///
/// # Errors
/// A column is missing.
pub(super) fn read(cx: &mut Cx<'_>, of: &ResultRow, count: usize, seed: u64) -> Result<Rankings> {
    let mut ranks = [Ranks::default(), Ranks::default()];
    let mut drawers = [0u64, 1].map(|direction| Drawer::new(count, Sample::new(seed, &[direction])));
    while let Some(batch) = cx.next("rankings")? {
        let text = |name: &str| tables::texts(&batch, name);
        let (protocols, directions) = (text("protocol")?, text("direction")?);
        let (query_ids, rank) = (tables::ids(&batch, "query_id")?, tables::ids(&batch, "rank")?);
        let list = |name: &str| {
            let column = batch.column_by_name(name).and_then(|column| column.as_list_opt::<i32>());
            column.ok_or_else(|| Error::data(format!("no column `{name}` of lists")))
        };
        let (top_ids, top_scores) = (list("top_ids")?, list("top_scores")?);
        for row in 0..batch.num_rows() {
            let direction = ["i2t", "t2i"].iter().position(|name| *name == directions.value(row));
            // A matching has no ranks.
            let meant =
                rank.is_valid(row) && protocols.value(row) == of.protocol && read::method(&batch, row)? == of.method;
            let Some(direction) = direction.filter(|_| meant) else { continue };
            ranks[direction].add(rank.value(row));
            drawers[direction].offer(rank.value(row), || {
                let (ids, scores) = (top_ids.value(row), top_scores.value(row));
                let ids = ids.as_primitive_opt::<Int64Type>().map(|ids| ids.values().to_vec()).unwrap_or_default();
                let scores = scores.as_primitive_opt::<Float32Type>().map(|s| s.values().to_vec()).unwrap_or_default();
                let top = ids.into_iter().zip(scores).take(SHOWN).collect();
                Query { id: query_ids.value(row), rank: rank.value(row), top }
            });
        }
    }
    Ok(Rankings { ranks, picked: drawers.map(Drawer::finish) })
}

/// The class of a query: found at once, found among the first ten, not found.
pub(super) fn grade(rank: i64) -> Grade {
    match rank {
        ..=0 => Grade::Good,
        1..=9 => Grade::Middling,
        _ => Grade::Bad,
    }
}

/// Draws queries while they pass: of each class of ranks a sample (Vitter, "Random sampling with a reservoir", 1985).
struct Drawer {
    count: usize,
    sample: Sample,
    /// Per class: queries seen, and those kept.
    classes: [(usize, Vec<Query>); 3],
}

impl Drawer {
    fn new(count: usize, sample: Sample) -> Self {
        Self { count, sample, classes: Default::default() }
    }

    fn offer(&mut self, rank: i64, query: impl FnOnce() -> Query) {
        let (seen, kept) = &mut self.classes[grade(rank) as usize];
        *seen += 1;
        if kept.len() < self.count {
            kept.push(query());
        } else if self.count > 0 {
            let place = self.sample.below(*seen);
            if place < self.count {
                kept[place] = query();
            }
        }
    }

    /// The same number of each class, as far as there are that many; the best first.
    fn finish(mut self) -> Vec<Query> {
        for (_, kept) in &mut self.classes {
            self.sample.shuffle(kept);
        }
        let mut picked = Vec::new();
        while picked.len() < self.count {
            let before = picked.len();
            for (_, kept) in &mut self.classes {
                if picked.len() < self.count {
                    picked.extend(kept.pop());
                }
            }
            if picked.len() == before {
                break;
            }
        }
        picked.sort_by_key(|query| (query.rank, query.id));
        picked
    }
}
