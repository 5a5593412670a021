//! Prefetching: opens the shards that a loader needs next, and releases the shards it no longer needs.

use super::builder::MappedColumns;
use super::data::LoaderData;
use pairloom_kernels::epoch::ShardWindow;

/// Position of a reader among the shard windows of an epoch.
#[derive(Debug, Default)]
pub(super) struct Prefetcher {
    /// True for each window that is active or has ended.
    started: Vec<bool>,
    /// Windows in use or prefetched.
    active: Vec<usize>,
    /// Next position at which a window begins or ends.
    next_change: usize,
}

impl Prefetcher {
    /// Moves the reader to `position`. Returns the windows to read (those that have begun, and the next one of every
    /// data set) and those that have ended. Both are empty between [`Prefetcher::next_change`] positions.
    fn advance<'s>(
        &mut self,
        position: usize,
        windows: &'s [ShardWindow],
    ) -> (Vec<&'s ShardWindow>, Vec<&'s ShardWindow>) {
        if position < self.next_change {
            return (vec![], vec![]);
        }
        let (open, mut ended): (Vec<usize>, Vec<usize>) =
            self.active.iter().partition(|&&open| windows[open].positions.end > position);
        self.active = open;
        self.started.resize(windows.len(), false);
        let mut begun = Vec::new();
        for (place, window) in windows.iter().enumerate() {
            let waits =
                |&open: &usize| windows[open].data_set == window.data_set && windows[open].positions.start > position;
            if self.started[place] || (window.positions.start > position && self.active.iter().any(waits)) {
                continue;
            }
            self.started[place] = true;
            if window.positions.end > position {
                self.active.push(place);
                begun.push(window);
            } else {
                // The window is shorter than a batch: it began and ended since the last call.
                ended.push(place);
            }
        }
        let bounds = self.active.iter().flat_map(|&open| [windows[open].positions.start, windows[open].positions.end]);
        self.next_change = bounds.filter(|&bound| bound > position).min().unwrap_or(usize::MAX);
        (begun, ended.into_iter().map(|ended| &windows[ended]).collect())
    }

    /// Returns true if an active window needs a shard.
    fn is_needed(&self, set: usize, shard: usize, windows: &[ShardWindow]) -> bool {
        self.active.iter().any(|&open| {
            let window = &windows[open];
            window.data_set == set && window.shards.contains(&shard)
        })
    }

    /// Prefetches the windows that come next, and releases the shards of windows that have ended.
    pub fn prefetch(&mut self, position: usize, windows: &[ShardWindow], data: &LoaderData) {
        let (begun, ended) = self.advance(position, windows);
        for window in begun {
            data.sets()[window.data_set].images.prefetch(window.shards.iter().copied());
        }
        for window in ended {
            for &shard in window.shards.iter().filter(|&&shard| !self.is_needed(window.data_set, shard, windows)) {
                data.sets()[window.data_set].images.release(shard);
            }
        }
    }

    /// Releases the mapped columns of a thread whose windows have ended.
    pub fn release_columns(&mut self, position: usize, windows: &[ShardWindow], mapped: &mut MappedColumns) {
        let (_, ended) = self.advance(position, windows);
        if !ended.is_empty() {
            mapped.retain(|set, shard| self.is_needed(set, shard, windows));
        }
    }

    /// Releases all shards at the end, if `releases` is true. A global shuffle keeps its shards mapped: the next epoch
    /// needs the same shards, and chunks that have been verified need not be verified again.
    pub fn release_all(&mut self, windows: &[ShardWindow], data: &LoaderData, releases: bool) {
        self.active.clear();
        // All windows, since readers may be in windows that this reader has not reached.
        for window in windows.iter().filter(|_| releases) {
            for &shard in &window.shards {
                data.sets()[window.data_set].images.release(shard);
            }
        }
    }
}
