//! Rows of `rankings`, `metrics` and `summary`.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int64Array, ListArray, RecordBatch, StringArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, SchemaRef};

use crate::error::{Error, Result};
use crate::kernels::measure::interval::wilson_95;
use crate::kernels::measure::rank::Rank;
use crate::kernels::measure::recall::{CUTOFFS, Retrieval, rsum};
use crate::tables;

/// The nearest neighbour, the one method of this stage.
const METHOD: &str = "nns";

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

    fn name(self) -> &'static str {
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
    schema: SchemaRef,
    query_ids: Vec<i64>,
    ranks: [Vec<i64>; 3],
    top_ids: Vec<i64>,
    top_scores: Vec<f32>,
    top_lengths: Vec<usize>,
}

impl<'p> Rankings<'p> {
    pub(super) fn new(place: Place<'p>) -> Self {
        Self {
            place,
            schema: tables::rankings::table().schema(),
            query_ids: Vec::new(),
            ranks: Default::default(),
            top_ids: Vec::new(),
            top_scores: Vec::new(),
            top_lengths: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.query_ids.len()
    }

    pub(super) fn push(&mut self, query_id: i64, rank: Rank, top: impl Iterator<Item = (i64, f32)>) {
        self.query_ids.push(query_id);
        for (ranks, rank) in self.ranks.iter_mut().zip([rank.rank, rank.optimistic, rank.pessimistic]) {
            ranks.push(int(rank));
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
        let list = |name: &str, values: ArrayRef| -> Result<ArrayRef> {
            let DataType::List(item) = schema.field_with_name(name)?.data_type() else {
                return Err(Error::internal(format!("column `{name}` of `rankings` is a list")));
            };
            let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, None)?))
        };
        let top_ids = list("top_ids", Arc::new(Int64Array::from(std::mem::take(&mut self.top_ids))))?;
        let top_scores = list("top_scores", Arc::new(Float32Array::from(std::mem::take(&mut self.top_scores))))?;
        let [rank, optimistic, pessimistic] = std::mem::take(&mut self.ranks);
        tables::batch(
            &schema,
            vec![
                repeat(protocol, rows),
                Arc::new(Int64Array::from_value(int(fold), rows)),
                repeat(METHOD, rows),
                repeat(direction.name(), rows),
                Arc::new(Int64Array::from(std::mem::take(&mut self.query_ids))),
                Arc::new(Int64Array::from(rank)),
                Arc::new(Int64Array::from(optimistic)),
                Arc::new(Int64Array::from(pessimistic)),
                top_ids,
                top_scores,
            ],
        )
    }
}

/// What one direction of one fold gave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) retrieval: Retrieval,
    pub(super) n_queries: usize,
    pub(super) n_items: usize,
}

/// Results of all protocols.
#[derive(Debug, Default)]
pub(super) struct Results {
    metrics: Vec<Metric>,
    summaries: Vec<Summary>,
}

#[derive(Debug)]
struct Metric {
    protocol: String,
    folds: usize,
    direction: &'static str,
    measure: &'static str,
    k: Option<usize>,
    value: f64,
    interval: Option<(f64, f64)>,
    n_queries: usize,
    n_items: usize,
}

#[derive(Debug)]
struct Summary {
    protocol: String,
    n_images: usize,
    n_captions: usize,
    i2t: Retrieval,
    t2i: Retrieval,
}

