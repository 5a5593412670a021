//! Progress callback and checkpoint store of a search.

use pairloom_base::error::Result;

/// Minimum cost of a search with checkpoints, in multiply-adds, unless its store has another one: about 15 seconds on
/// two cores.
pub const MINIMUM_COST: u64 = 1 << 42;

/// Progress callback of a search. A closure with the arguments of [`SearchProgress::report`] is a callback without
/// checkpoints.
pub trait SearchProgress {
    /// Reports progress: `done` rows of `total`. Called on the thread that started the search.
    ///
    /// # Errors
    /// Any error ends the search.
    fn report(&mut self, done: u64, total: u64) -> Result<()>;

    /// Checkpoint store of the search, from which an interrupted search resumes; none by default.
    fn checkpoint_store(&mut self) -> Option<&mut dyn CheckpointStore> {
        None
    }
}

impl<F: FnMut(u64, u64) -> Result<()>> SearchProgress for F {
    fn report(&mut self, done: u64, total: u64) -> Result<()> {
        self(done, total)
    }
}

/// Checkpoint store of searches.
///
/// A name is a digest of everything that the content depends on: the scores and the request. So searches with the same
/// request share checkpoints across runs, and a search never loads a checkpoint of another request.
///
/// The search checks content before it uses it. If content is damaged or has another form, it is computed again.
pub trait CheckpointStore {
    /// Loads the content that was saved under this name, if it is still there.
    ///
    /// # Errors
    /// Any error ends the search.
    fn load(&mut self, name: &str) -> Result<Option<Vec<i32>>>;

    /// Saves content under this name. Replaces content that was damaged.
    ///
    /// # Errors
    /// Any error ends the search.
    fn save(&mut self, name: &str, content: Vec<i32>) -> Result<()>;

    /// Minimum cost of a search with checkpoints, in multiply-adds.
    fn minimum_cost(&self) -> u64 {
        MINIMUM_COST
    }
}
