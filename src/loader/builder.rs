//! Assembly of batches on a worker thread.

use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender};

use super::batch::{AllocateBuffer, Batch, BatchStorage};
use super::data::{LoaderData, LoaderImages};
use super::order::{BatchOrder, RowReader};
use pairloom_base::error::{Error, Result};
use pairloom_storage::shard::ShardVectors;
use pairloom_storage::table_shards::TableShards;

/// Batch with the time that reading and assembly took.
pub(super) struct BuiltBatch {
    pub batch: Batch,
    pub storage: Duration,
    pub decode: Duration,
}

/// Columns of mapped shards, by data set and shard.
#[derive(Default)]
pub(super) struct MappedColumns(Vec<Vec<Option<ShardVectors>>>);

impl MappedColumns {
    /// Slot of a shard's column. A table instead of a hash map, since every sample needs a look-up.
    fn slot(&mut self, set: usize, shard: usize) -> &mut Option<ShardVectors> {
        if self.0.len() <= set {
            self.0.resize_with(set + 1, Vec::new);
        }
        let shards = &mut self.0[set];
        if shards.len() <= shard {
            shards.resize_with(shard + 1, || None);
        }
        &mut shards[shard]
    }

    /// Releases the columns for which `keep` is false.
    pub fn retain(&mut self, keep: impl Fn(usize, usize) -> bool) {
        for (set, shards) in self.0.iter_mut().enumerate() {
            for (shard, column) in shards.iter_mut().enumerate() {
                if column.is_some() && !keep(set, shard) {
                    *column = None;
                }
            }
        }
    }
}

/// Builder of the share of one rank in any batch.
pub(super) struct BatchBuilder<'b> {
    pub data: &'b LoaderData,
    pub order: &'b BatchOrder,
    pub reader: RowReader<'b>,
    pub allocate: &'b AllocateBuffer,
    /// Channel through which the memory of used batches returns.
    pub recycle: (Sender<BatchStorage>, Receiver<BatchStorage>),
    /// Columns of mapped shards that this thread reads from.
    pub mapped: MappedColumns,
    /// Data set and shard that are read, if each shard is released after its last row.
    pub current: Option<(usize, usize)>,
    /// Rows of the batch; a field so that its memory is reused.
    pub rows: Vec<usize>,
}

impl BatchBuilder<'_> {
    pub fn build(&mut self, number: usize) -> Result<BuiltBatch> {
        let begun = now();
        let mut storage = Duration::ZERO;
        let all = self.order.positions(number);
        let share = self.order.share(all.len());
        self.rows.clear();
        self.reader.read(all.clone(), self.data, &mut self.rows);
        let mut width = 0;
        let mut buffers = BatchStorage::recycled(&self.recycle.1);
        for &row in &self.rows {
            buffers.pairs.push(self.data.pair(row)?);
        }
        for i in 0..share.len() {
            let (row, position) = (self.rows[share.start + i], all.start + share.start + i);
            let (data_set, location) = (self.data.data_set(row), self.data.locate(row)?);
            if let Some(rest) = self.order.rest_of_rows(position) {
                self.enter_shard((data_set, location.shard), rest)?;
            }
            match &self.data.sets()[data_set].images {
                LoaderImages::Vectors { shards, column } => {
                    if location.shard >= shards.len() {
                        return Err(shard_out_of_range(shards, location.shard));
                    }
                    let mapped = self.mapped.slot(data_set, location.shard);
                    let vectors = match mapped {
                        Some(vectors) => vectors,
                        None => {
                            let opening = now();
                            let vectors = shards.open(location.shard)?.vectors(column)?;
                            storage += opening.elapsed();
                            mapped.insert(vectors)
                        }
                    };
                    let values = vectors.row(location.row)?;
                    check_width(&mut width, values.len(), data_set)?;
                    buffers.reserve(self.allocate, width * share.len())?;
                    buffers.images_mut()[i * width..][..width].copy_from_slice(values);
                }
                LoaderImages::Pixels(images) => {
                    check_width(&mut width, images.sample_len(), data_set)?;
                    buffers.reserve(self.allocate, width * share.len())?;
                    let image = images.global_row(location.shard, location.row)?;
                    let pixels = &mut buffers.images_mut()[i * width..][..width];
                    self.order.write_pixels(images, image, position, pixels)?;
                }
            }
            buffers.token_ids.extend_from_slice(self.data.token_ids(row)?);
            buffers.token_ends.push(buffers.token_ids.len());
        }
        let batch = Batch { number, share, width, buffers, recycle: self.recycle.0.clone() };
        Ok(BuiltBatch { batch, storage, decode: begun.elapsed().saturating_sub(storage) })
    }

    /// Releases the shard before `shard`, and reads the one after it ahead. `rest` are the rows that follow.
    fn enter_shard(&mut self, shard: (usize, usize), rest: &[usize]) -> Result<()> {
        if self.current == Some(shard) {
            return Ok(());
        }
        if let Some((data_set, before)) = self.current.replace(shard) {
            *self.mapped.slot(data_set, before) = None;
            self.data.sets()[data_set].images.release(before);
        }
        for &row in rest {
            let next = self.data.shard_of_row(row)?;
            if next != shard {
                self.data.sets()[next.0].images.prefetch([next.1]);
                break;
            }
        }
        Ok(())
    }
}

/// Checks that a sample has as many values as those before it. `width` is 0 before the first sample.
fn check_width(width: &mut usize, got: usize, data_set: usize) -> Result<()> {
    if *width == 0 {
        *width = got;
    }
    if *width == got {
        return Ok(());
    }
    let expected = *width;
    Err(Error::data(format!("data set {data_set} has {got} values an image, expected {expected} as in the others")))
}

/// Current time, only for measuring durations.
#[expect(clippy::disallowed_methods, reason = "durations are reported, and results do not depend on them")]
pub(super) fn now() -> Instant {
    Instant::now()
}

fn shard_out_of_range(shards: &TableShards, shard: usize) -> Error {
    let (name, wanted) = (shards.name(), shards.len());
    Error::data(format!("a sample is in shard {shard} of `{name}`, which has {wanted} shards"))
}
