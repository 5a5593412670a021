//! Reads ahead: the windows of shards that an epoch needs next, and lets go of those it is done with.

use super::builder::Mapped;
use super::data::Data;
use crate::kernels::epoch::{Epoch, Stretch};

/// The stretches of an epoch, with shards as their tables count them.
pub(super) fn stretches(epoch: &Epoch<'_>, data: &Data) -> Vec<Stretch> {
    let mut stretches = epoch.stretches();
    for stretch in &mut stretches {
        for shard in &mut stretch.shards {
            *shard = data.shard(stretch.set, *shard);
        }
    }
    stretches
}

/// Where a reader of an epoch stands among its stretches.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// Stretches that are begun, or lie behind.
    seen: Vec<bool>,
    /// Stretches that are in use or begun to be read.
    open: Vec<usize>,
    /// The position at which there is something to do again.
    due: usize,
}

impl Ahead {
    /// Takes the reader to be at `position`. Gives the stretches to be read: those that have begun, and the next one of
    /// every data set; and those that have ended. Does nothing while the reader is inside of its stretches.
    fn at<'s>(&mut self, position: usize, stretches: &'s [Stretch]) -> (Vec<&'s Stretch>, Vec<&'s Stretch>) {
        if position < self.due {
            return (vec![], vec![]);
        }
        let (open, mut ended): (Vec<usize>, Vec<usize>) =
            self.open.iter().partition(|&&open| stretches[open].positions.end > position);
        self.open = open;
        self.seen.resize(stretches.len(), false);
        let mut begun = Vec::new();
        for (place, stretch) in stretches.iter().enumerate() {
            let waits =
                |&open: &usize| stretches[open].set == stretch.set && stretches[open].positions.start > position;
            if self.seen[place] || (stretch.positions.start > position && self.open.iter().any(waits)) {
                continue;
            }
            self.seen[place] = true;
            if stretch.positions.end > position {
                self.open.push(place);
                begun.push(stretch);
            } else {
                // Shorter than a batch, it began and ended since the last look.
                ended.push(place);
            }
        }
        let bounds =
            self.open.iter().flat_map(|&open| [stretches[open].positions.start, stretches[open].positions.end]);
        self.due = bounds.filter(|&bound| bound > position).min().unwrap_or(usize::MAX);
        (begun, ended.into_iter().map(|ended| &stretches[ended]).collect())
    }

    /// Whether a stretch that is not at its end needs a shard.
    fn needs(&self, set: usize, shard: usize, stretches: &[Stretch]) -> bool {
        self.open.iter().any(|&open| {
            let stretch = &stretches[open];
            stretch.set == set && stretch.shards.contains(&shard)
        })
    }

    /// Begins to read what comes, and lets the tables go of what ended.
    pub fn drive(&mut self, position: usize, stretches: &[Stretch], data: &Data) {
        let (begun, ended) = self.at(position, stretches);
        for stretch in begun {
            data.sets()[stretch.set].images.ahead(stretch.shards.iter().copied());
        }
        for stretch in ended {
            for &shard in stretch.shards.iter().filter(|&&shard| !self.needs(stretch.set, shard, stretches)) {
                data.sets()[stretch.set].images.release(shard);
            }
        }
    }

    /// Lets a thread go of the columns of what ended.
    pub fn forget(&mut self, position: usize, stretches: &[Stretch], mapped: &mut Mapped) {
        let (_, ended) = self.at(position, stretches);
        if !ended.is_empty() {
            mapped.retain(|set, shard| self.needs(set, shard, stretches));
        }
    }

    /// Lets the tables go of everything: the end of a stream. A global order keeps its shards mapped: the next epoch needs
    /// the same, and what is checked of them stays checked.
    pub fn release(&mut self, stretches: &[Stretch], data: &Data, windows: bool) {
        self.open.clear();
        // All of them: readers may be in stretches that were not begun here.
        for stretch in stretches.iter().filter(|_| windows) {
            for &shard in &stretch.shards {
                data.sets()[stretch.set].images.release(shard);
            }
        }
    }
}
