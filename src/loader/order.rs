//! Batches of a loader: those of an epoch, or given rows.

use std::ops::Range;
use std::sync::Arc;

use super::augmented::AugmentedImages;
use super::data::LoaderData;
use super::stream::LoaderStart;
use pairloom_base::error::Result;
use pairloom_kernels::epoch::{DataOrder, Epoch, ShardWindow, Shuffle, rank_share};

/// Rows of the table of samples, each read once, with the centre crop of its image.
#[derive(Debug)]
pub struct SelectedRows {
    /// Rows, ascending, so that samples of one shard are together.
    pub rows: Vec<usize>,
    /// Rows of a batch.
    pub batch_size: usize,
    /// True if a shard is released after its last row, and only the next one is read ahead. Otherwise all are read ahead
    /// and stay mapped, for readers that follow.
    pub release_shards: bool,
}

/// Batches of a loader.
#[derive(Debug)]
pub(super) enum BatchOrder {
    /// Share of a rank in the batches of an epoch, with augmented images.
    Epoch(Arc<DataOrder>, LoaderStart),
    /// Given rows.
    Rows(SelectedRows),
}

impl BatchOrder {
    /// Number of batches.
    pub fn batch_count(&self) -> usize {
        match self {
            Self::Epoch(order, _) => order.batch_count(),
            Self::Rows(SelectedRows { rows, batch_size, .. }) => rows.len().div_ceil(*batch_size),
        }
    }

    /// Positions of a batch, over all ranks.
    pub fn positions(&self, batch: usize) -> Range<usize> {
        match self {
            Self::Epoch(order, _) => order.batch_positions(batch),
            Self::Rows(SelectedRows { rows, batch_size, .. }) => {
                (batch * batch_size).min(rows.len())..((batch + 1) * batch_size).min(rows.len())
            }
        }
    }

    /// Share of this rank in a batch of `samples` samples.
    pub fn share(&self, samples: usize) -> Range<usize> {
        match self {
            Self::Epoch(_, start) => rank_share(samples, start.rank, start.world_size),
            Self::Rows(_) => 0..samples,
        }
    }

    /// Reader of the rows at any position.
    pub fn reader(&self) -> RowReader<'_> {
        match self {
            Self::Epoch(order, start) => RowReader::Epoch(order.epoch(start.epoch)),
            Self::Rows(selected) => RowReader::Rows(&selected.rows),
        }
    }

    /// Shard windows, with the shard numbers of the tables.
    pub fn windows(&self, data: &LoaderData) -> Result<Vec<ShardWindow>> {
        match self {
            Self::Epoch(order, start) => {
                let mut windows = order.epoch(start.epoch).shard_windows();
                for window in &mut windows {
                    for shard in &mut window.shards {
                        *shard = data.shard(window.data_set, *shard);
                    }
                }
                Ok(windows)
            }
            Self::Rows(selected) => selected.windows(data),
        }
    }

    /// Rows from `position` on, if each shard is released after its last row.
    pub fn rest_of_rows(&self, position: usize) -> Option<&[usize]> {
        match self {
            Self::Rows(SelectedRows { rows, release_shards: true, .. }) => rows.get(position..),
            _ => None,
        }
    }

    /// True if all shards are released at the end.
    pub fn releases_shards(&self) -> bool {
        match self {
            Self::Epoch(order, _) => order.shuffle() != Shuffle::Global,
            Self::Rows(selected) => selected.release_shards,
        }
    }

    /// Writes the pixels of image `row` at `position`: augmented in an epoch, otherwise the centre crop.
    pub fn write_pixels(
        &self,
        images: &AugmentedImages,
        row: usize,
        position: usize,
        pixels: &mut [f32],
    ) -> Result<()> {
        match self {
            Self::Epoch(order, start) => {
                images.write_augmented(row, order.seed(), start.epoch, position as u64, pixels)
            }
            Self::Rows(_) => images.write_centre_crop(row, pixels),
        }
    }
}

impl SelectedRows {
    /// One window for each data set.
    fn windows(&self, data: &LoaderData) -> Result<Vec<ShardWindow>> {
        let mut windows: Vec<ShardWindow> = Vec::new();
        for (position, &row) in self.rows.iter().enumerate() {
            let (data_set, shard) = data.shard_of_row(row)?;
            match windows.last_mut().filter(|window| window.data_set == data_set) {
                Some(window) => {
                    if window.shards.last() != Some(&shard) {
                        window.shards.push(shard);
                    }
                    window.positions.end = position + 1;
                }
                None => windows.push(ShardWindow { data_set, shards: vec![shard], positions: position..position + 1 }),
            }
        }
        Ok(windows)
    }
}

/// Reader of the rows of a [`BatchOrder`].
pub(super) enum RowReader<'o> {
    Epoch(Epoch<'o>),
    Rows(&'o [usize]),
}

impl RowReader<'_> {
    /// Appends the rows of the table of samples at these positions.
    pub fn read(&self, positions: Range<usize>, data: &LoaderData, rows: &mut Vec<usize>) {
        match self {
            Self::Epoch(epoch) => rows.extend(epoch.samples(positions).map(|sample| data.table_row(sample))),
            Self::Rows(all) => rows.extend_from_slice(&all[positions]),
        }
    }
}
