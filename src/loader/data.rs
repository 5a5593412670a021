//! Input of a loader: the samples of all data sets, and their images.

use std::sync::Arc;

use super::augmented::AugmentedImages;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::epoch;
use pairloom_kernels::epoch::TrainingPair;
use pairloom_storage::shard::{Shard, ShardIds, ShardIntLists};
use pairloom_storage::table_shards::TableShards;

/// Samples of all data sets, with the sources of their images.
#[derive(Debug)]
pub struct LoaderData {
    sets: Vec<LoaderDataSet>,
    /// Row of the first sample of every data set, and at the end the number of rows.
    starts: Vec<usize>,
    /// For every data set the image shards that have samples, each with its number of samples. A data order contains no
    /// others.
    shards_of: Vec<Vec<(usize, usize)>>,
    images: ShardIds,
    shards: ShardIds,
    rows: ShardIds,
    token_ids: ShardIntLists,
}

/// Data set of a loader.
#[derive(Debug)]
pub struct LoaderDataSet {
    /// Images of the data set.
    pub images: LoaderImages,
    /// Number of samples, which are consecutive rows of the table.
    pub samples: usize,
    /// Weight: the share of the data set in an epoch is its weight over the sum of all weights.
    pub weight: f64,
}

/// Images of a data set, as the model reads them.
#[derive(Debug)]
pub enum LoaderImages {
    /// Column of feature vectors or of regions.
    Vectors {
        /// Shards of the table.
        shards: TableShards,
        /// Name of the column.
        column: String,
    },
    /// Images, augmented. Shard and row of a sample are those of the table `images`.
    Pixels(AugmentedImages),
}

impl LoaderImages {
    /// Prefetches shards.
    pub(super) fn prefetch(&self, needed: impl IntoIterator<Item = usize>) {
        if let Self::Vectors { shards, .. } = self {
            shards.prefetch(needed);
        }
    }

    /// Releases a shard.
    pub(super) fn release(&self, shard: usize) {
        if let Self::Vectors { shards, .. } = self {
            shards.release(shard);
        }
    }
}

/// Location of a sample's image.
#[derive(Debug, Clone, Copy)]
pub(super) struct SampleLocation {
    pub shard: usize,
    pub row: usize,
}

impl LoaderData {
    /// Reads the samples of `table`, a shard with the columns of `samples`, in the order of
    /// the data sets, and within a data set by shard.
    ///
    /// # Errors
    /// The table has other columns, or its number of rows is not the number of samples of all data sets.
    pub fn new(table: &Arc<Shard>, sets: Vec<LoaderDataSet>) -> Result<Self> {
        let mut starts = vec![0];
        for set in &sets {
            starts.push(starts[starts.len() - 1] + set.samples);
        }
        if starts[sets.len()] != table.rows() {
            let (got, expected) = (table.rows(), starts[sets.len()]);
            return Err(Error::internal(format!(
                "got a table of {got} samples, expected {expected} as in the data sets"
            )));
        }
        let shards = table.ids("shard")?;
        let mut shards_of = Vec::new();
        for range in starts.windows(2) {
            let mut groups: Vec<(usize, usize)> = Vec::new();
            for row in range[0]..range[1] {
                let shard = to_index(row, shards.value(row)?)?;
                match groups.last_mut() {
                    Some((last, samples)) if *last == shard => *samples += 1,
                    _ => groups.push((shard, 1)),
                }
            }
            shards_of.push(groups);
        }
        let (images, rows, token_ids) = (table.ids("image_id")?, table.ids("row")?, table.int32_lists("token_ids")?);
        Ok(Self { sets, starts, shards_of, images, shards, rows, token_ids })
    }

    /// Returns the data sets.
    #[must_use]
    pub fn sets(&self) -> &[LoaderDataSet] {
        &self.sets
    }

    /// Returns the data sets in the form that a data order needs.
    #[must_use]
    pub fn order_sets(&self) -> Vec<epoch::DataSet> {
        let sets = self.sets.iter().zip(&self.shards_of).map(|(set, shards)| epoch::DataSet {
            shards: shards.iter().map(|&(_, samples)| samples).collect(),
            weight: set.weight,
        });
        sets.collect()
    }

    /// Number in the table of the `shard`-th shard of a data order.
    pub(super) fn shard(&self, set: usize, shard: usize) -> usize {
        self.shards_of[set][shard].0
    }

    /// Row of a sample in the table of samples.
    pub(super) fn table_row(&self, sample: epoch::Sample) -> usize {
        self.starts[sample.data_set] + sample.index
    }

    /// Training pair of a row of the table of samples.
    ///
    /// # Errors
    /// There is no such row, or the table is damaged.
    pub fn pair(&self, row: usize) -> Result<TrainingPair> {
        let data_set = i64::try_from(self.data_set(row)).map_err(|error| Error::internal(error.to_string()))?;
        Ok(TrainingPair { row, image: (data_set, self.images.value(row)?) })
    }

    /// Data set of a row of the table of samples.
    pub(super) fn data_set(&self, row: usize) -> usize {
        self.starts[1..].partition_point(|&end| end <= row)
    }

    /// Data set and shard of the image of a row of the table of samples.
    pub(super) fn shard_of_row(&self, row: usize) -> Result<(usize, usize)> {
        Ok((self.data_set(row), self.locate(row)?.shard))
    }

    pub(super) fn locate(&self, row: usize) -> Result<SampleLocation> {
        Ok(SampleLocation {
            shard: to_index(row, self.shards.value(row)?)?,
            row: to_index(row, self.rows.value(row)?)?,
        })
    }

    pub(super) fn token_ids(&self, row: usize) -> Result<&[i32]> {
        self.token_ids.row(row)
    }
}

fn to_index(row: usize, got: i64) -> Result<usize> {
    usize::try_from(got)
        .map_err(|_| Error::data(format!("sample {row} has index {got}, expected a shard or a row from 0")))
}
