//! A file of word vectors that is being read.

use std::io::{self, BufRead};
use std::path::Path;

use crate::error::{Error, Result};

/// Longest word. The longest of the published files, made of phrases or of whole addresses, have a few hundred bytes.
pub(super) const LONGEST_WORD: usize = 4096;
/// Entries between two looks at whether to go on.
const PAUSE: u64 = 4096;

/// A file that is being read.
pub(super) struct Source<'s> {
    pub(super) path: &'s Path,
    pub(super) content: Box<dyn BufRead + 's>,
    pub(super) proceed: &'s mut dyn FnMut() -> Result<()>,
}

impl Source<'_> {
    /// Fails if entry `number` is one before which to look whether to go on, and not to.
    pub(super) fn proceed(&mut self, number: u64) -> Result<()> {
        if number.is_multiple_of(PAUSE) { (self.proceed)() } else { Ok(()) }
    }

    pub(super) fn failed(&self, error: &io::Error) -> Error {
        Error::io("read", self.path, error)
    }
}
