//! Rows of the tables `rankings` and `hubs`.

use super::callbacks::Callbacks;
use super::collection::RetrievalTask;
use super::direction_metrics::DirectionHits;
use super::ranking::Rankings;
use pairloom_base::error::Result;
use pairloom_tables::rankings::RankingScope;
use pairloom_tables::{hubs, rankings};

/// Default number of items of every ranking in the table `rankings`.
pub const DEFAULT_RANKING_DEPTH: usize = 10;
/// Number of queries whose rows are written together.
const QUERIES: usize = 512;

/// Columns of the table `rankings` that depend on settings.
#[derive(Debug, Clone, Copy)]
pub(super) struct RankingColumns<'c> {
    /// Cut-offs of the columns `hit_K`.
    pub(super) cutoffs: &'c [usize],
    /// Number of items of each ranking.
    pub(super) depth: usize,
}

/// Writes the rankings of the queries that have a match.
pub(super) fn write_rankings(
    callbacks: &mut dyn Callbacks,
    columns: RankingColumns<'_>,
    scope: &RankingScope<'_>,
    task: &RetrievalTask<'_>,
    ranked: &Rankings,
    direction_hits: &DirectionHits,
) -> Result<()> {
    let mut rows = Vec::new();
    let mut hits = direction_hits.hits.iter().peekable();
    for (query, matches) in task.matches.iter().enumerate() {
        // A query without matches has no row.
        if let Some(hits) = hits.next_if(|_| !matches.is_empty()) {
            let top = &ranked.top[query][..columns.depth.min(ranked.top[query].len())];
            let rank = ranked.ranks.get(query).copied().flatten();
            rows.push(rankings::RankingRow {
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
            callbacks.add_rankings(rankings::batch(columns.cutoffs, scope, &rows)?)?;
            rows.clear();
        }
    }
    Ok(())
}

/// Writes Nₖ of every item at each cut-off.
pub(super) fn write_hubs(
    callbacks: &mut dyn Callbacks,
    cutoffs: &[usize],
    scope: &RankingScope<'_>,
    task: &RetrievalTask<'_>,
    counts: &[(usize, Vec<usize>)],
) -> Result<()> {
    let own = task.matches_per_item();
    let row = |(item, &item_id): (usize, &i64)| hubs::HubRow {
        item_id,
        k_occurrences: counts.iter().map(|(_, of_cutoff)| of_cutoff[item]).collect(),
        matches: own[item],
    };
    let rows: Vec<hubs::HubRow> = task.item_ids.iter().enumerate().map(row).collect();
    callbacks.add_hubs(hubs::batch(cutoffs, scope, &rows)?)
}
