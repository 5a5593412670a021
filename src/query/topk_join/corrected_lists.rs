//! Nearest items of each query by scores that a method against hubs corrects.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::error::{DataFusionError, Result};

use super::block_items::BlockItems;
use super::named_vectors::NamedVectors;
use super::nearest_lists::{NearItem, NearestLists, StopOnDrop};
use crate::vectors::VectorMeasure;
use pairloom_base::error::Error;
use pairloom_retrieval::{Method, rank_items};

/// Lists of the `k` best items of each query by corrected cosines. All queries and items are there at once: methods
/// learn from their scores, or from those of the `banks`: other queries, and other items. A vector of 0 has no cosine, so such an item is in no list.
///
/// # Errors
/// As [`NearestLists::new`]; an item of another width or with a value that is not finite; those of the method; the query
/// was interrupted.
pub(super) async fn corrected_lists(
    method: Method,
    k: usize,
    queries: NamedVectors,
    items: NamedVectors,
    banks: Vec<NamedVectors>,
    threads: usize,
) -> Result<Vec<Vec<NearItem>>> {
    let stop = StopOnDrop::default();
    let stopped = Arc::clone(&stop.0);
    let ranked = tokio::task::spawn_blocking(move || {
        let queries = NearestLists::new(VectorMeasure::CosineSimilarity, k, queries, threads)?;
        let items = BlockItems::new(VectorMeasure::CosineSimilarity, queries.width(), &items, threads)?;
        if queries.is_empty() || items.rows.is_empty() {
            return Ok(queries.into_lists());
        }
        let mut progress = |_: u64, _: u64| {
            if stopped.load(Ordering::Relaxed) { Err(Error::interrupted()) } else { Ok(()) }
        };
        let vectors = [queries.packed(), &items.packed];
        let packed =
            |bank| Ok(BlockItems::new(VectorMeasure::CosineSimilarity, queries.width(), bank, threads)?.packed);
        let banks = banks.iter().map(packed).collect::<Result<Vec<Vec<f32>>>>()?;
        let banks: Vec<&[f32]> = banks.iter().map(Vec::as_slice).collect();
        let ranked = rank_items(&method, vectors, &banks, queries.width(), k, threads, &mut progress);
        let near = |found: &pairloom_kernels::top_k::ScoredItem| NearItem {
            value: f64::from(found.score),
            item: items.rows[found.item] as u64,
        };
        let ranked = ranked.map_err(|error| DataFusionError::External(Box::new(error)))?;
        Ok(ranked.iter().map(|list| list.iter().map(near).collect()).collect())
    });
    ranked.await.map_err(|error| DataFusionError::External(Box::new(error)))?
}
