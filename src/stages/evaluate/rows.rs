//! Rows of `rankings`, and columns of any rows.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;

use super::label::Label;
use super::pool::Task;
use crate::error::Result;
use crate::kernels::measure::rank::Rank;
use crate::tables;

/// Who looks for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// An image looks for captions.
    ImageToText,
    /// A caption looks for images.
    TextToImage,
}

impl Direction {
    pub(super) const BOTH: [Self; 2] = [Self::ImageToText, Self::TextToImage];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::ImageToText => "i2t",
            Self::TextToImage => "t2i",
        }
    }
}

/// Where a ranking belongs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'p> {
    pub(super) protocol: &'p str,
    pub(super) fold: usize,
    pub(super) direction: Direction,
}

/// Rows of `rankings` that are not yet written.
#[derive(Debug)]
pub(super) struct Rankings<'p> {
    place: Place<'p>,
    label: &'p Label,
    schema: SchemaRef,
    query_ids: Vec<i64>,
    image_ids: Vec<i64>,
    hits: [Vec<bool>; 3],
    ranks: [Vec<Option<i64>>; 3],
    top_ids: Vec<i64>,
    top_scores: Vec<f32>,
    top_lengths: Vec<usize>,
}

impl<'p> Rankings<'p> {
    pub(super) fn new(place: Place<'p>, label: &'p Label) -> Self {
        Self {
            place,
            label,
            schema: tables::rankings::table().schema(),
            query_ids: Vec::new(),
            image_ids: Vec::new(),
            hits: Default::default(),
            ranks: Default::default(),
            top_ids: Vec::new(),
            top_scores: Vec::new(),
            top_lengths: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.query_ids.len()
    }

    /// A query: itself and its image, whether it has a match among the first at each of
    /// [`CUTOFFS`](crate::kernels::measure::recall::CUTOFFS), the place of the best one, and the best items.
    pub(super) fn push(
        &mut self,
        [query_id, image_id]: [i64; 2],
        hits: [bool; 3],
        rank: Option<Rank>,
        top: impl Iterator<Item = (i64, f32)>,
    ) {
        self.query_ids.push(query_id);
        self.image_ids.push(image_id);
        self.hits.iter_mut().zip(hits).for_each(|(hits, hit)| hits.push(hit));
        let three = |rank: Rank| [rank.rank, rank.optimistic, rank.pessimistic].map(|rank| Some(int(rank)));
        for (ranks, rank) in self.ranks.iter_mut().zip(rank.map_or([None; 3], three)) {
            ranks.push(rank);
        }
        let before = self.top_ids.len();
        for (id, score) in top {
            self.top_ids.push(id);
            self.top_scores.push(score);
        }
        self.top_lengths.push(self.top_ids.len() - before);
    }

    /// The rows so far, which are then forgotten.
    pub(super) fn take(&mut self) -> Result<RecordBatch> {
        let Place { protocol, fold, direction } = self.place;
        let rows = self.len();
        let schema = Arc::clone(&self.schema);
        let lengths = std::mem::take(&mut self.top_lengths);
        let list = |name, values| tables::list(&schema, name, lengths.iter().copied(), values);
        let top_ids = list("top_ids", Arc::new(Int64Array::from(std::mem::take(&mut self.top_ids))))?;
        let top_scores = list("top_scores", Arc::new(Float32Array::from(std::mem::take(&mut self.top_scores))))?;
        let [rank, optimistic, pessimistic] = std::mem::take(&mut self.ranks);
        let [method, parameters] = self.label.columns(rows);
        let [hit_1, hit_5, hit_10] = std::mem::take(&mut self.hits).map(|hits| Arc::new(BooleanArray::from(hits)));
        tables::batch(
            &schema,
            vec![
                repeat(protocol, rows),
                Arc::new(Int64Array::from_value(int(fold), rows)),
                method,
                parameters,
                repeat(direction.name(), rows),
                Arc::new(Int64Array::from(std::mem::take(&mut self.query_ids))),
                Arc::new(Int64Array::from(std::mem::take(&mut self.image_ids))),
                hit_1,
                hit_5,
                hit_10,
                Arc::new(Int64Array::from(rank)),
                Arc::new(Int64Array::from(optimistic)),
                Arc::new(Int64Array::from(pessimistic)),
                top_ids,
                top_scores,
            ],
        )
    }
}

/// Rows of `hubs`.
pub(super) struct Hubs<'h> {
    pub(super) place: Place<'h>,
    pub(super) label: &'h Label,
}

impl Hubs<'_> {
    /// One row an item, of its N₁, N₅ and N₁₀.
    pub(super) fn rows(&self, task: &Task<'_>, counts: &[Vec<usize>; 3]) -> Result<RecordBatch> {
        let Place { protocol, fold, direction } = self.place;
        let items = task.items.0;
        let mut own = vec![0; items.len()];
        task.matches.iter().flat_map(Range::clone).for_each(|item| own[item] += 1);
        let [method, parameters] = self.label.columns(items.len());
        let [n1, n5, n10] = counts;
        let count = |counts: &[usize]| ints(counts, |&count| count);
        tables::batch(
            &tables::hubs::table().schema(),
            vec![
                repeat(protocol, items.len()),
                Arc::new(Int64Array::from_value(int(fold), items.len())),
                method,
                parameters,
                repeat(direction.name(), items.len()),
                Arc::new(Int64Array::from_iter_values(items.iter().copied())),
                count(n1),
                count(n5),
                count(n10),
                count(&own),
            ],
        )
    }
}

pub(super) fn repeat(text: &str, rows: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows)))
}

pub(super) fn texts<'r, R>(rows: &'r [R], get: impl Fn(&'r R) -> &'r str) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(get)))
}

pub(super) fn ints<R>(rows: &[R], get: impl Fn(&R) -> usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| int(get(row)))))
}

pub(super) fn floats<R>(rows: &[R], get: impl Fn(&R) -> f64) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(rows.iter().map(get)))
}

/// Counts and places are far below 2⁶³.
pub(super) fn int(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
