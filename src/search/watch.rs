//! Whom a search tells how far it is, and who keeps what it has found so far.

use crate::error::Result;

/// Multiply-adds whose result is worth keeping: about a quarter of a minute on two cores.
pub const WORTH: u64 = 1 << 42;

/// Who watches a search. A function of the two numbers of [`Watcher::tell`] is one that keeps nothing.
pub trait Watcher {
    /// Told how many rows of how many are done, on the thread that called.
    ///
    /// # Errors
    /// Any error ends the search.
    fn tell(&mut self, done: u64, all: u64) -> Result<()>;

    /// Who keeps what is found, so that a long search goes on where it was ended; nobody by default.
    fn keeper(&mut self) -> Option<&mut dyn Keeper> {
        None
    }
}

/// See [`Watcher`].
pub type Watch<'w> = &'w mut dyn Watcher;

impl<F: FnMut(u64, u64) -> Result<()>> Watcher for F {
    fn tell(&mut self, done: u64, all: u64) -> Result<()> {
        self(done, all)
    }
}

/// Keeps what a search has found so far, under names that say what it follows from: the vectors, how they are scored, and what
/// is asked, all by content. So nothing is found under a name that does not belong there, whoever else keeps in the same place,
/// and searches that ask the same share it.
///
/// What is given back is looked at before it is used; what is not of the right form is computed again.
pub trait Keeper {
    /// What was kept under this name, if it is still there and sound.
    ///
    /// # Errors
    /// Any error ends the search.
    fn kept(&mut self, name: &str) -> Result<Option<Vec<i32>>>;

    /// Keeps it. A name is given twice where what was kept was not of the right form.
    ///
    /// # Errors
    /// Any error ends the search.
    fn keep(&mut self, name: &str, content: Vec<i32>) -> Result<()>;

    /// How many multiply-adds are worth being kept.
    fn worth(&self) -> u64 {
        WORTH
    }
}
