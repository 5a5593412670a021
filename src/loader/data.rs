//! Input of a loader: the samples of all data sets, and their images.

use std::sync::Arc;

use super::augmented::AugmentedImages;
use pairloom_base::error::{Error, Result};
use pairloom_kernels::epoch;
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
    captions: ShardIds,
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
        let (captions, rows, words) = (table.ids("caption_id")?, table.ids("row")?, table.int32_lists("token_ids")?);
        Ok(Self { sets, starts, shards_of, captions, shards, rows, token_ids: words })
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
    #[must_use]
    pub fn table_row(&self, sample: epoch::Sample) -> usize {
        self.starts[sample.data_set] + sample.index
    }

    pub(super) fn locate(&self, sample: epoch::Sample) -> Result<SampleLocation> {
        let row = self.table_row(sample);
        Ok(SampleLocation {
            shard: to_index(row, self.shards.value(row)?)?,
            row: to_index(row, self.rows.value(row)?)?,
        })
    }

    pub(super) fn caption(&self, sample: epoch::Sample) -> Result<i64> {
        self.captions.value(self.table_row(sample))
    }

    pub(super) fn token_ids(&self, sample: epoch::Sample) -> Result<&[i32]> {
        self.token_ids.row(self.table_row(sample))
    }
}

fn to_index(row: usize, got: i64) -> Result<usize> {
    usize::try_from(got)
        .map_err(|_| Error::data(format!("sample {row} has index {got}, expected a shard or a row from 0")))
}
