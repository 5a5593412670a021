//! Hits of queries at each cut-off, by protocol and method.

use std::fmt;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};

use pairloom_base::error::{Error, Result};
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Directions, in the order of [`QueryKey::direction`].
pub(super) const DIRECTIONS: [&str; 2] = ["i2t", "t2i"];

/// Key of a query in a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct QueryKey {
    pub(super) fold: i64,
    /// Index in [`DIRECTIONS`].
    pub(super) direction: usize,
    id: i64,
}

impl fmt::Display for QueryKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = ["image", "caption"][self.direction];
        write!(f, "{what} {} of fold {}", self.id, self.fold)
    }
}

/// Hits of one query.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct QueryHits {
    pub(super) query: QueryKey,
    pub(super) image: i64,
    /// For each cut-off k, true if a match is among the first k items.
    pub(super) hits: Vec<bool>,
}

/// Name of a method with its parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MethodName {
    pub(super) name: String,
    pub(super) parameters: Option<String>,
}

impl fmt::Display for MethodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.parameters {
            Some(parameters) => write!(f, "`{}` ({parameters})", self.name),
            None => write!(f, "`{}`", self.name),
        }
    }
}

/// Hits of the queries of a protocol by a method.
#[derive(Debug)]
pub(super) struct MethodHits {
    pub(super) protocol: String,
    pub(super) method: MethodName,
    /// Hits of each query once, sorted by query.
    pub(super) queries: Vec<QueryHits>,
}

/// Hits of all queries of a `rankings` table.
#[derive(Debug)]
pub(super) struct HitsTable {
    /// Cut-offs, ascending.
    pub(super) cutoffs: Vec<usize>,
    /// Hits by protocol and method, in the order of their first row.
    pub(super) methods: Vec<MethodHits>,
}

/// Reads the hits of a `rankings` table of a stage.
///
/// # Errors
/// No columns of hits, an unknown direction, or a query with two rows.
pub(super) fn read_hits(cx: &mut StageContext<'_>, input: &str) -> Result<HitsTable> {
    collect_hits(input, std::iter::from_fn(|| cx.read_next(input).transpose()))
}

/// Collects the hits of the rows of a `rankings` table, which is called `name` in messages.
///
/// # Errors
/// No columns of hits, an unknown direction, or a query with two rows.
pub(super) fn collect_hits(name: &str, batches: impl Iterator<Item = Result<RecordBatch>>) -> Result<HitsTable> {
    let mut table = HitsTable { cutoffs: Vec::new(), methods: Vec::new() };
    for batch in batches {
        table.add(name, &batch?)?;
    }
    for found in &mut table.methods {
        found.queries.sort_unstable_by_key(|hits| hits.query);
        if let Some(twice) = found.queries.windows(2).find(|pair| pair[0].query == pair[1].query) {
            let (query, MethodHits { protocol, method, .. }) = (twice[0].query, &*found);
            return Err(Error::data(format!("`{name}` has {query} twice in protocol `{protocol}`, method {method}")));
        }
    }
    Ok(table)
}

impl HitsTable {
    fn add(&mut self, table: &str, batch: &RecordBatch) -> Result<()> {
        let text = |name: &str| tables::text_column(batch, name);
        let (protocols, names, parameters) = (text("protocol")?, text("method")?, text("parameters")?);
        let directions = text("direction")?;
        let number = |name: &str| tables::int_column(batch, name);
        let (folds, ids, images) = (number("fold")?, number("query_id")?, number("image_id")?);
        self.cutoffs = tables::rankings::cutoffs(&batch.schema());
        if self.cutoffs.is_empty() {
            return Err(Error::data(format!("`{table}` has no column of hits, wanted one such as `hit_1`")));
        }
        let hits = self.cutoffs.iter().map(|&k| hit_column(batch, k)).collect::<Result<Vec<_>>>()?;
        let all = &mut self.methods;
        let mut last: Option<usize> = None;
        for row in 0..batch.num_rows() {
            let is_it = |found: &MethodHits| {
                let own = parameters.is_valid(row).then(|| parameters.value(row));
                let MethodName { name, parameters } = &found.method;
                found.protocol == protocols.value(row) && name == names.value(row) && parameters.as_deref() == own
            };
            // Rows of one method are consecutive, so nearly every row belongs to the method of the row before.
            let place = last.filter(|&last| is_it(&all[last])).or_else(|| all.iter().position(is_it));
            let place = place.unwrap_or_else(|| {
                let name = names.value(row).to_owned();
                let parameters = parameters.is_valid(row).then(|| parameters.value(row).to_owned());
                let method = MethodName { name, parameters };
                all.push(MethodHits { protocol: protocols.value(row).to_owned(), method, queries: Vec::new() });
                all.len() - 1
            });
            last = Some(place);
            let direction = directions.value(row);
            let direction = DIRECTIONS.iter().position(|name| *name == direction).ok_or_else(|| {
                Error::data(format!("`{table}` has direction `{direction}`, wanted one of {DIRECTIONS:?}"))
            })?;
            all[place].queries.push(QueryHits {
                query: QueryKey { fold: folds.value(row), direction, id: ids.value(row) },
                image: images.value(row),
                hits: hits.iter().map(|hits| hits.value(row)).collect(),
            });
        }
        Ok(())
    }
}

fn hit_column(batch: &RecordBatch, k: usize) -> Result<&BooleanArray> {
    let name = format!("hit_{k}");
    let column = batch.column_by_name(&name).and_then(|column| column.as_boolean_opt());
    column.ok_or_else(|| Error::internal(format!("no boolean column `{name}`")))
}
