//! Progress callback and checkpoint store of a search.

use crate::error::Result;

/// Multiply-adds from which on a search has checkpoints, unless its store says otherwise: about a quarter of a minute on two
/// cores.
pub const MINIMUM_COST: u64 = 1 << 42;

/// Progress callback of a search. A function of the two numbers of [`Progress::report`] is one without checkpoints.
pub trait Progress {
    /// Told how many rows of how many are done, on the thread that called.
    ///
    /// # Errors
    /// Any error ends the search.
    fn report(&mut self, done: u64, total: u64) -> Result<()>;

    /// Where the search keeps checkpoints, so that it goes on where it was ended; none by default.
    fn checkpoints(&mut self) -> Option<&mut dyn CheckpointStore> {
        None
    }
}

impl<F: FnMut(u64, u64) -> Result<()>> Progress for F {
    fn report(&mut self, done: u64, total: u64) -> Result<()> {
        self(done, total)
    }
}

/// Checkpoint store of searches.
///
/// A name is a digest of everything that the content follows from: the scores and what is asked of them. So searches that ask
/// the same share checkpoints, whichever run they belong to, and no search finds anything that is not its own.
///
/// Content is checked before it is used. If it is damaged, or of another form, it is computed again.
pub trait CheckpointStore {
    /// The content that was saved under this name, if it is still there.
    ///
    /// # Errors
    /// Any error ends the search.
    fn load(&mut self, name: &str) -> Result<Option<Vec<i32>>>;

    /// Saves content under this name, and replaces what was there, if that was damaged.
    ///
    /// # Errors
    /// Any error ends the search.
    fn save(&mut self, name: &str, content: Vec<i32>) -> Result<()>;

    /// Multiply-adds from which on a search has checkpoints.
    fn minimum_cost(&self) -> u64 {
        MINIMUM_COST
    }
}
