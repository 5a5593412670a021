//! What a loader reads.

use std::sync::Arc;

use super::augmented::AugmentedPictures;
use crate::error::{Error, Result};
use crate::io::shard::{Ids, Numbers, Shard};
use crate::io::shards::Shards;
use crate::kernels::epoch;

/// The samples of all data sets, and what there is of their images.
#[derive(Debug)]
pub struct Data {
    sets: Vec<DataSet>,
    /// Row of the first sample of every data set, and the end.
    starts: Vec<usize>,
    /// Shards of the images of every data set that have samples, and how many. A plan knows no others.
    shards_of: Vec<Vec<(usize, usize)>>,
    captions: Ids,
    shards: Ids,
    rows: Ids,
    words: Numbers,
}

/// A data set.
#[derive(Debug)]
pub struct DataSet {
    /// What there is of its images.
    pub images: Images,
    /// Its samples, which follow each other in the table.
    pub samples: usize,
    /// Its share of an epoch is this over the sum of all weights.
    pub weight: f64,
}

/// What there is of the images of a data set.
#[derive(Debug)]
pub enum Images {
    /// A column of vectors or of regions.
    Vectors {
        /// The shards of the table.
        shards: Shards,
        /// The column.
        column: String,
    },
    /// The pictures themselves, each seen through a view of its own; shard and row are those of the table `images`.
    Pictures(AugmentedPictures),
}

impl Images {
    /// Begins to open shards.
    pub(super) fn ahead(&self, wanted: impl IntoIterator<Item = usize>) {
        if let Self::Vectors { shards, .. } = self {
            shards.ahead(wanted);
        }
    }

    /// Lets go of a shard.
    pub(super) fn release(&self, shard: usize) {
        if let Self::Vectors { shards, .. } = self {
            shards.release(shard);
        }
    }
}

/// Where a sample lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub shard: usize,
    pub row: usize,
}

impl Data {
    /// The samples of `table`, a shard with the columns of [`samples`](crate::tables::samples): the samples of one data set
    /// after those of another, within a data set by shard.
    ///
    /// # Errors
    /// The table has other columns, or another number of rows than the data sets have samples.
    pub fn new(table: &Arc<Shard>, sets: Vec<DataSet>) -> Result<Self> {
        let mut starts = vec![0];
        for set in &sets {
            starts.push(starts[starts.len() - 1] + set.samples);
        }
        if starts[sets.len()] != table.rows() {
            let (got, wanted) = (table.rows(), starts[sets.len()]);
            return Err(Error::internal(format!("a table of {got} samples for data sets of {wanted}")));
        }
        let shards = table.ids("shard")?;
        let mut shards_of = Vec::new();
        for range in starts.windows(2) {
            let mut groups: Vec<(usize, usize)> = Vec::new();
            for row in range[0]..range[1] {
                let shard = place(row, shards.value(row)?)?;
                match groups.last_mut() {
                    Some((last, samples)) if *last == shard => *samples += 1,
                    _ => groups.push((shard, 1)),
                }
            }
            shards_of.push(groups);
        }
        let (captions, rows, words) = (table.ids("caption_id")?, table.ids("row")?, table.numbers("words")?);
        Ok(Self { sets, starts, shards_of, captions, shards, rows, words })
    }

    /// The data sets.
    #[must_use]
    pub fn sets(&self) -> &[DataSet] {
        &self.sets
    }

    /// The data sets as a plan wants them.
    #[must_use]
    pub fn plan_sets(&self) -> Vec<epoch::DataSet> {
        let sets = self.sets.iter().zip(&self.shards_of).map(|(set, shards)| epoch::DataSet {
            shards: shards.iter().map(|&(_, samples)| samples).collect(),
            weight: set.weight,
        });
        sets.collect()
    }

    /// The shard of the table that a plan calls the `shard`-th.
    pub(super) fn shard(&self, set: usize, shard: usize) -> usize {
        self.shards_of[set][shard].0
    }

    /// The row of a sample in the table of samples.
    #[must_use]
    pub fn row(&self, sample: epoch::Sample) -> usize {
        self.starts[sample.set] + sample.index
    }

    pub(super) fn place(&self, sample: epoch::Sample) -> Result<Place> {
        let row = self.row(sample);
        Ok(Place { shard: place(row, self.shards.value(row)?)?, row: place(row, self.rows.value(row)?)? })
    }

    pub(super) fn caption(&self, sample: epoch::Sample) -> Result<i64> {
        self.captions.value(self.row(sample))
    }

    pub(super) fn words(&self, sample: epoch::Sample) -> Result<&[i32]> {
        self.words.row(self.row(sample))
    }
}

fn place(row: usize, got: i64) -> Result<usize> {
    usize::try_from(got).map_err(|_| Error::data(format!("sample {row} lies at {got}, wanted a place in a shard")))
}