impl Results {
    /// Adds a protocol: what its folds gave, image to text and text to image.
    ///
    /// Every statistic is the mean over the folds. Pool sizes are those of the first fold.
    pub(super) fn add(&mut self, protocol: &str, [i2t, t2i]: [Vec<Measured>; 2]) -> Result<()> {
        let mut means = Vec::new();
        for (direction, folds) in Direction::BOTH.into_iter().zip([&i2t, &t2i]) {
            let retrievals: Vec<Retrieval> = folds.iter().map(|fold| fold.retrieval).collect();
            let (Some(mean), Some(first)) = (Retrieval::mean(&retrievals), folds.first()) else {
                return Err(Error::internal(format!("protocol `{protocol}` has no folds")));
            };
            let queries = folds.iter().map(|fold| fold.n_queries).sum();
            let metric = |measure, k, value, interval| Metric {
                protocol: protocol.to_owned(),
                folds: folds.len(),
                direction: direction.name(),
                measure,
                k,
                value,
                interval,
                n_queries: first.n_queries,
                n_items: first.n_items,
            };
            for (k, recall) in CUTOFFS.into_iter().zip(mean.recalls()) {
                self.metrics.push(metric("recall", Some(k), recall, Some(wilson_95(recall, queries))));
            }
            self.metrics.push(metric("medr", None, mean.medr, None));
            self.metrics.push(metric("meanr", None, mean.meanr, None));
            means.push((mean, first));
        }
        let [(i2t_mean, i2t_first), (t2i_mean, t2i_first)] = means[..] else {
            return Err(Error::internal("there are two directions"));
        };
        self.metrics.push(Metric {
            protocol: protocol.to_owned(),
            folds: i2t.len(),
            direction: "both",
            measure: "rsum",
            k: None,
            value: rsum(&i2t_mean, &t2i_mean),
            interval: None,
            n_queries: i2t_first.n_queries + t2i_first.n_queries,
            n_items: i2t_first.n_items + t2i_first.n_items,
        });
        self.summaries.push(Summary {
            protocol: protocol.to_owned(),
            n_images: t2i_first.n_items,
            n_captions: i2t_first.n_items,
            i2t: i2t_mean,
            t2i: t2i_mean,
        });
        Ok(())
    }

    /// The rows of `metrics`.
    pub(super) fn metrics(&self) -> Result<RecordBatch> {
        let rows = &self.metrics;
        tables::batch(
            &tables::metrics::table().schema(),
            vec![
                texts(rows, |row| &row.protocol),
                ints(rows, |row| row.folds),
                repeat(METHOD, rows.len()),
                Arc::new(BooleanArray::from(vec![false; rows.len()])),
                texts(rows, |row| row.direction),
                texts(rows, |row| row.measure),
                Arc::new(rows.iter().map(|row| row.k.map(int)).collect::<Int64Array>()),
                floats(rows, |row| row.value),
                Arc::new(rows.iter().map(|row| row.interval.map(|(low, _)| low)).collect::<Float64Array>()),
                Arc::new(rows.iter().map(|row| row.interval.map(|(_, high)| high)).collect::<Float64Array>()),
                ints(rows, |row| row.n_queries),
                ints(rows, |row| row.n_items),
            ],
        )
    }

    /// The rows of `summary`.
    pub(super) fn summary(&self) -> Result<RecordBatch> {
        let rows = &self.summaries;
        let mut columns = vec![
            texts(rows, |row| &row.protocol),
            repeat(METHOD, rows.len()),
            Arc::new(BooleanArray::from(vec![false; rows.len()])) as ArrayRef,
            ints(rows, |row| row.n_images),
            ints(rows, |row| row.n_captions),
        ];
        for side in [|row: &Summary| row.i2t, |row: &Summary| row.t2i] {
            for value in [
                |r: Retrieval| r.r1,
                |r: Retrieval| r.r5,
                |r: Retrieval| r.r10,
                |r: Retrieval| r.medr,
                |r: Retrieval| r.meanr,
            ] {
                columns.push(floats(rows, |row| value(side(row))));
            }
        }
        columns.push(floats(rows, |row| rsum(&row.i2t, &row.t2i)));
        tables::batch(&tables::summary::table().schema(), columns)
    }
}

fn repeat(text: &str, rows: usize) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(std::iter::repeat_n(text, rows)))
}

fn texts<'r, R>(rows: &'r [R], get: impl Fn(&'r R) -> &'r str) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(rows.iter().map(get)))
}

fn ints<R>(rows: &[R], get: impl Fn(&R) -> usize) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| int(get(row)))))
}

fn floats<R>(rows: &[R], get: impl Fn(&R) -> f64) -> ArrayRef {
    Arc::new(Float64Array::from_iter_values(rows.iter().map(get)))
}

/// Counts and places are far below 2⁶³.
fn int(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
