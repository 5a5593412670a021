//! Puts batches together: what one reader thread does.

use std::time::{Duration, Instant};

use crossbeam::channel::{Receiver, Sender};

use super::batch::{Allocate, Batch, Buffers};
use super::data::{Data, Images};
use crate::error::{Error, Result};
use crate::io::shard::Vectors;
use crate::io::shards::Shards;
use crate::kernels::epoch::{Epoch, Plan, Sample, share};

/// A batch, and how long it took to read and to put together.
pub(super) struct Built {
    pub batch: Batch,
    pub storage: Duration,
    pub decode: Duration,
}

/// Columns of mapped shards, by data set and shard.
#[derive(Default)]
pub(super) struct Mapped(Vec<Vec<Option<Vectors>>>);

impl Mapped {
    /// The place of a shard's column. A table instead of a map: this is asked for every sample.
    fn place(&mut self, set: usize, shard: usize) -> &mut Option<Vectors> {
        if self.0.len() <= set {
            self.0.resize_with(set + 1, Vec::new);
        }
        let shards = &mut self.0[set];
        if shards.len() <= shard {
            shards.resize_with(shard + 1, || None);
        }
        &mut shards[shard]
    }

    /// Lets go of the columns for which `keep` does not hold.
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

/// Builds the share of one rank in any batch of an epoch.
pub(super) struct Builder<'b> {
    pub data: &'b Data,
    pub plan: &'b Plan,
    pub epoch: &'b Epoch<'b>,
    /// Number of the epoch.
    pub number: u64,
    pub rank: usize,
    pub ranks: usize,
    pub allocate: &'b Allocate,
    /// Where memory comes back, and from where.
    pub home: (Sender<Buffers>, Receiver<Buffers>),
    /// Columns of mapped shards that this thread reads from.
    pub mapped: Mapped,
    /// Samples of the batch, kept for their memory.
    pub samples: Vec<Sample>,
}

impl Builder<'_> {
    pub fn build(&mut self, number: usize) -> Result<Built> {
        let begun = now();
        let mut storage = Duration::ZERO;
        let all = self.plan.batch(number);
        let share = share(all.len(), self.rank, self.ranks);
        self.samples.clear();
        self.samples.extend(self.epoch.samples(all.start + share.start..all.start + share.end));
        let mut width = 0;
        let mut buffers = Buffers::back(&self.home.1);
        for (i, &sample) in self.samples.iter().enumerate() {
            let place = self.data.place(sample)?;
            match &self.data.sets()[sample.set].images {
                Images::Vectors { shards, column } => {
                    if place.shard >= shards.len() {
                        return Err(no_such(shards, place.shard));
                    }
                    let mapped = self.mapped.place(sample.set, place.shard);
                    let vectors = match mapped {
                        Some(vectors) => vectors,
                        None => {
                            let opening = now();
                            let vectors = shards.open(place.shard)?.vectors(column)?;
                            storage += opening.elapsed();
                            mapped.insert(vectors)
                        }
                    };
                    let row = vectors.row(place.row)?;
                    Self::same(&mut width, row.len(), sample)?;
                    buffers.reserve(self.allocate, width * share.len())?;
                    buffers.images_mut()[i * width..][..width].copy_from_slice(row);
                }
                Images::Pictures(pictures) => {
                    Self::same(&mut width, pictures.values(), sample)?;
                    buffers.reserve(self.allocate, width * share.len())?;
                    let position = (all.start + share.start + i) as u64;
                    let pixels = &mut buffers.images_mut()[i * width..][..width];
                    pictures.sample(
                        pictures.row(place.shard, place.row)?,
                        self.plan.seed(),
                        self.number,
                        position,
                        pixels,
                    )?;
                }
            }
            buffers.words.extend_from_slice(self.data.words(sample)?);
            buffers.ends.push(buffers.words.len());
            buffers.captions.push(self.data.caption(sample)?);
        }
        let batch = Batch { number, all: all.len(), width, buffers, home: self.home.0.clone() };
        Ok(Built { batch, storage, decode: begun.elapsed().saturating_sub(storage) })
    }

    /// Whether a sample has as many values as those before it, which are `width` once that is known.
    fn same(width: &mut usize, got: usize, sample: Sample) -> Result<()> {
        if *width == 0 {
            *width = got;
        }
        if *width == got {
            return Ok(());
        }
        let (set, wanted) = (sample.set, *width);
        Err(Error::data(format!("data set {set} has {got} values an image, wanted {wanted} as in the others")))
    }
}

/// The time, for measuring how long something took and for nothing else.
#[expect(clippy::disallowed_methods, reason = "people are told what a training waits for")]
pub(super) fn now() -> Instant {
    Instant::now()
}

fn no_such(shards: &Shards, shard: usize) -> Error {
    let (name, wanted) = (shards.name(), shards.len());
    Error::data(format!("a sample lies in shard {shard} of `{name}`, which has {wanted}"))
}
