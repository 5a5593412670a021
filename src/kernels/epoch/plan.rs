//! The plan of all epochs of a training.

use std::ops::Range;

use az::SaturatingAs;

use super::mixture::Mixture;
use super::pass::{Layout, Order, Pass};

/// A data set of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct DataSet {
    /// Samples of each shard, in the order of the shards.
    pub shards: Vec<usize>,
    /// Its share of an epoch is this over the sum of all weights.
    pub weight: f64,
}

/// Which samples stand where, in every epoch.
///
/// An epoch has as many positions as the data sets have samples. Data set `i` fills `weight[i] / Σ weight` of them, spread
/// evenly; it goes through all its samples before one comes again, and the next epoch goes on where this one stopped.
/// With one data set, that is: every sample once an epoch.
///
/// Batch `b` is the positions `b·batch ..`; the last one is as long as what is left, be it one sample, and nothing is
/// dropped or repeated. So every rank has the same number of batches; of a last batch shorter than the ranks are many, some
/// have an empty share.
#[derive(Debug)]
pub struct Plan {
    sets: Vec<Layout>,
    mixture: Mixture,
    order: Order,
    seed: u64,
    batch: usize,
}

/// Shards that a stretch of positions needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// The data set.
    pub set: usize,
    /// The shards.
    pub shards: Vec<usize>,
    /// The first and the end of the positions; with several data sets, up to one for each more than there are.
    pub positions: Range<usize>,
}

/// A sample, wherever it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Sample {
    /// Its data set.
    pub set: usize,
    /// Its number there, in the order of the shards.
    pub index: usize,
}

impl Plan {
    /// A plan over these data sets.
    ///
    /// # Errors
    /// No sample, a data set without one, a weight that is not a number above 0, or an empty batch.
    pub fn new(sets: &[DataSet], order: Order, seed: u64, batch: usize) -> Result<Self, String> {
        if batch == 0 {
            return Err("a batch of 0 samples, wanted at least 1".to_owned());
        }
        for (i, set) in sets.iter().enumerate() {
            if set.shards.iter().sum::<usize>() == 0 {
                return Err(format!("data set {i} has no sample"));
            }
            if !(set.weight.is_finite() && set.weight > 0.0) {
                return Err(format!("data set {i} has weight {}, wanted a number above 0", set.weight));
            }
        }
        if sets.is_empty() {
            return Err("no data set".to_owned());
        }
        let weights: Vec<f64> = sets.iter().map(|set| set.weight).collect();
        let sets: Vec<Layout> = sets.iter().map(|set| Layout::new(&set.shards)).collect();
        let total = sets.iter().map(Layout::samples).sum();
        let mixture = if let [only] = sets.as_slice() {
            Mixture::new(only.samples(), &[1.0])
        } else {
            Mixture::new(total, &weights)
        };
        Ok(Self { sets, mixture, order, seed, batch })
    }

    /// The seed, for what else is drawn at a position.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// How each data set is shuffled.
    #[must_use]
    pub fn order(&self) -> Order {
        self.order
    }

    /// Positions of an epoch.
    #[must_use]
    pub fn positions(&self) -> usize {
        self.mixture.total().saturating_as::<usize>()
    }

    /// Batches of an epoch, for every rank.
    #[must_use]
    pub fn batches(&self) -> usize {
        self.positions().div_ceil(self.batch)
    }

    /// The positions of batch `b`.
    #[must_use]
    pub fn batch(&self, b: usize) -> Range<usize> {
        let end = self.positions();
        (b * self.batch).min(end)..((b + 1) * self.batch).min(end)
    }

    /// The shard of a sample.
    #[must_use]
    pub fn shard(&self, sample: Sample) -> usize {
        self.sets[sample.set].shard(sample.index)
    }

