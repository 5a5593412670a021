//! What queries found, by protocol and method.

use std::fmt;

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};

use crate::error::{Error, Result};
use crate::stage::Cx;
use crate::tables;

/// Directions, in the order of [`Query::direction`].
pub(super) const DIRECTIONS: [&str; 2] = ["i2t", "t2i"];

/// A query of a protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Query {
    pub(super) fold: i64,
    /// In [`DIRECTIONS`].
    pub(super) direction: usize,
    id: i64,
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = ["image", "caption"][self.direction];
        write!(f, "{what} {} of fold {}", self.id, self.fold)
    }
}

/// What one query found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Hits {
    pub(super) query: Query,
    pub(super) image: i64,
    /// True at each cut-off where a match is among the first.
    pub(super) hits: Vec<bool>,
}

/// A method with its free numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Method {
    pub(super) name: String,
    pub(super) parameters: Option<String>,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.parameters {
            Some(parameters) => write!(f, "`{}` ({parameters})", self.name),
            None => write!(f, "`{}`", self.name),
        }
    }
}

/// What the queries of a protocol found by a method.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) protocol: String,
    pub(super) method: Method,
    /// By query, each once.
    pub(super) queries: Vec<Hits>,
}

/// Hits of all queries of a table.
#[derive(Debug)]
pub(super) struct Ranked {
    /// Cut-offs, ascending.
    pub(super) cutoffs: Vec<usize>,
    /// In the order in which protocols and methods first stand there.
    pub(super) found: Vec<Found>,
}

/// All of a table.
///
/// # Errors
/// No columns of hits, a direction that is none, or a query that stands there twice.
pub(super) fn read(cx: &mut Cx<'_>, input: &str) -> Result<Ranked> {
    let mut all: Vec<Found> = Vec::new();
    let mut cutoffs = Vec::new();
    while let Some(batch) = cx.next(input)? {
        let text = |name: &str| tables::texts(&batch, name);
        let (protocols, names, parameters) = (text("protocol")?, text("method")?, text("parameters")?);
        let directions = text("direction")?;
        let number = |name: &str| tables::ids(&batch, name);
        let (folds, ids, images) = (number("fold")?, number("query_id")?, number("image_id")?);
        cutoffs = tables::rankings::cutoffs(&batch.schema());
        if cutoffs.is_empty() {
            return Err(Error::data(format!("`{input}` has no column of hits, wanted one such as `hit_1`")));
        }
        let hits = cutoffs.iter().map(|&k| hits(&batch, k)).collect::<Result<Vec<_>>>()?;
        let mut last: Option<usize> = None;
        for row in 0..batch.num_rows() {
            let is_it = |found: &Found| {
                let own = parameters.is_valid(row).then(|| parameters.value(row));
                let Method { name, parameters } = &found.method;
                found.protocol == protocols.value(row) && name == names.value(row) && parameters.as_deref() == own
            };
            // Rows of one method stand together, so that the last one is nearly always it.
            let place = last.filter(|&last| is_it(&all[last])).or_else(|| all.iter().position(is_it));
            let place = place.unwrap_or_else(|| {
                let name = names.value(row).to_owned();
                let parameters = parameters.is_valid(row).then(|| parameters.value(row).to_owned());
                let method = Method { name, parameters };
                all.push(Found { protocol: protocols.value(row).to_owned(), method, queries: Vec::new() });
                all.len() - 1
            });
            last = Some(place);
            let direction = directions.value(row);
            let direction = DIRECTIONS.iter().position(|name| *name == direction).ok_or_else(|| {
                Error::data(format!("`{input}` has direction `{direction}`, wanted one of {DIRECTIONS:?}"))
            })?;
            all[place].queries.push(Hits {
                query: Query { fold: folds.value(row), direction, id: ids.value(row) },
                image: images.value(row),
                hits: hits.iter().map(|hits| hits.value(row)).collect(),
            });
        }
    }
    for found in &mut all {
        found.queries.sort_unstable_by_key(|hits| hits.query);
        if let Some(twice) = found.queries.windows(2).find(|pair| pair[0].query == pair[1].query) {
            let (query, Found { protocol, method, .. }) = (twice[0].query, &*found);
            return Err(Error::data(format!("`{input}` has {query} twice in protocol `{protocol}`, method {method}")));
        }
    }
    Ok(Ranked { cutoffs, found: all })
}

fn hits(batch: &RecordBatch, k: usize) -> Result<&BooleanArray> {
    let name = format!("hit_{k}");
    let column = batch.column_by_name(&name).and_then(|column| column.as_boolean_opt());
    column.ok_or_else(|| Error::internal(format!("no column `{name}` of yes and no")))
}
