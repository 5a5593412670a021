//! Rows of `rankings` and `hubs`.

use super::callbacks::Callbacks;
use super::collection::Task;
use super::measure::Found;
use super::ranking::Rankings;
use crate::error::Result;
use crate::tables::rankings::Subject;
use crate::tables::{hubs, rankings};

/// Items of every ranking that `rankings` keeps.
pub(super) const TOP: usize = 10;
/// Queries whose rankings are written together.
const QUERIES: usize = 512;

/// Writes what the queries that have a match found.
pub(super) fn write_rankings(
    callbacks: &mut dyn Callbacks,
    cutoffs: &[usize],
    subject: &Subject<'_>,
    task: &Task<'_>,
    ranked: &Rankings,
    found: &Found,
) -> Result<()> {
    let mut rows = Vec::new();
    let mut hits = found.hits.iter().peekable();
    for (query, matches) in task.matches.iter().enumerate() {
        // An image without captions asks for nothing.
        if let Some(hits) = hits.next_if(|_| !matches.is_empty()) {
            let top = &ranked.top[query][..TOP.min(ranked.top[query].len())];
            let rank = ranked.ranks.get(query).copied().flatten();
            rows.push(rankings::Row {
                query_id: task.query_ids[query],
                image_id: task.image_ids[task.image_of[query]],
                hits: hits.clone(),
                rank: rank.map(|rank| rank.rank),
                rank_optimistic: rank.map(|rank| rank.optimistic),
                rank_pessimistic: rank.map(|rank| rank.pessimistic),
                top_ids: top.iter().map(|best| task.item_ids[best.item]).collect(),
                top_scores: top.iter().map(|best| best.score).collect(),
            });
        }
        if rows.len() == QUERIES || query + 1 == task.query_ids.len() {
            callbacks.rankings(rankings::rows(cutoffs, subject, &rows)?)?;
            rows.clear();
        }
    }
    Ok(())
}

/// Writes Nₖ of every item at each cut-off.
pub(super) fn write_hubs(
    callbacks: &mut dyn Callbacks,
    cutoffs: &[usize],
    subject: &Subject<'_>,
    task: &Task<'_>,
    counts: &[(usize, Vec<usize>)],
) -> Result<()> {
    let own = task.own();
    let row = |(item, &item_id): (usize, &i64)| hubs::Row {
        item_id,
        found: counts.iter().map(|(_, of_cutoff)| of_cutoff[item]).collect(),
        own: own[item],
    };
    let rows: Vec<hubs::Row> = task.item_ids.iter().enumerate().map(row).collect();
    callbacks.hubs(hubs::rows(cutoffs, subject, &rows)?)
}