    /// The order of an epoch, ready to be asked. Costs a few nanoseconds a shard, and nothing a sample.
    #[must_use]
    pub fn epoch(&self, epoch: u64) -> Epoch<'_> {
        let passes = self.sets.iter().enumerate().map(|(i, layout)| {
            let (samples, draws) = (layout.samples() as u64, self.mixture.draws(i));
            let first = epoch.saturating_mul(draws);
            let passes = first / samples..=first.saturating_add(draws.saturating_sub(1)) / samples;
            Passes {
                first,
                passes: passes.map(|pass| Pass::new(layout, self.order, self.seed, i as u64, pass)).collect(),
            }
        });
        Epoch { plan: self, passes: passes.collect() }
    }

    /// The sample at a position of an epoch: a function of the seed, the epoch and the position alone.
    #[must_use]
    pub fn sample_at(&self, epoch: u64, position: usize) -> Option<Sample> {
        self.epoch(epoch).samples(position..position + 1).next()
    }
}

/// The passes of a data set that an epoch touches.
#[derive(Debug)]
struct Passes {
    /// Draws of the data set in all epochs before.
    first: u64,
    passes: Vec<Pass>,
}

/// The order of one epoch.
#[derive(Debug)]
pub struct Epoch<'p> {
    plan: &'p Plan,
    passes: Vec<Passes>,
}

impl Epoch<'_> {
    /// The samples at these positions, in order; positions past the end have none.
    pub fn samples(&self, positions: Range<usize>) -> impl Iterator<Item = Sample> {
        let mixture = &self.plan.mixture;
        let mut taken = mixture.before(positions.start as u64);
        positions.map_while(move |_| {
            let set = mixture.next(&taken)?;
            let draw = self.passes[set].first + taken[set];
            taken[set] += 1;
            Some(Sample { set, index: self.sample(set, draw) })
        })
    }

    /// What the epoch needs and when, in the order of the first positions. A shard may be needed twice, by the end of one
    /// pass over a data set and by the beginning of the next.
    #[must_use]
    pub fn stretches(&self) -> Vec<Stretch> {
        let total = u128::from(self.plan.mixture.total());
        // Draws of several data sets are spread evenly but for rounding: less than one position for each.
        let slack = self.plan.sets.len() - 1;
        let mut stretches = Vec::new();
        for (set, passes) in self.passes.iter().enumerate() {
            let (layout, draws) = (&self.plan.sets[set], self.plan.mixture.draws(set));
            let position = |draw: u64| index(u128::from(draw) * total / u128::from(draws.max(1)));
            let mut begin = passes.first / layout.samples() as u64 * layout.samples() as u64;
            for pass in &passes.passes {
                for (range, shards) in pass.windows(layout) {
                    let draw = |at: usize| (begin + at as u64).saturating_sub(passes.first).min(draws);
                    let (start, end) = (draw(range.start), draw(range.end));
                    if start < end {
                        let end = (position(end) + slack).min(self.plan.positions());
                        stretches.push(Stretch { set, shards, positions: position(start).saturating_sub(slack)..end });
                    }
                }
                begin += layout.samples() as u64;
            }
        }
        stretches.sort_by_key(|stretch| stretch.positions.start);
        stretches
    }

    fn sample(&self, set: usize, draw: u64) -> usize {
        let layout = &self.plan.sets[set];
        let samples = layout.samples() as u64;
        let passes = &self.passes[set];
        let (pass, position) = (draw / samples - passes.first / samples, draw % samples);
        passes.passes[index(pass.into())].sample(layout, index(position.into()))
    }
}

/// The positions of a batch of `samples` that rank `rank` of `ranks` takes: all ranks' shares, one after the other, are the
/// batch, and their lengths differ by one at most.
#[must_use]
pub fn share(samples: usize, rank: usize, ranks: usize) -> Range<usize> {
    let bound = |rank: usize| index(samples as u128 * rank as u128 / ranks.max(1) as u128);
    bound(rank)..bound(rank + 1)
}

fn index(number: u128) -> usize {
    number.saturating_as::<usize>()
}
