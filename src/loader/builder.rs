//! Assembly of batches on a worker thread.

use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender};

use super::batch::{AllocateBuffer, Batch, BatchStorage};
use super::data::{LoaderData, LoaderImages};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::epoch::{DataOrder, Epoch, Sample, rank_share};
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

/// Builder of the share of one rank in any batch of an epoch.
pub(super) struct BatchBuilder<'b> {
    pub data: &'b LoaderData,
    pub order: &'b DataOrder,
    pub epoch: &'b Epoch<'b>,
    /// Number of the epoch, from 0.
    pub epoch_number: u64,
    pub rank: usize,
    pub world_size: usize,
    pub allocate: &'b AllocateBuffer,
    /// Channel through which the memory of used batches returns.
    pub recycle: (Sender<BatchStorage>, Receiver<BatchStorage>),
    /// Columns of mapped shards that this thread reads from.
    pub mapped: MappedColumns,
    /// Samples of the batch; a field so that its memory is reused.
    pub samples: Vec<Sample>,
}

impl BatchBuilder<'_> {
    pub fn build(&mut self, number: usize) -> Result<BuiltBatch> {
        let begun = now();
        let mut storage = Duration::ZERO;
        let all = self.order.batch_positions(number);
        let share = rank_share(all.len(), self.rank, self.world_size);
        self.samples.clear();
        self.samples.extend(self.epoch.samples(all.start + share.start..all.start + share.end));
        let mut width = 0;
        let mut buffers = BatchStorage::recycled(&self.recycle.1);
        for (i, &sample) in self.samples.iter().enumerate() {
            let location = self.data.locate(sample)?;
            match &self.data.sets()[sample.data_set].images {
                LoaderImages::Vectors { shards, column } => {
                    if location.shard >= shards.len() {
                        return Err(shard_out_of_range(shards, location.shard));
                    }
                    let mapped = self.mapped.slot(sample.data_set, location.shard);
                    let vectors = match mapped {
                        Some(vectors) => vectors,
                        None => {
                            let opening = now();
                            let vectors = shards.open(location.shard)?.vectors(column)?;
                            storage += opening.elapsed();
                            mapped.insert(vectors)
                        }
                    };
                    let row = vectors.row(location.row)?;
                    Self::check_width(&mut width, row.len(), sample)?;
                    buffers.reserve(self.allocate, width * share.len())?;
                    buffers.images_mut()[i * width..][..width].copy_from_slice(row);
                }
                LoaderImages::Pixels(images) => {
                    Self::check_width(&mut width, images.sample_len(), sample)?;
                    buffers.reserve(self.allocate, width * share.len())?;
                    let position = (all.start + share.start + i) as u64;
                    let pixels = &mut buffers.images_mut()[i * width..][..width];
                    images.write_augmented(
                        images.global_row(location.shard, location.row)?,
                        self.order.seed(),
                        self.epoch_number,
                        position,
                        pixels,
                    )?;
                }
            }
            buffers.token_ids.extend_from_slice(self.data.token_ids(sample)?);
            buffers.token_ends.push(buffers.token_ids.len());
            buffers.captions.push(self.data.caption(sample)?);
        }
        let batch = Batch { number, global_size: all.len(), width, buffers, recycle: self.recycle.0.clone() };
        Ok(BuiltBatch { batch, storage, decode: begun.elapsed().saturating_sub(storage) })
    }

    /// Checks that a sample has as many values as those before it. `width` is 0 before the first sample.
    fn check_width(width: &mut usize, got: usize, sample: Sample) -> Result<()> {
        if *width == 0 {
            *width = got;
        }
        if *width == got {
            return Ok(());
        }
        let (set, wanted) = (sample.data_set, *width);
        Err(Error::data(format!("data set {set} has {got} values an image, wanted {wanted} as in the others")))
    }
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
