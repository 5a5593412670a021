//! Nearest items of each query, found block by block; or by scores that a method against hubs corrects.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, BooleanArray, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalSortExpr;

use super::block_items::NamedVectors;
use super::block_items::{BlockItems, check_width, write_scaled};
use crate::vectors::VectorMeasure;
use pairloom_base::error::Error;
use pairloom_kernels::distance::{VectorValues, l2_norm};
use pairloom_retrieval::{Method, rank_items};
use pairloom_search::{ScoreFunction, Search, SearchRequest, VectorMatrix, parallel_ranges};

/// Candidates of a block beyond the k best, so that roundings seldom need a second search.
const SPARE_CANDIDATES: usize = 16;

/// Memory of a candidate: the item of the search and its score, the pair, the measure, and the place in a list.
const BYTES_OF_CANDIDATE: usize = 16 + 8 + 16 + 16 + 16;

/// Pairs of a query and an item that are measured at a time.
const MAX_PAIRS: usize = 1 << 20;

/// An item in the list of a query.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct NearItem {
    /// The measure, in f64.
    pub value: f64,
    /// Index of the item among all items.
    pub item: u64,
}

/// Ends the work on another thread when the query is dropped.
#[derive(Default)]
pub(super) struct StopOnDrop(pub Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Decides which pairs of a query and an item of a block may be in a list.
pub(super) type AcceptPairs<'a> = dyn Fn(&[(usize, usize)]) -> Result<BooleanArray> + 'a;

/// Lists of the k nearest items of each query.
///
/// A block of items is searched with products in f32 or less, with a bound on their error ([`pairloom_search`]). The
/// measures of the candidates are computed in f64, and candidates are added until no other item of the block can be
/// nearer. So the lists are those of a sort by the measure in f64. Of equal measures the earlier item comes first,
/// unless the items have keys.
pub(super) struct NearestLists {
    measure: VectorMeasure,
    k: usize,
    /// Queries; each has a measure.
    queries: NamedVectors,
    norms: Vec<f64>,
    /// Queries of the search in f32, row-major, scaled to unit length for cosines; empty if there is no search.
    packed: Vec<f32>,
    width: usize,
    lists: Vec<Vec<NearItem>>,
    /// Order of the items of the next block among equal measures; without it the earlier item comes first.
    block_keys: Option<Rows>,
    /// The same of the items in the lists.
    keys: HashMap<u64, Box<[u8]>>,
    threads: usize,
    /// True when the query has ended.
    stop: Arc<AtomicBool>,
}

impl NearestLists {
    /// Lists for the rows of `queries`, without any item.
    ///
    /// # Errors
    /// A vector of another width or with a value that is not finite; a row without a measure.
    pub(super) fn new(measure: VectorMeasure, k: usize, queries: NamedVectors, threads: usize) -> Result<Self> {
        let width = (0..queries.len()).find_map(|row| queries.get(row)).map_or(0, VectorValues::len);
        // Before there is space for as many values of each.
        for row in 0..queries.len() {
            check_width(width, queries.get(row).map_or(width, VectorValues::len))?;
        }
        let mut norms = Vec::with_capacity(queries.len());
        let mut packed = vec![0.0; queries.len() * width];
        for row in 0..queries.len() {
            let Some(vector) = queries.get(row) else { return internal_err!("row {row} of the queries has no vector") };
            let norm = l2_norm(vector);
            if !norm.is_finite() {
                return Err(queries.not_finite(row));
            }
            if norm == 0.0 && measure.is_cosine() {
                return internal_err!("the vector in row {row} of the queries is 0");
            }
            write_scaled(&mut packed[row * width..][..width], vector, if measure.is_cosine() { norm } else { 1.0 });
            norms.push(norm);
        }
        if norms.contains(&0.0) {
            // The search takes no vectors of 0, so all items are candidates.
            packed.clear();
        }
        let lists = vec![Vec::new(); queries.len()];
        let (block_keys, keys, stop) = (None, HashMap::new(), Arc::default());
        Ok(Self { measure, k, queries, norms, packed, width, lists, block_keys, keys, threads, stop })
    }

    /// Adds a block of items, the first of which is item `first`. Without `accept`, any pair may be in a list.
    ///
    /// # Errors
    /// A vector of another width or with a value that is not finite. The first error of `accept`.
    pub(super) fn add(&mut self, block: &NamedVectors, first: u64, accept: Option<&AcceptPairs<'_>>) -> Result<()> {
        let items = BlockItems::new(self.measure, self.width, block, self.threads)?;
        let queries: Vec<usize> = (0..self.queries.len()).collect();
        for some in queries.chunks(self.queries_at_once(&items)) {
            self.check_stop().map_err(|error| DataFusionError::External(Box::new(error)))?;
            self.add_for(some.to_vec(), &items, block, first, accept)?;
        }
        if self.block_keys.take().is_some() {
            let used: HashSet<u64> = self.lists.iter().flatten().map(|near| near.item).collect();
            self.keys.retain(|item, _| used.contains(item));
        }
        Ok(())
    }

    /// Orders items of the next block with equal measures by keys, one for each row, and then by their places.
    pub(super) fn order_ties_by(&mut self, keys: Rows) {
        self.block_keys = Some(keys);
    }

    /// Number of queries that are searched together: all, unless all items are candidates of each.
    fn queries_at_once(&self, items: &BlockItems) -> usize {
        let all_are_candidates = items.packed.is_empty()
            || self.packed.is_empty()
            || self.k.saturating_add(SPARE_CANDIDATES) >= items.rows.len();
        let all = self.queries.len().max(1);
        if all_are_candidates { (MAX_PAIRS / items.rows.len().max(1)).clamp(1, all) } else { all }
    }

    /// As [`Self::add`], for some queries.
    fn add_for(
        &mut self,
        mut pending: Vec<usize>,
        items: &BlockItems,
        block: &NamedVectors,
        first: u64,
        accept: Option<&AcceptPairs<'_>>,
    ) -> Result<()> {
        let mut wanted = self.k.saturating_add(SPARE_CANDIDATES);
        while !pending.is_empty() && !items.rows.is_empty() {
            let candidates = self.candidates(items, &pending, wanted)?;
            let of_query = |(&query, found): (&usize, &Candidates)| -> Vec<(usize, usize)> {
                found.rows.iter().map(|&row| (query, row)).collect()
            };
            let pairs = || pending.iter().zip(&candidates).flat_map(of_query).collect::<Vec<_>>();
            let accepted = accept.map(|accept| accept(&pairs())).transpose()?;
            let is_accepted = |pair| accepted.as_ref().is_none_or(|all| all.is_valid(pair) && all.value(pair));
            let values = parallel_ranges(self.threads, pending.len(), |part| {
                let mut values = Vec::new();
                for (&query, found) in pending[part.clone()].iter().zip(&candidates[part]) {
                    values.extend(found.rows.iter().map(|&row| self.value(query, block, row)));
                }
                values
            });
            let mut values = values.iter().flatten();
            let (mut pair, mut unfinished) = (0, Vec::new());
            for (&query, found) in pending.iter().zip(&candidates) {
                for (&row, value) in found.rows.iter().zip(values.by_ref()) {
                    if let Some(value) = *value
                        && is_accepted(pair)
                    {
                        self.offer(query, NearItem { value, item: first + row as u64 }, row);
                    }
                    pair += 1;
                }
                if !self.is_complete(query, found) {
                    // The next search finds the same items again, which are in the list already, and more.
                    unfinished.push(query);
                }
            }
            pending = unfinished;
            wanted = wanted.saturating_mul(4);
        }
        Ok(())
    }

    /// Ends searches when `stop` is true.
    pub(super) fn stop_with(self, stop: Arc<AtomicBool>) -> Self {
        Self { stop, ..self }
    }

    fn check_stop(&self) -> pairloom_base::error::Result<()> {
        if self.stop.load(Ordering::Relaxed) { Err(Error::interrupted()) } else { Ok(()) }
    }

    /// Width of the vectors; 0 without queries.
    pub(super) fn width(&self) -> usize {
        self.width
    }

    /// True if there are no queries.
    pub(super) fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Queries in f32, row-major, of unit length for cosines.
    pub(super) fn packed(&self) -> &[f32] {
        &self.packed
    }

    /// As [`Self::lists`].
    pub(super) fn into_lists(self) -> Vec<Vec<NearItem>> {
        self.lists
    }

    /// Memory of the lists in bytes.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(self.packed.as_slice()) + self.lists.iter().map(|list| size_of_val(list.as_slice())).sum::<usize>()
    }

    /// Memory in bytes that a block of so many items takes while it is added: the candidates of all queries, their pairs
    /// and measures, and the places of the lists that they fill.
    pub(super) fn bytes_of_block(&self, items: usize) -> usize {
        let candidates = self.k.saturating_add(SPARE_CANDIDATES).min(items);
        self.lists.len().saturating_mul(candidates).saturating_mul(BYTES_OF_CANDIDATE)
    }

    /// Lists of all queries, the nearest item first.
    pub(super) fn lists(&self) -> &[Vec<NearItem>] {
        &self.lists
    }

    /// Best `wanted` items of a block for some queries, by approximate keys.
    fn candidates(&self, items: &BlockItems, queries: &[usize], wanted: usize) -> Result<Vec<Candidates>> {
        if items.packed.is_empty() || self.packed.is_empty() || wanted >= items.rows.len() {
            let all = || Candidates { rows: items.rows.clone(), bound_of_others: f64::NEG_INFINITY };
            return Ok(queries.iter().map(|_| all()).collect());
        }
        let own: Vec<f32>;
        let rows = if queries.len() == self.queries.len() {
            &self.packed
        } else {
            let of = |&query: &usize| self.packed[query * self.width..][..self.width].iter().copied();
            own = queries.iter().flat_map(of).collect();
            &own
        };
        let external = |error: Error| DataFusionError::External(Box::new(error));
        let (rows, columns) = (
            VectorMatrix::with_threads("queries", rows, self.width, self.threads).map_err(external)?,
            VectorMatrix::with_threads("items", &items.packed, self.width, self.threads).map_err(external)?,
        );
        let search = Search::from_vectors(&rows, &columns, ScoreFunction::Product, self.threads).map_err(external)?;
        let request = SearchRequest { k: wanted, item_shifts: &items.shifts, ..SearchRequest::default() };
        let mut progress = |_: u64, _: u64| self.check_stop();
        let [found, _] = search.find(&request, &SearchRequest::default(), &mut progress).map_err(external)?;
        let lists = found.top.into_iter().zip(queries).map(|(top, &query)| {
            let last = top.last().map_or(f64::NEG_INFINITY, |last| f64::from(last.score));
            let norm = if self.measure.is_cosine() { 1.0 } else { self.norms[query] };
            let rows = top.iter().map(|found| items.rows[found.item]).collect();
            Candidates { rows, bound_of_others: last + items.key_error(norm) }
        });
        Ok(lists.collect())
    }

    /// Measure of a query and a row of a block.
    fn value(&self, query: usize, block: &NamedVectors, row: usize) -> Option<f64> {
        self.measure.of(self.queries.get(query)?, Some(self.norms[query]), block.get(row)?)
    }

    /// Puts an item, the row `row` of the block, into the list of a query, if it is near enough.
    fn offer(&mut self, query: usize, new: NearItem, row: usize) {
        let nearness = |near: &NearItem| if self.measure.is_similarity() { -near.value } else { near.value };
        let list = &mut self.lists[query];
        let key = self.block_keys.as_ref().map(|keys| keys.row(row));
        // Without keys all are equal.
        let key = key.as_ref().map_or(&[][..], AsRef::as_ref);
        let key_of = |near: &NearItem| self.keys.get(&near.item).map_or(&[][..], AsRef::as_ref);
        let order = |near: &NearItem| {
            let by_measure = nearness(near).total_cmp(&nearness(&new));
            by_measure.then_with(|| key_of(near).cmp(key)).then(near.item.cmp(&new.item))
        };
        if let Err(place) = list.binary_search_by(order)
            && place < self.k
        {
            if !key.is_empty() {
                self.keys.insert(new.item, key.into());
            }
            list.insert(place, new);
            list.truncate(self.k);
        }
    }

    /// True if no item of a block other than the candidates can belong to the list of a query.
    fn is_complete(&self, query: usize, found: &Candidates) -> bool {
        let list = &self.lists[query];
        if found.bound_of_others == f64::NEG_INFINITY {
            return true;
        }
        let Some(last) = list.last().filter(|_| list.len() == self.k) else { return false };
        let norm = self.norms[query];
        // The key of the search that belongs to the measure.
        let key = match self.measure {
            VectorMeasure::CosineDistance => 1.0 - last.value,
            VectorMeasure::CosineSimilarity | VectorMeasure::InnerProduct => last.value,
            VectorMeasure::NegativeInnerProduct => -last.value,
            VectorMeasure::L2Distance => (norm * norm - last.value * last.value) / 2.0,
            VectorMeasure::L1Distance => f64::INFINITY,
        };
        key > found.bound_of_others
    }
}

/// Candidates of a block for a query.
struct Candidates {
    /// Rows of the block, the best first.
    rows: Vec<usize>,
    /// Upper bound of the keys of all other items of the block.
    bound_of_others: f64,
}

/// Keys of items, whose bytes have the order of the terms after the measure.
pub(super) struct TieKeys {
    /// One for all blocks: only its own keys compare.
    converter: RowConverter,
}

impl TieKeys {
    /// Keys of rows of a schema; `None` without terms.
    ///
    /// # Errors
    /// A term has a type without an order.
    pub(super) fn new(terms: &[PhysicalSortExpr], schema: &SchemaRef) -> Result<Option<Self>> {
        if terms.is_empty() {
            return Ok(None);
        }
        let field =
            |term: &PhysicalSortExpr| Ok(SortField::new_with_options(term.expr.data_type(schema)?, term.options));
        let fields = terms.iter().map(field).collect::<Result<Vec<_>>>()?;
        Ok(Some(Self { converter: RowConverter::new(fields)? }))
    }

    /// Keys of the rows of a block.
    pub(super) fn of_block(&mut self, terms: &[PhysicalSortExpr], block: &RecordBatch) -> Result<Rows> {
        let value = |term: &PhysicalSortExpr| term.expr.evaluate(block)?.into_array(block.num_rows());
        Ok(self.converter.convert_columns(&terms.iter().map(value).collect::<Result<Vec<_>>>()?)?)
    }
}

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
